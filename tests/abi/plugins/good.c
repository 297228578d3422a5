/* SPDX-License-Identifier: Apache-2.0
 *
 * "good": the smallest complete backend, in C99.  Two devices in host memory,
 * every operation done when its call returns, no optional capability.
 *
 * The defective plugins in this folder include this file with
 * GOOD_WITHOUT_SYMBOLS defined, and bring a manifest and an open of their own.
 *
 * It is compiled against headers of an older minor version, too: it uses
 * neither the last slot nor the last property (make_minor.py).
 */
#define _POSIX_C_SOURCE 200809L /* posix_memalign */

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "devrt/backends/abi/devrt_plugin.h"

#define DEVICES 2u
#define MEMORY (UINT64_C(64) << 20)
#define ALIGNMENT 256u

struct stream {
  uint32_t device;
  uint32_t kind; /* DEVRT_STREAM_CREATE, _LEGACY or _PER_THREAD */
};

struct event {
  uint32_t device;
};

/* One opened backend: `self`. */
struct good {
  const devrt_host_v0* host;
  pthread_mutex_t mutex; /* guards `used` */
  uint64_t used[DEVICES];
  struct stream defaults[DEVICES][3]; /* by kind */
};

/* The thread's current device plus one; 0: the thread has none yet. */
static __thread uint32_t current;

static struct stream* stream_of(devrt_stream handle) {
  return (struct stream*)(void*)handle;
}
static struct event* event_of(devrt_event handle) {
  return (struct event*)(void*)handle;
}

static devrt_status fail(struct good* good, devrt_code code, const char* text) {
  const devrt_host_v0* host = good->host;
  return host->error_create(host->host, code, 0, text, strlen(text));
}
static devrt_status no_device(struct good* good, uint32_t device) {
  char text[80];
  snprintf(text, sizeof text,
           "Device index value %u is out of index range [0, %u)", device,
           DEVICES);
  return fail(good, DEVRT_INVALID_ARGUMENT, text);
}

/* ---- Devices and memory -------------------------------------------------- */

static devrt_status good_device_count(void* self, uint32_t* count) {
  (void)self;
  *count = DEVICES;
  return NULL;
}

static devrt_status good_device_props(void* self, uint32_t device,
                                      devrt_device_props_v0* props) {
  devrt_device_props_v0 mine;
  uint32_t size = props->struct_size;
  if (device >= DEVICES) return no_device(self, device);
  memset(&mine, 0, sizeof mine);
  mine.struct_size = size;
  mine.ordinal = device;
  snprintf(mine.name, sizeof mine.name, "Good device %u", device);
  snprintf(mine.arch, sizeof mine.arch, "host");
  mine.uuid[0] = 0x60;
  mine.uuid[15] = (uint8_t)(device + 1);
  mine.multiprocessors = 1;
  mine.total_memory = MEMORY;
  mine.alloc_alignment = ALIGNMENT;
  mine.copy_engines = 1;
  mine.elapsed_resolution_ns = 1;
  mine.pageable_async = DEVRT_PAGEABLE_SYNC;
  memcpy(props, &mine, size < sizeof mine ? size : sizeof mine);
  return NULL;
}

static devrt_status good_mem_info(void* self, uint32_t device,
                                  uint64_t* free_bytes, uint64_t* total_bytes) {
  struct good* good = self;
  if (device >= DEVICES) return no_device(good, device);
  pthread_mutex_lock(&good->mutex);
  *free_bytes = MEMORY - good->used[device];
  pthread_mutex_unlock(&good->mutex);
  *total_bytes = MEMORY;
  return NULL;
}

static devrt_status good_alloc(void* self, uint32_t device, uint64_t size,
                               uint64_t alignment, void** ptr) {
  struct good* good = self;
  int fits;
  void* memory;
  if (device >= DEVICES) return no_device(good, device);
  pthread_mutex_lock(&good->mutex);
  fits = size <= MEMORY - good->used[device];
  if (fits) good->used[device] += size;
  pthread_mutex_unlock(&good->mutex);
  if (!fits) return fail(good, DEVRT_RESOURCE_EXHAUSTED, "out of memory");
  if (alignment < ALIGNMENT) alignment = ALIGNMENT;
  if (posix_memalign(&memory, alignment, size) != 0) {
    pthread_mutex_lock(&good->mutex);
    good->used[device] -= size;
    pthread_mutex_unlock(&good->mutex);
    return fail(good, DEVRT_RESOURCE_EXHAUSTED, "out of host memory");
  }
  *ptr = memory;
  return NULL;
}

