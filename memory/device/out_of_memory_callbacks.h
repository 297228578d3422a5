// SPDX-License-Identifier: Apache-2.0
//
// OutOfMemoryCallbacks: the functions of programs that run when a request finds
// no room (device_memory.h).
//
// Threads: any.  Lock: `mutex_`, which is not held while a callback runs.

#ifndef DEVRT_MEMORY_DEVICE_OUT_OF_MEMORY_CALLBACKS_H_
#define DEVRT_MEMORY_DEVICE_OUT_OF_MEMORY_CALLBACKS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/mutex.h"

namespace devrt::internal {

class OutOfMemoryCallbacks {
 public:
  // OutOfMemoryCallback of device_memory.h, which lies above this folder.
  using Callback = std::function<bool(Device device, uint64_t bytes)>;

  static OutOfMemoryCallbacks& Get();

  // Returns the id for Remove.
  uint64_t Add(Callback callback) DEVRT_EXCLUDES(mutex_);
  void Remove(uint64_t id) DEVRT_EXCLUDES(mutex_);
  // Calls all in the order of their registration, on this thread.  Returns true
  // if any of them asks for another search.  A callback that throws ends the
  // call: INTERNAL.
  absl::StatusOr<bool> Run(Device device, uint64_t bytes)
      DEVRT_EXCLUDES(mutex_);
  // FAILED_PRECONDITION while a callback runs on this thread: a request of a
  // callback would call the callbacks again, without end.
  static absl::Status CheckNotInside(Device device, uint64_t bytes);

 private:
  Mutex mutex_;
  uint64_t last_id_ DEVRT_GUARDED_BY(mutex_) = 0;
  // Shared, because the copy of a function may throw.
  std::map<uint64_t, std::shared_ptr<const Callback>> callbacks_
      DEVRT_GUARDED_BY(mutex_);
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_OUT_OF_MEMORY_CALLBACKS_H_
