/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory of the device: here the host's, counted.
 */
#define _POSIX_C_SOURCE 200809L /* posix_memalign */

#include <stdlib.h>

#include "backend.h"

devrt_status mybackend_mem_info(void* self, uint32_t device,
                                uint64_t* free_bytes, uint64_t* total_bytes) {
  struct mybackend_state* backend = self;
  if (device >= MYBACKEND_DEVICES) return mybackend_no_device(self, device);
  pthread_mutex_lock(&backend->mutex);
  *free_bytes = MYBACKEND_MEMORY - backend->used[device];
  pthread_mutex_unlock(&backend->mutex);
  *total_bytes = MYBACKEND_MEMORY;
  return NULL;
}

static int take(struct mybackend_state* backend, uint32_t device,
                uint64_t size) {
  int fits;
  pthread_mutex_lock(&backend->mutex);
  fits = size <= MYBACKEND_MEMORY - backend->used[device];
  if (fits) backend->used[device] += size;
  pthread_mutex_unlock(&backend->mutex);
  return fits;
}

static void give_back(struct mybackend_state* backend, uint32_t device,
                      uint64_t size) {
  pthread_mutex_lock(&backend->mutex);
  backend->used[device] -= size;
  pthread_mutex_unlock(&backend->mutex);
}

/* RESOURCE_EXHAUSTED when there is no room; then nothing has changed. */
devrt_status mybackend_alloc(void* self, uint32_t device, uint64_t size,
                             uint64_t alignment, void** ptr) {
  void* memory;
  if (device >= MYBACKEND_DEVICES) return mybackend_no_device(self, device);
  if (!take(self, device, size)) {
    return mybackend_error(self, DEVRT_RESOURCE_EXHAUSTED,
                           "out of device memory");
  }
  if (alignment < MYBACKEND_ALIGNMENT) alignment = MYBACKEND_ALIGNMENT;
  if (posix_memalign(&memory, alignment, size) != 0) {
    give_back(self, device, size);
    return mybackend_error(self, DEVRT_RESOURCE_EXHAUSTED,
                           "out of host memory");
  }
  *ptr = memory;
  return NULL;
}

devrt_status mybackend_dealloc(void* self, uint32_t device, void* ptr,
                               uint64_t size) {
  if (device >= MYBACKEND_DEVICES) return mybackend_no_device(self, device);
  free(ptr);
  give_back(self, device, size);
  return NULL;
}
