// SPDX-License-Identifier: Apache-2.0
//
// ThreadStreams: what the calling thread owns of streams until it ends: the
// slots of its current streams and its per-thread default streams.
//
// The slots themselves are in ThreadState, where inline code finds them.

#ifndef DEVRT_STREAMS_INTERNAL_THREAD_STREAMS_H_
#define DEVRT_STREAMS_INTERNAL_THREAD_STREAMS_H_

#include <vector>

#include "absl/status/statusor.h"
#include "devrt/streams/stream.h"
#include "runtime/internal/records.h"

namespace devrt::internal {

class ThreadStreams {
 public:
  // The calling thread's.  Made at the first call, which registers a destructor
  // of the thread: for slow paths only.
  static ThreadStreams* Own();

  ThreadStreams() = default;
  ThreadStreams(const ThreadStreams&) = delete;
  ThreadStreams& operator=(const ThreadStreams&) = delete;
  // Frees the slots and releases the per-thread streams.
  ~ThreadStreams();

  // The thread's default stream of `device`, which takes calls; made at the
  // first call.
  absl::StatusOr<StreamRef> PerThreadStream(DeviceRecord* device);

 private:
  std::vector<StreamRef> per_thread_;
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_THREAD_STREAMS_H_
