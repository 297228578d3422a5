/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams: queues of the device's work.  Here work is done when it is
 * submitted, so that a stream has nothing to remember.
 */
#include <stdlib.h>

#include "backend.h"

/* devrt keeps apart what each thread has submitted, so it needs a handle of
 * each thread's default stream. */
static __thread struct mybackend_stream per_thread[MYBACKEND_DEVICES];

static struct mybackend_stream* stream_of(devrt_stream stream) {
  return (struct mybackend_stream*)(void*)stream;
}

devrt_status mybackend_stream_create(void* self, uint32_t device,
                                     const devrt_stream_desc_v0* desc,
                                     devrt_stream* stream) {
  struct mybackend_state* backend = self;
  struct mybackend_stream* made;
  if (device >= MYBACKEND_DEVICES) return mybackend_no_device(self, device);
  if (desc->kind == DEVRT_STREAM_LEGACY) {
    *stream = (devrt_stream)(void*)&backend->defaults[device][desc->kind];
    return NULL;
  }
  if (desc->kind == DEVRT_STREAM_PER_THREAD) {
    per_thread[device] = backend->defaults[device][desc->kind];
    *stream = (devrt_stream)(void*)&per_thread[device];
    return NULL;
  }
  if (desc->kind != DEVRT_STREAM_CREATE) {
    return mybackend_error(self, DEVRT_UNIMPLEMENTED,
                           "streams of others cannot be adopted");
  }
  made = malloc(sizeof *made);
  if (made == NULL) {
    return mybackend_error(self, DEVRT_RESOURCE_EXHAUSTED,
                           "out of host memory");
  }
  made->device = device;
  made->kind = DEVRT_STREAM_CREATE;
  *stream = (devrt_stream)(void*)made;
  return NULL;
}

devrt_status mybackend_stream_destroy(void* self, devrt_stream stream) {
  if (stream_of(stream)->kind != DEVRT_STREAM_CREATE) {
    return mybackend_error(self, DEVRT_INVALID_ARGUMENT,
                           "a default stream cannot be destroyed");
  }
  free(stream_of(stream));
  return NULL;
}

devrt_status mybackend_stream_query(void* self, devrt_stream stream,
                                    uint32_t* done) {
  (void)self;
  (void)stream;
  *done = 1;
  return NULL;
}

devrt_status mybackend_stream_sync(void* self, devrt_stream stream) {
  (void)self;
  (void)stream;
  return NULL;
}

devrt_status mybackend_stream_native(void* self, devrt_stream stream,
                                     void** native) {
  struct mybackend_state* backend = self;
  const struct mybackend_stream* asked = stream_of(stream);
  *native = stream;
  if (asked->kind == DEVRT_STREAM_PER_THREAD) {
    /* One value stands for the streams of all threads. */
    *native = &backend->defaults[asked->device][DEVRT_STREAM_PER_THREAD];
  }
  return NULL;
}

/* What the event stands for is complete. */
devrt_status mybackend_stream_wait_event(void* self, devrt_stream stream,
                                         devrt_event event) {
  (void)self;
  (void)stream;
  (void)event;
  return NULL;
}
