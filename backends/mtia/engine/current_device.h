// SPDX-License-Identifier: Apache-2.0
//
// The current device of the calling thread.  It is a thread-local number, so a
// guard takes no lock and does not enter the machine.  The functions are
// inline, because every guard calls them.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_CURRENT_DEVICE_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_CURRENT_DEVICE_H_

#include <cstdint>

#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

// __thread and not thread_local: the compiler then adds no check whether it is
// initialised.  initial-exec: an access is one instruction, and the few bytes
// fit into what the loader reserves for libraries that are opened late.
extern __thread uint32_t t_device __attribute__((tls_model("initial-exec")));

// The number of devices.  Set when a machine begins.
extern uint32_t g_device_count;

// The errors.
devrt_status BadOrdinal(uint32_t device);
devrt_status BadContext();

// NULL, or the error for an ordinal that no device has.
inline devrt_status CheckDevice(uint32_t device) {
  return device < g_device_count ? nullptr : BadOrdinal(device);
}

inline devrt_status EnterDevice(uint32_t device, devrt_context* previous) {
  if (__builtin_expect(device >= g_device_count, 0)) return BadOrdinal(device);
  if (previous != nullptr) *previous = devrt_context{{t_device, 0}};
  t_device = device;
  return nullptr;
}

inline devrt_status ExitDevice(const devrt_context* previous) {
  if (__builtin_expect(previous->state[0] >= g_device_count, 0)) {
    return BadContext();
  }
  t_device = static_cast<uint32_t>(previous->state[0]);
  return nullptr;
}

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_CURRENT_DEVICE_H_
