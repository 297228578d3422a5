// SPDX-License-Identifier: Apache-2.0
//
// ForeignStreams<Api>: the adopted streams of one device that belong to
// contexts other than its primary one. A wait for the device waits for them one
// by one, because the wait for a context does not cover them.
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_GPU_FOREIGN_STREAMS_H_
#define DEVRT_BACKENDS_GPU_FOREIGN_STREAMS_H_

#include <algorithm>
#include <mutex>
#include <vector>

namespace devrt::gpu {

template <class Api>
struct Stream;

template <class Api>
class ForeignStreams {
 public:
  void Add(const Stream<Api>* stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_.push_back(stream);
  }

  // Does nothing for a stream that is not in the list.
  void Remove(const Stream<Api>* stream) {
    const std::lock_guard<std::mutex> lock(mutex_);
    streams_.erase(std::remove(streams_.begin(), streams_.end(), stream),
                   streams_.end());
  }

  std::vector<typename Api::Stream> Natives() const {
    std::vector<typename Api::Stream> natives;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (const Stream<Api>* stream : streams_) {
      natives.push_back(stream->native);
    }
    return natives;
  }

 private:
  mutable std::mutex mutex_;  // guards streams_
  std::vector<const Stream<Api>*> streams_;
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_FOREIGN_STREAMS_H_
