/* SPDX-License-Identifier: Apache-2.0
 *
 * How the backend begins and ends, what it is called, and its table.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "backend.h"

static void mybackend_shutdown(void* self) {
  struct mybackend_state* backend = self;
  pthread_mutex_destroy(&backend->mutex);
  free(backend);
}

/* A slot that is not here is NULL: the host answers UNIMPLEMENTED for it. */
static const devrt_ops_v0 ops = {
    .struct_size = sizeof(devrt_ops_v0),
    .abi_minor = DEVRT_ABI_MINOR,
    .shutdown = mybackend_shutdown,
    .device_count = mybackend_device_count,
    .device_props = mybackend_device_props,
    .mem_info = mybackend_mem_info,
    .alloc = mybackend_alloc,
    .dealloc = mybackend_dealloc,
    .stream_create = mybackend_stream_create,
    .stream_destroy = mybackend_stream_destroy,
    .stream_query = mybackend_stream_query,
    .stream_sync = mybackend_stream_sync,
    .stream_native = mybackend_stream_native,
    .stream_wait_event = mybackend_stream_wait_event,
    .event_create = mybackend_event_create,
    .event_destroy = mybackend_event_destroy,
    .event_record = mybackend_event_record,
    .event_query = mybackend_event_query,
    .event_sync = mybackend_event_sync,
    .copy_async = mybackend_copy_async,
    .fill_async = mybackend_fill_async,
    .device_sync = mybackend_device_sync,
    .context_enter = mybackend_context_enter,
    .context_exit = mybackend_context_exit,
    .context_current = mybackend_context_current,
};

/* Read from the file before any code of it runs. */
const devrt_manifest_v0 devrt_plugin_manifest_v0 = {
    .magic = DEVRT_MANIFEST_MAGIC,
    .struct_size = sizeof(devrt_manifest_v0),
    .abi_major = DEVRT_ABI_MAJOR,
    .abi_minor = DEVRT_ABI_MINOR,
    .priority = 100,
    .capabilities = 0,
    .backend = "mybackend",
    .vendor = "me",
    .version = "0.1.0",
};

/* Looks for the driver, and no further: no device is touched and no thread is
 * started here.  Without the driver: DEVRT_UNAVAILABLE and the reason. */
devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  static const char kNoMemory[] = "out of host memory";
  struct mybackend_state* self = calloc(1, sizeof *self);
  uint32_t device;
  uint32_t kind;
  if (self == NULL) {
    return host->error_create(host->host, DEVRT_RESOURCE_EXHAUSTED, 0,
                              kNoMemory, sizeof kNoMemory - 1);
  }
  self->host = host;
  pthread_mutex_init(&self->mutex, NULL);
  for (device = 0; device < MYBACKEND_DEVICES; ++device) {
    for (kind = 0; kind < 3; ++kind) {
      self->defaults[device][kind].device = device;
      self->defaults[device][kind].kind = kind;
    }
  }
  backend->self = self;
  backend->ops = &ops;
  backend->capabilities = 0;
  return NULL;
}

devrt_status mybackend_error(const struct mybackend_state* self,
                             devrt_code code, const char* text) {
  const devrt_host_v0* host = self->host;
  return host->error_create(host->host, code, 0, text, strlen(text));
}

devrt_status mybackend_no_device(const struct mybackend_state* self,
                                 uint32_t device) {
  char text[80];
  snprintf(text, sizeof text,
           "Device index value %u is out of index range [0, %u)", device,
           MYBACKEND_DEVICES);
  return mybackend_error(self, DEVRT_INVALID_ARGUMENT, text);
}
