// SPDX-License-Identifier: Apache-2.0
//
// What guards share: entering and leaving a device's context, and the nesting
// depth that finds a guard destroyed out of order or on another thread.
//
// Not for programs; public only because guards are inline (runtime/gate.h).
// The rare cases are out of line, so that a guard is a handful of instructions
// and two table calls.

#ifndef DEVRT_GUARDS_ENTER_H_
#define DEVRT_GUARDS_ENTER_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/export.h"
#include "devrt/runtime/gate.h"
#include "devrt/streams/slots.h"

namespace devrt::internal {

// Logs what was wrong with `kind` of guard; restoring goes on regardless.
[[gnu::cold]] DEVRT_EXPORT void ReportGuardOrder(const char* kind,
                                                 uint32_t depth);
// Logs why the device could not be left; consumes `error`.
[[gnu::cold]] DEVRT_EXPORT void ReportGuardError(DeviceRecord* device,
                                                 devrt_status error,
                                                 const char* kind);
// Logs why the device could not be entered and keeps it in `previous`, which
// such a guard needs for nothing else; consumes `error`.
[[gnu::cold]] DEVRT_EXPORT void KeepGuardError(DeviceRecord* device,
                                               devrt_status error,
                                               const char* kind,
                                               devrt_context* previous);
// What was kept; OK if nothing was.
[[gnu::cold]] absl::Status GuardError(const devrt_context& previous);
[[gnu::cold]] DEVRT_EXPORT void DropGuardError(devrt_context* previous);

// Makes `device` current.  Returns the new depth, or 0 if nothing changed; then
// `previous` is for DropGuardError.
inline uint32_t EnterDevice(DeviceRecord* device, devrt_context* previous,
                            const char* kind) {
  const DeviceGate* gate = GateOf(device);
  if (__builtin_expect(!gate->IsOpen(), 0)) {
    *previous = {};
    return 0;
  }
  devrt_status error =
      gate->ops->context_enter(gate->self, gate->ordinal, previous);
  if (__builtin_expect(error != nullptr, 0)) {
    KeepGuardError(device, error, kind, previous);
    return 0;
  }
  return ++t_streams.guard_depth;
}

// Gives the thread back its former context.  A device that was lost inside the
// scope still has to do so.
inline void LeaveDevice(DeviceRecord* device, const devrt_context* previous,
                        uint32_t depth, const char* kind) {
  if (__builtin_expect(t_streams.guard_depth != depth, 0)) {
    ReportGuardOrder(kind, depth);
  }
  t_streams.guard_depth = depth - 1;
  const DeviceGate* gate = GateOf(device);
  const uint32_t state = gate->state.load(std::memory_order_acquire);
  if (__builtin_expect((state & ~kQuarantined) != 0, 0)) return;
  devrt_status error = gate->ops->context_exit(gate->self, previous);
  if (__builtin_expect(error != nullptr, 0)) {
    ReportGuardError(device, error, kind);
  }
}

}  // namespace devrt::internal

#endif  // DEVRT_GUARDS_ENTER_H_
