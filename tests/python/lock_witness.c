/* SPDX-License-Identifier: Apache-2.0
 *
 * Says whether the interpreter's lock is held where devrt calls others: counts
 * calls without (0) and with (1) it.  Compiled with LAYER, a layer in front of
 * pointer queries and records; without, the counters and an exchange API of
 * DLPack.  test_lock.py does both, the second under PyTorch's name as well. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>

#include "devrt/arrays/dlpack_abi.h"
#include "devrt/backends/abi/devrt_layer.h"

static int has_lock(void) {
  int (*check)(void) = (int (*)(void))dlsym(RTLD_DEFAULT, "PyGILState_Check");
  return check() != 0;
}

#ifdef LAYER

static void note(const char* counter) {
  ++((int*)dlsym(RTLD_DEFAULT, counter))[has_lock()];
}

static const devrt_host_v0* the_host;

struct front {
  const devrt_next_v0* next;
};

static devrt_status pointer_info(void* self, const void* ptr,
                                 devrt_pointer_info_v0* info) {
  const devrt_next_v0* next = ((struct front*)self)->next;
  note("pointer_queries");
  return next->ops->pointer_info(next->self, ptr, info);
}

static devrt_status event_record(void* self, devrt_event event,
                                 devrt_stream stream) {
  const devrt_next_v0* next = ((struct front*)self)->next;
  note("records");
  return next->ops->event_record(next->self, event, stream);
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
  ops.pointer_info = pointer_info;
  ops.event_record = event_record;
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
                                                   "lock_witness",
                                                   "devrt tests",
                                                   "1.0"};

devrt_status devrt_layer_open_v0(const devrt_host_v0* host,
                                 devrt_layer_v0* layer) {
  the_host = host;
  layer->attach = attach;
  return NULL;
}

#else

int pointer_queries[2];
int records[2];
int ends[2];

/* Of the next tensor: elements of float32. */
void* lent_data;
int32_t lent_type;
int32_t lent_id;
int64_t lent_elements;

static void end(DLManagedTensorVersioned* tensor) {
  ++ends[has_lock()];
  free(tensor->dl_tensor.shape);
  free(tensor);
}

static int lend(void* object, DLManagedTensorVersioned** out) {
  DLManagedTensorVersioned* tensor = calloc(1, sizeof *tensor);
  (void)object;
  tensor->version.major = DLPACK_MAJOR_VERSION;
  tensor->version.minor = DLPACK_MINOR_VERSION;
  tensor->deleter = end;
  tensor->dl_tensor.data = lent_data;
  tensor->dl_tensor.device.device_type = lent_type;
  tensor->dl_tensor.device.device_id = lent_id;
  tensor->dl_tensor.ndim = 1;
  tensor->dl_tensor.dtype.code = kDLFloat;
  tensor->dl_tensor.dtype.bits = 32;
  tensor->dl_tensor.dtype.lanes = 1;
  tensor->dl_tensor.shape = malloc(sizeof(int64_t));
  tensor->dl_tensor.shape[0] = lent_elements;
  *out = tensor;
  return 0;
}

static int default_stream(DLDeviceType type, int32_t id, void** out) {
  (void)type;
  (void)id;
  *out = NULL;
  return 0;
}

DLPackExchangeAPI table = {
    {{DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION}, NULL},
    NULL,
    lend,
    NULL,
    NULL,
    default_stream,
};

#endif
