// SPDX-License-Identifier: Apache-2.0
//
// DeviceGuard: a current device for one scope.
//
//   {
//     devrt::DeviceGuard on_gpu1(gpu1);
//     LibraryThatUsesTheCurrentDevice();
//   }  // what was current before is current again
//
// On exit it restores exactly what it found for the calling thread: another
// device, a foreign context, or none (C96, C107).  Guards of several backends
// and devices nest freely; each must be destroyed in the reverse order of
// construction, on its own thread.  One that is not is reported to the log; on
// another thread, or inside a host function, it restores nothing.
//
// It needs a Device, so it cannot be given nonsense; what can fail is a lost
// device, a Shutdown, a fork, or that it is made inside a host function, where
// nothing can be made current (C42): then nothing changes and status() says
// why.
// For a guard that may be absent use std::optional<DeviceGuard>.
//
// What it is not: needed by devrt's own calls, which name their device.  It is
// for other code that looks at the current device.

#ifndef DEVRT_GUARDS_DEVICE_GUARD_H_
#define DEVRT_GUARDS_DEVICE_GUARD_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/guards/enter.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"

namespace devrt {

class DEVRT_EXPORT DeviceGuard {
 public:
  explicit DeviceGuard(Device device) noexcept
      : device_(device),
        number_(
            internal::OpenGuard(device.record(), &previous_, "DeviceGuard")) {}
  DeviceGuard(int) = delete;
  DeviceGuard(std::nullptr_t) = delete;
  DeviceGuard(const DeviceGuard&) = delete;
  DeviceGuard& operator=(const DeviceGuard&) = delete;
  ~DeviceGuard() {
    if (__builtin_expect(number_ == 0, 0)) {
      internal::DropGuardError(&previous_);
      return;
    }
    if (!internal::CloseGuard(number_, "DeviceGuard")) return;
    internal::LeaveDevice(device_.record(), &previous_, "DeviceGuard");
  }

  Device device() const { return device_; }
  // OK, or why the device is not current in this scope.
  absl::Status status() const;

 private:
  Device device_;
  devrt_context previous_;
  uint64_t number_;  // of this guard in the process; 0: inactive
};

}  // namespace devrt

#endif  // DEVRT_GUARDS_DEVICE_GUARD_H_
