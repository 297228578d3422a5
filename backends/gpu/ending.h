// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: streams whose native ones are destroyed later, for vendors that
// drop what a destroyed stream still has to do, or take its events for complete
// (C17, C18).

#ifndef DEVRT_BACKENDS_GPU_ENDING_H_
#define DEVRT_BACKENDS_GPU_ENDING_H_

#include <utility>

#include "backends/gpu/backend.h"

namespace devrt::gpu {

// Waits for nothing.
template <class Api>
devrt_status Backend<Api>::DestroyLater(std::unique_ptr<Stream> stream) {
  Ending ending{std::move(stream), typename Api::Event{}};
  Stream& s = *ending.stream;
  const ContextScope scope(*api_, s.context);
  Error error = scope.error();
  if (error == Api::kSuccess) {
    error = api_->CreateEvent(false, false, false, &ending.last);
  }
  if (error == Api::kSuccess) error = api_->Record(ending.last, s.native);
  // After a fault nothing is safe to touch: the native ones stay.
  if (error != Api::kSuccess) {
    return TakeEnd(error, "stream destruction", s.device);
  }
  {
    const std::lock_guard<std::mutex> lock(endings_mutex_);
    endings_.push_back(std::move(ending));
  }
  DestroyEnded();
  return nullptr;
}

// Those whose work has ended.
template <class Api>
void Backend<Api>::DestroyEnded() {
  if (!Api::kDestroyedStreamsLoseWork) return;
  std::vector<Ending> ended;
  {
    const std::lock_guard<std::mutex> lock(endings_mutex_);
    for (size_t i = 0; i < endings_.size();) {
      if (api_->QueryEvent(endings_[i].last) != Api::kSuccess) {
        ++i;
        continue;
      }
      ended.push_back(std::move(endings_[i]));
      endings_[i] = std::move(endings_.back());
      endings_.pop_back();
    }
  }
  for (const Ending& ending : ended) {
    const ContextScope scope(*api_, ending.stream->context);
    if (scope.error() != Api::kSuccess) continue;
    (void)api_->DestroyEvent(ending.last);
    DestroyEventsOf(ending.stream.get());
    (void)api_->DestroyStream(ending.stream->native);
  }
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_ENDING_H_
