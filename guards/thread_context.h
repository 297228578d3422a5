// SPDX-License-Identifier: Apache-2.0
//
// ThreadContext: a thread's current devices and streams, to hand to another.
//
//   devrt::ThreadContext context = devrt::ThreadContext::Capture();
//   pool.Submit([context] {
//     devrt::ThreadContextScope scope(context);
//     Work();   // sees the submitter's current devices and streams
//   });
//
// A new thread starts on device 0 and default streams, so work handed to a
// pool lands there unless it is told otherwise (F35).  A ThreadContext is a
// value; it borrows streams and keeps none alive.
//
// A stream that was destroyed since, or a device that was lost, is left out of
// the scope: there the pool thread keeps what it had, all others are set, and
// status() says so; who cannot do without looks at it.  The scope restores what
// the pool thread had before, in reverse order.  Otherwise as DeviceGuard:
// nests, is not copied or moved, stays on its thread.

#ifndef DEVRT_GUARDS_THREAD_CONTEXT_H_
#define DEVRT_GUARDS_THREAD_CONTEXT_H_

#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "devrt/guards/enter.h"
#include "devrt/runtime/device.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt {

class DEVRT_EXPORT ThreadContext {
 public:
  // Of the calling thread: the current device of each open backend, and the
  // current stream of each device of theirs.
  static ThreadContext Capture();

  const std::vector<Device>& devices() const { return devices_; }
  const std::vector<StreamRef>& streams() const { return streams_; }

 private:
  std::vector<Device> devices_;
  std::vector<StreamRef> streams_;
};

class DEVRT_EXPORT ThreadContextScope {
 public:
  explicit ThreadContextScope(const ThreadContext& context);
  ThreadContextScope(const ThreadContextScope&) = delete;
  ThreadContextScope& operator=(const ThreadContextScope&) = delete;
  ~ThreadContextScope();

  // The first failure: a stream that was destroyed, a device that was lost; or
  // that the scope was made inside a host function, where nothing is set.
  const absl::Status& status() const { return status_; }

 private:
  std::vector<StreamRef> previous_;  // in order of acquisition
  std::vector<internal::SavedContext> entered_;
  absl::Status status_;
  uint64_t number_ = 0;  // 0: inactive
};

}  // namespace devrt

#endif  // DEVRT_GUARDS_THREAD_CONTEXT_H_
