/* SPDX-License-Identifier: Apache-2.0
 *
 * A layer in plain C that stands in front of one slot: each allocation asks for
 * 64 bytes more.  All else goes past it. */
#include <stdlib.h>

#include "devrt/backends/abi/devrt_layer.h"

static const devrt_host_v0* the_host;

struct front {
  const devrt_next_v0* next;
};

static devrt_status more_alloc(void* self, uint32_t device, uint64_t size,
                               uint64_t alignment, void** ptr) {
  const devrt_next_v0* next = ((struct front*)self)->next;
  return next->ops->alloc(next->self, device, size + 64, alignment, ptr);
}

static void front_shutdown(void* self) { free(self); }

static devrt_status attach(void* layer, const devrt_next_v0* next,
                           devrt_backend_v0* backend) {
  static devrt_ops_v0 ops;
  struct front* front = malloc(sizeof *front);
  (void)layer;
  if (front == NULL) {
    return the_host->error_create(the_host->host, DEVRT_RESOURCE_EXHAUSTED, 0,
                                  "out of host memory", 18);
  }
  front->next = next;
  ops.struct_size = sizeof ops;
  ops.shutdown = front_shutdown;
  ops.alloc = more_alloc;
  backend->self = front;
  backend->ops = &ops;
  return NULL;
}

const devrt_manifest_v0 devrt_layer_manifest_v0 = {DEVRT_LAYER_MANIFEST_MAGIC,
                                                   sizeof(devrt_manifest_v0),
                                                   DEVRT_ABI_MAJOR,
                                                   DEVRT_ABI_MINOR,
                                                   0,
                                                   0,
                                                   "one_slot",
                                                   "devrt tests",
                                                   "1.0"};

devrt_status devrt_layer_open_v0(const devrt_host_v0* host,
                                 devrt_layer_v0* layer) {
  the_host = host;
  layer->attach = attach;
  return NULL;
}
