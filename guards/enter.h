// SPDX-License-Identifier: Apache-2.0
//
// What guards share: entering and leaving a device's context, and the numbers
// that find a guard destroyed out of order or on another thread.
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

// Whether this thread may make a `kind` of guard: FAILED_PRECONDITION inside a
// host function.  Gives the thread its number at the first guard.
[[gnu::cold]] absl::Status CheckGuard(const char* kind);

// ---- Numbers of guards ------------------------------------------------------

// CheckGuard was OK.
inline uint64_t OpenGuard() { return --t_streams.guards; }

// Reports `kind` of guard; whether it still has to restore what was before.
[[gnu::cold]] DEVRT_EXPORT bool CloseMisplacedGuard(uint64_t number,
                                                    const char* kind);

// The same for any guard.
inline bool CloseGuard(uint64_t number, const char* kind) {
  if (__builtin_expect(t_streams.guards != number, 0)) {
    return CloseMisplacedGuard(number, kind);
  }
  t_streams.guards = number + 1;
  return true;
}

// ---- Devices ----------------------------------------------------------------

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
// Why EnterDevice answered false.
[[gnu::cold]] DEVRT_EXPORT absl::Status EnterError(
    DeviceRecord* device, const devrt_context& previous);
[[gnu::cold]] DEVRT_EXPORT void DropGuardError(devrt_context* previous);

// Makes `device` current.  False if nothing changed; then `previous` is for
// EnterError and, behind it, DropGuardError.
inline bool EnterDevice(DeviceRecord* device, devrt_context* previous,
                        const char* kind) {
  const DeviceGate* gate = GateOf(device);
  if (__builtin_expect(!gate->IsOpen(), 0)) {
    *previous = {};
    return false;
  }
  devrt_status error =
      gate->ops->context_enter(gate->self, gate->ordinal, previous);
  if (__builtin_expect(error != nullptr, 0)) {
    KeepGuardError(device, error, kind, previous);
    return false;
  }
  return true;
}

// The number that OpenGuard would give, if CheckGuard is OK; else 0, and why is
// kept in `previous`.
[[gnu::cold]] DEVRT_EXPORT uint64_t FirstGuard(const char* kind,
                                               devrt_context* previous);

// CheckGuard, EnterDevice and OpenGuard; 0 if nothing changed.
inline uint64_t OpenGuard(DeviceRecord* device, devrt_context* previous,
                          const char* kind) {
  // Less than 0 before the thread's first guard and while none may be made.
  uint64_t number = t_streams.guards - 1;
  if (__builtin_expect(static_cast<int64_t>(number) < 0, 0)) {
    number = FirstGuard(kind, previous);
    if (number == 0) return 0;
  }
  if (__builtin_expect(!EnterDevice(device, previous, kind), 0)) return 0;
  t_streams.guards = number;
  return number;
}

// Gives the thread back its former context.  A device that was lost inside the
// scope still has to do so.
inline void LeaveDevice(DeviceRecord* device, const devrt_context* previous,
                        const char* kind) {
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
