// SPDX-License-Identifier: Apache-2.0
//
// Calls that allocate, so that Ctrl-C ends their wait for memory.

#ifndef DEVRT_PYTHON_SRC_ALLOCATING_H_
#define DEVRT_PYTHON_SRC_ALLOCATING_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "memory/device/deferred_recovery.h"
#include "python/src/device.h"
#include "python/src/gil.h"
#include "python/src/python.h"
#include "python/src/wait.h"

namespace devrt::python {

// False with what a handler of a signal has raised.
inline bool WaitForMemory(const internal::DeferredRecovery& deferred,
                          const WaitCall& work) {
  const DeviceObject* device = WrapDevice(*deferred.device());
  if (device == nullptr) return false;
  // What it says is said by the next try.
  return static_cast<bool>(Ref(RunFor(*device->backend, work)));
}

inline bool IsLeft(const absl::Status& status) {
  return absl::IsCancelled(status);
}
template <typename T>
bool IsLeft(const absl::StatusOr<T>& result) {
  return absl::IsCancelled(result.status());
}

// As WithoutLock, of a status or StatusOr, for a call of the library that may
// be made several times, and changes nothing when it fails.  Out of memory, it
// waits for memory that has work as RunFor does; CANCELLED, with an exception
// set, which Raise leaves as it is, if a handler has ended that.
template <typename F>
auto Allocating(F&& call) -> decltype(call()) {
  internal::DeferredRecovery deferred;
  for (;;) {
    auto result = WithoutLock([&] {
      const internal::DeferredRecovery::Scope scope(&deferred);
      return call();
    });
    const internal::DeferredRecovery::Work work = deferred.TakeWork();
    // Left by something else inside the call, which has succeeded without.
    if (__builtin_expect(!work, 1) || !IsLeft(result)) return result;
    if (!WaitForMemory(deferred, work)) return absl::CancelledError();
  }
}

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_ALLOCATING_H_
