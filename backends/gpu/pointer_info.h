// SPDX-License-Identifier: Apache-2.0
//
// The answer to a question for a pointer, for the Api of each vendor.

#ifndef DEVRT_BACKENDS_GPU_POINTER_INFO_H_
#define DEVRT_BACKENDS_GPU_POINTER_INFO_H_

#include <cstdint>

#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::gpu {

// Says that the driver does not know the pointer.
inline void SetUnregistered(devrt_pointer_info_v0* info) {
  info->kind = DEVRT_POINTER_UNREGISTERED;
  info->device = -1;
  info->host_readable = 1;
  info->base = nullptr;
  info->size = 0;
  info->allocation_id = 0;
}

// Says that the pointer is into the allocation [base, base + size) with the
// number `id`.
inline void SetAllocation(uint32_t kind, int device, void* base, uint64_t size,
                          uint64_t id, devrt_pointer_info_v0* info) {
  info->kind = kind;
  info->device = device;
  info->host_readable = kind != DEVRT_POINTER_DEVICE;
  info->base = base;
  info->size = size;
  info->allocation_id = id;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_POINTER_INFO_H_
