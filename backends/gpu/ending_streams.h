// SPDX-License-Identifier: Apache-2.0
//
// EndingStreams<Api>: the streams of one device that callers have destroyed and
// that still have work.  Some vendors drop the work of a destroyed stream, or
// report its events as complete (Api::kDestroyedStreamsLoseWork; C17, C18).
// There the native stream is destroyed after its work.
//
// Threads: every member from any thread.  No member waits for a device.

#ifndef DEVRT_BACKENDS_GPU_ENDING_STREAMS_H_
#define DEVRT_BACKENDS_GPU_ENDING_STREAMS_H_

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/gpu/context_scope.h"

namespace devrt::gpu {

template <class Api>
struct Stream;
template <class Api>
void DestroyEventsOf(const Api& api, Stream<Api>* stream);

template <class Api>
class EndingStreams {
 public:
  using Error = typename Api::Error;

  // Takes the stream, and destroys it when its work is over.
  Error Add(const Api& api, std::unique_ptr<Stream<Api>> stream) {
    Ending ending{std::move(stream), typename Api::Event{}};
    const Stream<Api>& s = *ending.stream;
    const ContextScope<Api> scope(api, s.context);
    Error error = scope.error();
    if (error == Api::kSuccess) {
      error = api.CreateEvent(false, false, false, &ending.last);
    }
    if (error == Api::kSuccess) error = api.Record(ending.last, s.native);
    // After a fault no object is safe to touch, so the native objects stay.
    if (error != Api::kSuccess) return error;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      endings_.push_back(std::move(ending));
    }
    DestroyEnded(api);
    return error;
  }

  // Destroys the streams whose work is over.
  void DestroyEnded(const Api& api) {
    if (!Api::kDestroyedStreamsLoseWork) return;
    for (const Ending& ending : TakeEnded(api)) {
      const ContextScope<Api> scope(api, ending.stream->context);
      if (scope.error() != Api::kSuccess) continue;
      (void)api.DestroyEvent(ending.last);
      DestroyEventsOf(api, ending.stream.get());
      (void)api.DestroyStream(ending.stream->native);
    }
  }

 private:
  struct Ending {
    std::unique_ptr<Stream<Api>> stream;
    typename Api::Event last;  // after all of its work
  };

  std::vector<Ending> TakeEnded(const Api& api) {
    std::vector<Ending> ended;
    const std::lock_guard<std::mutex> lock(mutex_);
    for (size_t i = 0; i < endings_.size();) {
      if (api.QueryEvent(endings_[i].last) != Api::kSuccess) {
        ++i;
        continue;
      }
      ended.push_back(std::move(endings_[i]));
      endings_[i] = std::move(endings_.back());
      endings_.pop_back();
    }
    return ended;
  }

  std::mutex mutex_;  // guards endings_
  std::vector<Ending> endings_;
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_ENDING_STREAMS_H_
