/* SPDX-License-Identifier: Apache-2.0
 *
 * The backend "mybackend": its state, and which function is in which file.  The
 * functions have the names and signatures of the slots in devrt_plugin.h.
 */
#ifndef MYBACKEND_BACKEND_H_
#define MYBACKEND_BACKEND_H_

#include <pthread.h>
#include <stdint.h>

#include "devrt/backends/abi/devrt_plugin.h"

#define MYBACKEND_DEVICES 1u
#define MYBACKEND_MEMORY (UINT64_C(64) << 20)
#define MYBACKEND_ALIGNMENT 256u

/* What a devrt_stream points to. */
struct mybackend_stream {
  uint32_t device;
  uint32_t kind; /* DEVRT_STREAM_CREATE, _LEGACY or _PER_THREAD */
};

/* What a devrt_event points to. */
struct mybackend_event {
  uint32_t device;
};

/* `self`: one opened backend. */
struct mybackend_state {
  const devrt_host_v0* host;
  pthread_mutex_t mutex; /* guards `used` */
  uint64_t used[MYBACKEND_DEVICES];
  /* The default streams by kind; that of CREATE is not used. */
  struct mybackend_stream defaults[MYBACKEND_DEVICES][3];
};

/* plugin.c */
devrt_status mybackend_error(const struct mybackend_state* self,
                             devrt_code code, const char* text);
devrt_status mybackend_no_device(const struct mybackend_state* self,
                                 uint32_t device);

/* device.c */
devrt_status mybackend_device_count(void* self, uint32_t* count);
devrt_status mybackend_device_props(void* self, uint32_t device,
                                    devrt_device_props_v0* props);
devrt_status mybackend_device_sync(void* self, uint32_t device);
devrt_status mybackend_context_enter(void* self, uint32_t device,
                                     devrt_context* previous);
devrt_status mybackend_context_exit(void* self, const devrt_context* previous);
devrt_status mybackend_context_current(void* self, uint32_t* device);

/* memory.c */
devrt_status mybackend_mem_info(void* self, uint32_t device,
                                uint64_t* free_bytes, uint64_t* total_bytes);
devrt_status mybackend_alloc(void* self, uint32_t device, uint64_t size,
                             uint64_t alignment, void** ptr);
devrt_status mybackend_dealloc(void* self, uint32_t device, void* ptr,
                               uint64_t size);

/* stream.c */
devrt_status mybackend_stream_create(void* self, uint32_t device,
                                     const devrt_stream_desc_v0* desc,
                                     devrt_stream* stream);
devrt_status mybackend_stream_destroy(void* self, devrt_stream stream);
devrt_status mybackend_stream_query(void* self, devrt_stream stream,
                                    uint32_t* done);
devrt_status mybackend_stream_sync(void* self, devrt_stream stream);
devrt_status mybackend_stream_native(void* self, devrt_stream stream,
                                     void** native);
devrt_status mybackend_stream_wait_event(void* self, devrt_stream stream,
                                         devrt_event event);

/* event.c */
devrt_status mybackend_event_create(void* self, uint32_t device, uint32_t flags,
                                    devrt_event* event);
devrt_status mybackend_event_destroy(void* self, devrt_event event);
devrt_status mybackend_event_record(void* self, devrt_event event,
                                    devrt_stream stream);
devrt_status mybackend_event_query(void* self, devrt_event event,
                                   uint32_t* done);
devrt_status mybackend_event_sync(void* self, devrt_event event);

/* copy.c */
devrt_status mybackend_copy_async(void* self, devrt_stream stream, void* dst,
                                  const void* src, uint64_t size,
                                  uint32_t kind);
devrt_status mybackend_fill_async(void* self, devrt_stream stream, void* dst,
                                  uint32_t value, uint64_t size);

#endif /* MYBACKEND_BACKEND_H_ */
