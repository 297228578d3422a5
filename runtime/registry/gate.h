// SPDX-License-Identifier: Apache-2.0
//
// DeviceGate: the first members of a device's record, which inline code needs
// to call the plugin's table.
//
// Not for programs.  This header is public only because guards are inline: two
// calls into the library would take as long as the work of the guard itself.

#ifndef DEVRT_RUNTIME_REGISTRY_GATE_H_
#define DEVRT_RUNTIME_REGISTRY_GATE_H_

#include <atomic>
#include <cstdint>

#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/export.h"

namespace devrt::internal {

// Bits of DeviceGate::state.  If no bit is set, devrt may call the backend.
inline constexpr uint32_t kQuarantined = 1;
inline constexpr uint32_t kForkedChild = 2;
inline constexpr uint32_t kShutDown = 4;

// The base class of DeviceRecord (runtime/registry/records.h); no other object
// is a DeviceGate.  Only `state` changes after creation.
struct DeviceGate {
  const devrt_ops_v0* ops = nullptr;
  void* self = nullptr;
  std::atomic<uint32_t> state{0};
  uint32_t ordinal = 0;
  uint32_t index = 0;  // unique and dense over all devices of the process

  bool IsOpen() const { return state.load(std::memory_order_acquire) == 0; }
};

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_REGISTRY_GATE_H_
