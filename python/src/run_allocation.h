// SPDX-License-Identifier: Apache-2.0
//
// Runs calls that allocate, so that Ctrl-C ends their wait for memory.

#ifndef DEVRT_PYTHON_SRC_RUN_ALLOCATION_H_
#define DEVRT_PYTHON_SRC_RUN_ALLOCATION_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "memory/device/deferred_recovery.h"
#include "python/src/device.h"
#include "python/src/gil.h"
#include "python/src/python.h"
#include "python/src/wait.h"

namespace devrt::python {

// Returns false if a signal handler raised; that exception is set then.
inline bool WaitForMemory(const internal::DeferredRecovery& deferred,
                          const WaitCall& work) {
  const DeviceObject* device = WrapDevice(*deferred.device());
  if (device == nullptr) return false;
  // An error of the wait is reported by the next attempt to allocate.
  return static_cast<bool>(Ref(RunFor(*device->backend, work)));
}

inline bool IsDeferred(const absl::Status& status) {
  return absl::IsCancelled(status);
}
template <typename T>
bool IsDeferred(const absl::StatusOr<T>& result) {
  return absl::IsCancelled(result.status());
}

// Runs `call` without the GIL and returns its Status or StatusOr.  `call` may
// run several times, so a failed run must change nothing.  If the device is out
// of memory and other work will free some, this waits for that work as RunFor
// does and tries again.  Returns CANCELLED, with the exception set, if a signal
// handler ended the wait; Raise keeps that exception.
template <typename F>
auto RunAllocation(F&& call) -> decltype(call()) {
  internal::DeferredRecovery deferred;
  for (;;) {
    auto result = WithoutLock([&] {
      const internal::DeferredRecovery::Scope scope(&deferred);
      return call();
    });
    const internal::DeferredRecovery::Work work = deferred.TakeWork();
    // A step of `call` may have deferred work although `call` succeeded without
    // it.
    if (__builtin_expect(!work, 1) || !IsDeferred(result)) return result;
    if (!WaitForMemory(deferred, work)) return absl::CancelledError();
  }
}

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_RUN_ALLOCATION_H_
