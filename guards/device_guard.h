// SPDX-License-Identifier: Apache-2.0
//
// DeviceGuard: a current device for one scope.
//
//   {
//     devrt::DeviceGuard on_gpu1(gpu1);
//     LibraryThatUsesTheCurrentDevice();
//   }  // what was current before is current again
//
// The destructor restores what the guard found for the calling thread: another
// device, a context of another library, or none (C96, C107).  Guards of several
// backends and devices may be nested.  Guards must be destroyed in the reverse
// order of construction, each on the thread that made it.  A guard that is
// destroyed out of order is logged and restores what it found; on another
// thread, or inside a host function, it is logged and restores nothing.
//
// A guard takes a Device, which always names a device.  It fails if a call has
// found the device lost, after Shutdown, in a forked child, and inside a host
// function, where no device can be made current (C42).  Then nothing changes
// and status() says why.
//
// A guard is not movable, because what a guard restores belongs to its place
// among the other guards of its thread.  With a move assignment this would
// compile:
//
//   // Fragment: a guard cannot be assigned.
//   DeviceGuard outer(gpu1);    // found gpu0
//   outer = DeviceGuard(gpu2);  // found gpu1
//
// The right side is made before `outer` restores what it found.  So gpu2
// becomes current, and then `outer` restores gpu0.  The program goes on with
// gpu0 current and a guard that says gpu2 and will restore gpu1.
//
// A guard that was moved out of an inner scope would end in another order than
// the braces show.  A guard that was moved to another thread would restore a
// device that nobody changed there.  A function can still return a guard that
// it makes in its return statement: C++17 makes that guard in its final place.
//
// A guard is not nullable either.  `DeviceGuard guard(maybe)` with no device in
// `maybe` would run the scope on whatever device was current, and nothing would
// show that.  For a guard that may be absent use std::optional<DeviceGuard>:
// its emplace() destroys the former guard before it makes the new one, so that
// each guard restores what it found.
//
// What it is not: necessary for calls of devrt, which name their device.  A
// guard is for other code that uses the current device.

#ifndef DEVRT_GUARDS_DEVICE_GUARD_H_
#define DEVRT_GUARDS_DEVICE_GUARD_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "devrt/guards/enter.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt {

// Makes a device current for one scope.
class DEVRT_EXPORT DeviceGuard {
 public:
  // Makes `device` current; status() says if that failed.
  explicit DeviceGuard(Device device) noexcept
      : number_(internal::OpenGuard(device.gate(), &saved_, &error_,
                                    "DeviceGuard")) {}
  DeviceGuard(int) = delete;
  DeviceGuard(std::nullptr_t) = delete;
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  ~DeviceGuard() {
    if (__builtin_expect(number_ == 0, 0)) {
      internal::DropGuardError(error_);
      return;
    }
    if (!internal::CloseGuard(number_, "DeviceGuard")) return;
    internal::LeaveDevice(saved_, "DeviceGuard");
  }

  // The device of the guard, also if it is not current.
  Device device() const { return Device(saved_.device); }
  // OK, or why the device is not current in this scope.
  absl::Status status() const;

 private:
  internal::SavedContext saved_;
  internal::GuardError error_;  // initialised if `number_` is 0
  uint64_t number_;             // of this guard in the process; 0: inactive
};

}  // namespace devrt

#endif  // DEVRT_GUARDS_DEVICE_GUARD_H_