static devrt_status good_dealloc(void* self, uint32_t device, void* ptr,
                                 uint64_t size) {
  struct good* good = self;
  if (device >= DEVICES) return no_device(good, device);
  free(ptr);
  pthread_mutex_lock(&good->mutex);
  good->used[device] -= size;
  pthread_mutex_unlock(&good->mutex);
  return NULL;
}

/* ---- Streams ------------------------------------------------------------- */

static devrt_status good_stream_create(void* self, uint32_t device,
                                       const devrt_stream_desc_v0* desc,
                                       devrt_stream* out) {
  struct good* good = self;
  struct stream* made;
  if (device >= DEVICES) return no_device(good, device);
  if (desc->kind == DEVRT_STREAM_ADOPT) {
    return fail(good, DEVRT_UNIMPLEMENTED, "foreign streams do not exist here");
  }
  if (desc->kind > DEVRT_STREAM_ADOPT) {
    return fail(good, DEVRT_INVALID_ARGUMENT, "unknown kind of stream");
  }
  if (desc->kind != DEVRT_STREAM_CREATE) {
    *out = (devrt_stream)(void*)&good->defaults[device][desc->kind];
    return NULL;
  }
  made = malloc(sizeof *made);
  if (made == NULL) {
    return fail(good, DEVRT_RESOURCE_EXHAUSTED, "out of host memory");
  }
  made->device = device;
  made->kind = DEVRT_STREAM_CREATE;
  *out = (devrt_stream)(void*)made;
  return NULL;
}

static devrt_status good_stream_destroy(void* self, devrt_stream stream) {
  if (stream_of(stream)->kind != DEVRT_STREAM_CREATE) {
    return fail(self, DEVRT_INVALID_ARGUMENT,
                "a default stream cannot be destroyed");
  }
  free(stream_of(stream));
  return NULL;
}

static devrt_status good_stream_query(void* self, devrt_stream stream,
                                      uint32_t* done) {
  (void)self;
  (void)stream;
  *done = 1;
  return NULL;
}

static devrt_status good_stream_sync(void* self, devrt_stream stream) {
  (void)self;
  (void)stream;
  return NULL;
}

static devrt_status good_stream_native(void* self, devrt_stream stream,
                                       void** native) {
  (void)self;
  *native = stream;
  return NULL;
}

static devrt_status good_stream_wait_event(void* self, devrt_stream stream,
                                           devrt_event event) {
  (void)self;
  (void)stream;
  (void)event;
  return NULL;
}

/* ---- Events -------------------------------------------------------------- */

static devrt_status good_event_create(void* self, uint32_t device,
                                      uint32_t flags, devrt_event* out) {
  struct good* good = self;
  struct event* made;
  (void)flags;
  if (device >= DEVICES) return no_device(good, device);
  made = malloc(sizeof *made);
  if (made == NULL) {
    return fail(good, DEVRT_RESOURCE_EXHAUSTED, "out of host memory");
  }
  made->device = device;
  *out = (devrt_event)(void*)made;
  return NULL;
}

static devrt_status good_event_destroy(void* self, devrt_event event) {
  (void)self;
  free(event_of(event));
  return NULL;
}

static devrt_status good_event_record(void* self, devrt_event event,
                                      devrt_stream stream) {
  if (event_of(event)->device != stream_of(stream)->device) {
    return fail(self, DEVRT_INVALID_ARGUMENT,
                "the event belongs to another device than the stream");
  }
  return NULL;
}

static devrt_status good_event_query(void* self, devrt_event event,
                                     uint32_t* done) {
  (void)self;
  (void)event;
  *done = 1;
  return NULL;
}

