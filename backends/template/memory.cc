// SPDX-License-Identifier: Apache-2.0
//
// Memory of the device.

#include "backend.h"

namespace mybackend_plugin {

devrt_status Backend::mem_info(uint32_t device, uint64_t* free_bytes,
                               uint64_t* total_bytes) {
  if (device >= kDevices) return NoDevice(device);
  static_cast<void>(free_bytes);
  static_cast<void>(total_bytes);
  return NotWritten("mem_info", "memory.cc");
}

// RESOURCE_EXHAUSTED when there is no room; then nothing has changed.
devrt_status Backend::alloc(uint32_t device, uint64_t size, uint64_t alignment,
                            void** ptr) {
  if (device >= kDevices) return NoDevice(device);
  static_cast<void>(size);
  static_cast<void>(alignment);
  static_cast<void>(ptr);
  return NotWritten("alloc", "memory.cc");
}

devrt_status Backend::dealloc(uint32_t device, void* ptr, uint64_t size) {
  if (device >= kDevices) return NoDevice(device);
  static_cast<void>(ptr);
  static_cast<void>(size);
  return NotWritten("dealloc", "memory.cc");
}

}  // namespace mybackend_plugin
