/* SPDX-License-Identifier: Apache-2.0
 *
 * Legal: a backend with one global state has no use for `self`, and leaves it
 * NULL.
 */
#include "defect.h"

const devrt_manifest_v0 devrt_plugin_manifest_v0 = MANIFEST(0);

static void* state;

/* Checks that `self` is what open gave, and calls the function of good.c. */
#define SLOT(slot, parameters, arguments)                        \
  static devrt_status null_##slot parameters {                   \
    if (self != NULL) return fail(state, DEVRT_INTERNAL, #slot); \
    return good_##slot arguments;                                \
  }

SLOT(mem_info, (void* self, uint32_t d, uint64_t* f, uint64_t* t),
     (state, d, f, t))
SLOT(alloc, (void* self, uint32_t d, uint64_t s, uint64_t a, void** p),
     (state, d, s, a, p))
SLOT(dealloc, (void* self, uint32_t d, void* p, uint64_t s), (state, d, p, s))
SLOT(stream_create,
     (void* self, uint32_t d, const devrt_stream_desc_v0* c, devrt_stream* s),
     (state, d, c, s))
SLOT(stream_destroy, (void* self, devrt_stream s), (state, s))
SLOT(event_create, (void* self, uint32_t d, uint32_t f, devrt_event* e),
     (state, d, f, e))
SLOT(event_record, (void* self, devrt_event e, devrt_stream s), (state, e, s))
SLOT(device_props, (void* self, uint32_t d, devrt_device_props_v0* p),
     (state, d, p))
SLOT(device_sync, (void* self, uint32_t d), (state, d))
SLOT(context_enter, (void* self, uint32_t d, devrt_context* c), (state, d, c))

static void null_shutdown(void* self) {
  (void)self;
  good_shutdown(state);
}

devrt_status devrt_plugin_open_v0(const devrt_host_v0* host,
                                  devrt_backend_v0* backend) {
  static devrt_ops_v0 ops;
  devrt_status status = good_open(host, backend);
  if (status != NULL) return status;
  state = backend->self;
  ops = good_ops;
  ops.shutdown = null_shutdown;
  ops.mem_info = null_mem_info;
  ops.alloc = null_alloc;
  ops.dealloc = null_dealloc;
  ops.stream_create = null_stream_create;
  ops.stream_destroy = null_stream_destroy;
  ops.event_create = null_event_create;
  ops.event_record = null_event_record;
  ops.device_props = null_device_props;
  ops.device_sync = null_device_sync;
  ops.context_enter = null_context_enter;
  backend->self = NULL;
  backend->ops = &ops;
  return NULL;
}
