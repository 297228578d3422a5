// SPDX-License-Identifier: Apache-2.0
//
// The head of a device's record: what inline code needs to make a table call.
//
// Not for programs.  It is public only because guards are inline: two calls
// into the library would cost them as much as their work does.

#ifndef DEVRT_RUNTIME_GATE_H_
#define DEVRT_RUNTIME_GATE_H_

#include <atomic>
#include <cstdint>

#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/export.h"

namespace devrt::internal {

struct DeviceRecord;

// Bits of DeviceGate::state; 0 means that calls may go to the backend.
inline constexpr uint32_t kQuarantined = 1;
inline constexpr uint32_t kForkedChild = 2;
inline constexpr uint32_t kShutDown = 4;

// The first base of DeviceRecord.  Nothing but `state` ever changes.
struct DeviceGate {
  const devrt_ops_v0* ops = nullptr;
  void* self = nullptr;
  std::atomic<uint32_t> state{0};
  uint32_t ordinal = 0;
  uint32_t index = 0;  // dense over all devices of the process

  bool IsOpen() const { return state.load(std::memory_order_acquire) == 0; }
};

// `record` is complete only inside devrt; records.h asserts that its base is
// at its address.
inline DeviceGate* GateOf(DeviceRecord* record) {
  return reinterpret_cast<DeviceGate*>(record);
}

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_GATE_H_
