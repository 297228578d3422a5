/* SPDX-License-Identifier: Apache-2.0
 *
 * Devices: how many there are, what they are, and the calling thread's current
 * one.
 */
#include <stdio.h>
#include <string.h>

#include "backend.h"

/* The thread's current device plus one; 0: it has none yet.  A driver that
 * keeps a current device itself is asked instead, and there is one truth. */
static __thread uint32_t current;

devrt_status mybackend_device_count(void* self, uint32_t* count) {
  (void)self;
  *count = MYBACKEND_DEVICES;
  return NULL;
}

devrt_status mybackend_device_props(void* self, uint32_t device,
                                    devrt_device_props_v0* props) {
  const uint32_t size = props->struct_size;
  devrt_device_props_v0 mine;
  if (device >= MYBACKEND_DEVICES) return mybackend_no_device(self, device);
  memset(&mine, 0, sizeof mine);
  mine.struct_size = size;
  mine.ordinal = device;
  snprintf(mine.name, sizeof mine.name, "mybackend device %u", device);
  snprintf(mine.arch, sizeof mine.arch, "host");
  /* Of this device and no other, the same in every process. */
  snprintf((char*)mine.uuid, sizeof mine.uuid, "%.13s-%u", "mybackend", device);
  mine.multiprocessors = 1;
  mine.total_memory = MYBACKEND_MEMORY;
  mine.alloc_alignment = MYBACKEND_ALIGNMENT;
  mine.copy_engines = 1;
  mine.elapsed_resolution_ns = 1;
  mine.pageable_async = DEVRT_PAGEABLE_SYNC;
  /* As much as the host knows. */
  memcpy(props, &mine, size < sizeof mine ? size : sizeof mine);
  return NULL;
}

/* Every operation is complete when its call returns. */
devrt_status mybackend_device_sync(void* self, uint32_t device) {
  return device < MYBACKEND_DEVICES ? NULL : mybackend_no_device(self, device);
}

devrt_status mybackend_context_enter(void* self, uint32_t device,
                                     devrt_context* previous) {
  if (device >= MYBACKEND_DEVICES) return mybackend_no_device(self, device);
  if (previous != NULL) {
    previous->state[0] = current;
    previous->state[1] = 0;
  }
  current = device + 1;
  return NULL;
}

devrt_status mybackend_context_exit(void* self, const devrt_context* previous) {
  (void)self;
  current = (uint32_t)previous->state[0];
  return NULL;
}

devrt_status mybackend_context_current(void* self, uint32_t* device) {
  (void)self;
  *device = current == 0 ? 0 : current - 1;
  return NULL;
}