static devrt_status good_event_sync(void* self, devrt_event event) {
  (void)self;
  (void)event;
  return NULL;
}

/* ---- Work ---------------------------------------------------------------- */

static devrt_status good_copy_async(void* self, devrt_stream stream, void* dst,
                                    const void* src, uint64_t size,
                                    uint32_t kind) {
  (void)self;
  (void)stream;
  (void)kind;
  memcpy(dst, src, size);
  return NULL;
}

static devrt_status good_fill_async(void* self, devrt_stream stream, void* dst,
                                    uint32_t value, uint64_t size) {
  (void)self;
  (void)stream;
  memset(dst, (int)(value & 0xff), size);
  return NULL;
}

static devrt_status good_device_sync(void* self, uint32_t device) {
  return device < DEVICES ? NULL : no_device(self, device);
}

static devrt_status good_context_enter(void* self, uint32_t device,
                                       devrt_context* previous) {
  if (device >= DEVICES) return no_device(self, device);
  if (previous != NULL) {
    previous->state[0] = current;
    previous->state[1] = 0;
  }
  current = device + 1;
  return NULL;
}

static devrt_status good_context_exit(void* self,
                                      const devrt_context* previous) {
  (void)self;
  current = (uint32_t)previous->state[0];
  return NULL;
}

static devrt_status good_context_current(void* self, uint32_t* device) {
  (void)self;
  *device = current == 0 ? 0 : current - 1;
  return NULL;
}

/* ---- Beginning and end --------------------------------------------------- */

static void good_shutdown(void* self) {
  struct good* good = self;
  pthread_mutex_destroy(&good->mutex);
  free(good);
}

static const devrt_ops_v0 good_ops = {
    .struct_size = sizeof(devrt_ops_v0),
    .abi_minor = DEVRT_ABI_MINOR,
    .shutdown = good_shutdown,
    .device_count = good_device_count,
    .device_props = good_device_props,
    .mem_info = good_mem_info,
    .alloc = good_alloc,
    .dealloc = good_dealloc,
    .stream_create = good_stream_create,
    .stream_destroy = good_stream_destroy,
    .stream_query = good_stream_query,
    .stream_sync = good_stream_sync,
    .stream_native = good_stream_native,
    .stream_wait_event = good_stream_wait_event,
    .event_create = good_event_create,
    .event_destroy = good_event_destroy,
    .event_record = good_event_record,
    .event_query = good_event_query,
    .event_sync = good_event_sync,
    .copy_async = good_copy_async,
    .fill_async = good_fill_async,
    .device_sync = good_device_sync,
    .context_enter = good_context_enter,
    .context_exit = good_context_exit,
    .context_current = good_context_current,
};

static devrt_status good_open(const devrt_host_v0* host,
                              devrt_backend_v0* backend) {
  struct good* good = calloc(1, sizeof *good);
  if (good == NULL) {
    static const char kText[] = "out of host memory";
    return host->error_create(host->host, DEVRT_RESOURCE_EXHAUSTED, 0, kText,
                              sizeof kText - 1);
  }
  good->host = host;
  pthread_mutex_init(&good->mutex, NULL);
  for (uint32_t device = 0; device < DEVICES; ++device) {
    for (uint32_t kind = 0; kind < 3; ++kind) {
      good->defaults[device][kind].device = device;
      good->defaults[device][kind].kind = kind;
    }
  }
  backend->self = good;
  backend->ops = &good_ops;
  backend->capabilities = 0;
  return NULL;
}

#ifndef GOOD_WITHOUT_SYMBOLS

#ifndef GOOD_NAME
#define GOOD_NAME "good"
#endif

const devrt_manifest_v0 devrt_plugin_manifest_v0 = {
    DEVRT_MANIFEST_MAGIC,
    sizeof(devrt_manifest_v0),
    DEVRT_ABI_MAJOR,
    DEVRT_ABI_MINOR,
    500,
    0,
    GOOD_NAME,
    "devrt tests",
    "1.0",
};

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  return good_open(host, backend);
}

#endif /* GOOD_WITHOUT_SYMBOLS */
