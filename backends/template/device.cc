// SPDX-License-Identifier: Apache-2.0
//
// Devices: how many there are, what they are, and the calling thread's current
// one.  This file works as it stands, for one device that does nothing.

#include <cstdio>

#include "backend.h"

namespace mybackend_plugin {
namespace {

// The thread's current device plus one; 0: it has none yet.  A driver that
// keeps a current device itself is asked instead, and there is one truth.
thread_local uint32_t current = 0;

}  // namespace

devrt_status Backend::device_count(uint32_t* count) {
  *count = kDevices;
  return nullptr;
}

devrt_status Backend::device_props(uint32_t device,
                                   devrt_device_props_v0* props) {
  if (device >= kDevices) return NoDevice(device);
  devrt_device_props_v0 mine = {};
  mine.ordinal = device;
  std::snprintf(mine.name, sizeof mine.name, "mybackend device %u", device);
  std::snprintf(mine.arch, sizeof mine.arch, "mybackend");
  // Of this device and no other, the same in every process.
  std::snprintf(reinterpret_cast<char*>(mine.uuid), sizeof mine.uuid,
                "%.13s-%u", "mybackend", device);
  mine.multiprocessors = 1;
  mine.total_memory = 0;  // what mem_info says
  mine.alloc_alignment = 256;
  mine.copy_engines = 1;
  mine.elapsed_resolution_ns = 1;
  mine.pageable_async = DEVRT_PAGEABLE_SYNC;
  devrt::plugin::WriteStruct(props, mine);  // as much as the host knows
  return nullptr;
}

devrt_status Backend::device_sync(uint32_t device) {
  if (device >= kDevices) return NoDevice(device);
  return NotWritten("device_sync", "device.cc");
}

devrt_status Backend::context_enter(uint32_t device, devrt_context* previous) {
  if (device >= kDevices) return NoDevice(device);
  if (previous != nullptr) *previous = {{current, 0}};
  current = device + 1;
  return nullptr;
}

devrt_status Backend::context_exit(const devrt_context* previous) {
  current = static_cast<uint32_t>(previous->state[0]);
  return nullptr;
}

devrt_status Backend::context_current(uint32_t* device) {
  *device = current == 0 ? 0 : current - 1;
  return nullptr;
}

}  // namespace mybackend_plugin
