// SPDX-License-Identifier: Apache-2.0
//
// ThreadContext: the current devices and streams of a thread, to be made
// current on another thread.
//
//   devrt::ThreadContext context = devrt::ThreadContext::Capture();
//   pool.Submit([context] {
//     devrt::ThreadContextScope scope(context);
//     Work();   // sees the submitter's current devices and streams
//   });
//
// A new thread starts with device 0 and default streams.  Work that a program
// hands to a thread pool uses those, unless a scope sets others (F35).  A
// ThreadContext is a value.  It borrows streams and keeps none alive.
//
// The scope leaves out a stream that was destroyed since, and a device that was
// lost.  For these the pool thread keeps what it had; all others are set, and
// status() reports the first failure.  Code that needs all of them checks
// status().  The destructor restores what the pool thread had before, in
// reverse order.  Otherwise the scope is like a DeviceGuard: scopes may be
// nested, are neither copied nor moved, and end on the thread that made them.

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

// The current devices and streams of the thread that called Capture.
class DEVRT_EXPORT ThreadContext {
 public:
  // Takes from the calling thread the current device of each open backend, and
  // the current stream of each of their devices.
  static ThreadContext Capture();

  // The current devices, one of each backend that was open.
  const std::vector<Device>& devices() const { return devices_; }
  // The current streams, one of each device of those backends.
  const std::vector<StreamRef>& streams() const { return streams_; }

 private:
  std::vector<Device> devices_;
  std::vector<StreamRef> streams_;
};

// Makes a ThreadContext current for one scope.
class DEVRT_EXPORT ThreadContextScope {
 public:
  // Makes the devices and streams of `context` current on the calling thread.
  explicit ThreadContextScope(const ThreadContext& context);
  ThreadContextScope(const ThreadContextScope&) = delete;
  ThreadContextScope& operator=(const ThreadContextScope&) = delete;
  ~ThreadContextScope();

  // The first failure: a stream that was destroyed or a device that was lost.
  // Inside a host function nothing is set, and the status says that.
  const absl::Status& status() const { return status_; }

 private:
  std::vector<StreamRef> previous_;  // in order of acquisition
  std::vector<internal::SavedContext> entered_;
  absl::Status status_;
  uint64_t number_ = 0;  // 0: inactive
};

}  // namespace devrt

#endif  // DEVRT_GUARDS_THREAD_CONTEXT_H_
