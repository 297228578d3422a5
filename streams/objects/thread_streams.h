// SPDX-License-Identifier: Apache-2.0
//
// ThreadStreams: what a thread owns until it ends: the slots of its current
// streams, and its per-thread default streams.
//
// The slots themselves are in ThreadState, where inline code finds them.

#ifndef DEVRT_STREAMS_OBJECTS_THREAD_STREAMS_H_
#define DEVRT_STREAMS_OBJECTS_THREAD_STREAMS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "devrt/streams/stream.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

class ThreadStreams {
 public:
  // Returns the object of the calling thread.  The first call makes it and
  // registers a destructor of the thread: for slow paths only.
  static ThreadStreams* OfThisThread();

  ThreadStreams() = default;
  ThreadStreams(const ThreadStreams&) = delete;
  ThreadStreams& operator=(const ThreadStreams&) = delete;
  // Frees the slots and releases the per-thread streams.
  ~ThreadStreams();

  // Returns the thread's default stream of `device`, and makes it at the first
  // call.  `device` takes calls.
  absl::StatusOr<StreamRef> PerThreadStream(DeviceRecord* device);

 private:
  std::vector<StreamRef> per_thread_;
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_THREAD_STREAMS_H_
