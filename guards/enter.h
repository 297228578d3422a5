// SPDX-License-Identifier: Apache-2.0
//
// What all guards use: functions that enter and leave a device's context, and
// the numbers that find a guard destroyed out of order or on another thread.
//
// Not for programs: the header is public because guards are inline
// (runtime/registry/gate.h).  Rare cases are not inline, so that a guard is a
// handful of instructions and two calls of the table.

#ifndef DEVRT_GUARDS_ENTER_H_
#define DEVRT_GUARDS_ENTER_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/export.h"
#include "devrt/runtime/gate.h"
#include "devrt/runtime/thread_state.h"

namespace devrt::internal {

// Checks that this thread may make a `kind` of guard: FAILED_PRECONDITION
// inside a host function.  Gives the thread its range of numbers before the
// first guard.
[[gnu::cold]] absl::Status CheckGuard(const char* kind);

// ---- Numbers of guards ------------------------------------------------------

// Each guard has a number that is unique in the process.  The number is one
// less than the number of the guard around it.  ThreadState::guard is the
// number of the innermost guard.

// The number of a new guard, after CheckGuard has returned OK.
inline uint64_t OpenGuard() { return --t_state.guard; }

// Logs that a `kind` of guard is destroyed out of order or on another thread.
// Returns true if the guard must still restore what it found.
[[gnu::cold]] DEVRT_EXPORT bool CloseMisplacedGuard(uint64_t number,
                                                    const char* kind);

// Ends a guard.  Returns true if the guard must restore what it found.
inline bool CloseGuard(uint64_t number, const char* kind) {
  if (__builtin_expect(t_state.guard != number, 0)) {
    return CloseMisplacedGuard(number, kind);
  }
  t_state.guard = number + 1;
  return true;
}

// ---- Devices ----------------------------------------------------------------

// A device that is current for one scope, and what was current before it.
struct SavedContext {
  DeviceGate* device;
  // context_enter of the device's plugin writes these words, and only
  // context_exit of that plugin reads them.
  devrt_context words;
};

// Why a device was not entered.  Only a guard that fails makes the status; a
// guard that works leaves the pointer uninitialised, and pays nothing.
// nullptr:  EnterError finds the reason.
using GuardError = const absl::Status*;

// Logs why the device could not be left; consumes `error`.
[[gnu::cold]] DEVRT_EXPORT void ReportGuardError(DeviceGate* device,
                                                 devrt_status error,
                                                 const char* kind);
// Logs why the device could not be entered and returns it; consumes `error`.
[[gnu::cold]] DEVRT_EXPORT GuardError KeepGuardError(DeviceGate* device,
                                                     devrt_status error,
                                                     const char* kind);
// The status of a guard that could not enter `device`.
[[gnu::cold]] DEVRT_EXPORT absl::Status EnterError(const DeviceGate* device,
                                                   GuardError error);
[[gnu::cold]] DEVRT_EXPORT void DropGuardError(GuardError error);

// Makes `device` current and saves what was current before.  Returns false if
// nothing changed: then the caller passes `*error` to EnterError, and to
// DropGuardError at the end.
inline bool EnterDevice(DeviceGate* device, SavedContext* saved,
                        GuardError* error, const char* kind) {
  saved->device = device;
  if (__builtin_expect(!device->IsOpen(), 0)) {
    *error = nullptr;
    return false;
  }
  devrt_status failed =
      device->ops->context_enter(device->self, device->ordinal, &saved->words);
  if (__builtin_expect(failed != nullptr, 0)) {
    *error = KeepGuardError(device, failed, kind);
    return false;
  }
  return true;
}

// The number for a new guard if CheckGuard returns OK.  Otherwise 0, and
// `*error` says why.
[[gnu::cold]] DEVRT_EXPORT uint64_t FirstGuard(GuardError* error,
                                               const char* kind);

// CheckGuard, EnterDevice and OpenGuard.  Returns 0 if nothing changed.
inline uint64_t OpenGuard(DeviceGate* device, SavedContext* saved,
                          GuardError* error, const char* kind) {
  // As a signed number less than 0 if ThreadState::guard is 0.
  uint64_t number = t_state.guard - 1;
  if (__builtin_expect(static_cast<int64_t>(number) < 0, 0)) {
    saved->device = device;
    number = FirstGuard(error, kind);
    if (number == 0) return 0;
  }
  if (__builtin_expect(!EnterDevice(device, saved, error, kind), 0)) return 0;
  t_state.guard = number;
  return number;
}

// Makes what was current before `saved.device` current again.  This
// works too if the device was lost inside the scope.
inline void LeaveDevice(const SavedContext& saved, const char* kind) {
  DeviceGate* const device = saved.device;
  const uint32_t state = device->state.load(std::memory_order_acquire);
  if (__builtin_expect((state & ~kQuarantined) != 0, 0)) return;
  devrt_status error = device->ops->context_exit(device->self, &saved.words);
  if (__builtin_expect(error != nullptr, 0)) {
    ReportGuardError(device, error, kind);
  }
}

}  // namespace devrt::internal

#endif  // DEVRT_GUARDS_ENTER_H_
