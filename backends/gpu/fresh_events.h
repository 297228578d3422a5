// SPDX-License-Identifier: Apache-2.0
//
// Native events that take turns, for vendors where an event must not be
// recorded while an earlier record of it is pending (C27).
//
//   error = others.Take(api, current, create, &event);
//   if (error == Api::kSuccess) error = api.Record(event, stream);
//
// None is destroyed before the owner is: another thread may just be about to
// wait for one that it has read.
//
// Threads: one at a time.

#ifndef DEVRT_BACKENDS_GPU_FRESH_EVENTS_H_
#define DEVRT_BACKENDS_GPU_FRESH_EVENTS_H_

#include <vector>

namespace devrt::gpu {

template <class Api>
class FreshEvents {
 public:
  // `*event` has no pending record: it is `current`, one that was kept, or made
  // by create(event).  Where it is another, `current` is kept.
  template <typename Create>
  typename Api::Error Take(const Api& api, typename Api::Event current,
                           const Create& create, typename Api::Event* event) {
    *event = current;
    // What is wrong with it the record will tell.
    if (api.QueryEvent(current) != Api::kNotReady) return Api::kSuccess;
    for (typename Api::Event& other : kept_) {
      if (api.QueryEvent(other) != Api::kNotReady) {
        *event = other;
        other = current;
        return Api::kSuccess;
      }
    }
    const typename Api::Error error = create(event);
    if (error == Api::kSuccess) kept_.push_back(current);
    return error;
  }

  void Destroy(const Api& api) {
    for (const typename Api::Event event : kept_) (void)api.DestroyEvent(event);
    kept_.clear();
  }

 private:
  std::vector<typename Api::Event> kept_;
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_FRESH_EVENTS_H_
