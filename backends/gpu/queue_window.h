// SPDX-License-Identifier: Apache-2.0
//
// Keeps the number of a stream's submissions below the driver's queue length.
//
// A driver that waits for room in a full queue holds locks that other threads
// need to create, destroy and allocate (measured, decision 10).  So devrt
// records an event every kStep operations, a mark, and waits for a mark
// instead.  It holds no lock then (C6).  Marks are few, since an event behind
// small copies costs the device some microseconds, as much as four of them;
// whether the queue is full is looked at more often.
//
//   const uint64_t number = window.Count();
//   if (window.IsMark(number)) error = window.Mark(api, native, number, ...);
//   ... submit ...
//
// Threads: any number submit at once.  Each may exceed the limit by its own
// operation.

#ifndef DEVRT_BACKENDS_GPU_QUEUE_WINDOW_H_
#define DEVRT_BACKENDS_GPU_QUEUE_WINDOW_H_

#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace devrt::gpu {

// The number of operations that a stream takes without a wait.
inline constexpr uint32_t kQueueDepth = 1000;

template <class Api>
class QueueWindow {
 public:
  // Returns the number of the operation that is about to be submitted.
  uint64_t Count() { return count_.fetch_add(1, std::memory_order_relaxed); }
  static bool IsMark(uint64_t number) {
    return number % kLook == 0 && number != 0;
  }

  // Waits until at most kQueueDepth of the operations before `number` are
  // pending, and records every kStep-th time an event after them.  The stream's
  // context must be current.
  typename Api::Error Mark(const Api& api, typename Api::Stream stream,
                           uint64_t number) {
    using Event = typename Api::Event;
    // The mark that has to be complete.
    const uint64_t needed =
        number > kQueueDepth ? (number - kQueueDepth + kStep - 1) / kStep : 0;
    Event newest{}, oldest{};
    uint64_t newest_mark = 0;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (marks_ == nullptr) marks_ = std::make_unique<Marks>();
      if (needed > complete_ && needed <= recorded_) {
        newest_mark = recorded_;
        newest = (*marks_)[newest_mark % kMarks];
        oldest = (*marks_)[needed % kMarks];
      }
    }
    if (newest_mark != 0) {
      // Querying a complete event is slow, so one query should answer for all
      // marks.
      const auto asked = api.QueryEvent(newest);
      if (asked == Api::kSuccess) {
        NoteComplete(newest_mark);
      } else if (asked == Api::kNotReady) {
        const auto error = api.SynchronizeEvent(oldest);
        if (error != Api::kSuccess) return error;
        NoteComplete(needed);
      } else {
        return asked;
      }
    }
    if (number % kStep != 0) return Api::kSuccess;
    const uint64_t mark = number / kStep;
    const std::lock_guard<std::mutex> lock(mutex_);
    Event& event = (*marks_)[mark % kMarks];
    auto error = Api::kSuccess;
    if (event == Event{}) error = api.CreateEvent(false, false, false, &event);
    if (error == Api::kSuccess) error = api.Record(event, stream);
    if (error == Api::kSuccess && mark > recorded_) recorded_ = mark;
    return error;
  }

  void Destroy(const Api& api) {
    if (marks_ == nullptr) return;
    for (const auto event : *marks_) {
      if (event != typename Api::Event{}) (void)api.DestroyEvent(event);
    }
  }

 private:
  static constexpr uint64_t kLook = 20;
  static constexpr uint64_t kStep = 100;
  static constexpr uint64_t kMarks = kQueueDepth / kStep;
  using Marks = std::array<typename Api::Event, kMarks>;

  void NoteComplete(uint64_t mark) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (mark > complete_) complete_ = mark;
  }

  std::atomic<uint64_t> count_{0};
  std::mutex mutex_;  // guards what follows
  std::unique_ptr<Marks> marks_;
  uint64_t recorded_ = 0;  // the newest mark
  uint64_t complete_ = 0;  // the newest mark that is known to be complete
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_QUEUE_WINDOW_H_
