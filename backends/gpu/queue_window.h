// SPDX-License-Identifier: Apache-2.0
//
// Keeps the number of a stream's submissions below the driver's queue length.
//
// A driver that waits for room in a full queue holds locks that other threads
// need to create, destroy and allocate (measured, decision 10).  So devrt
// records an event every kStep operations, a mark, and waits for a mark
// instead.  It holds no lock then (C6).
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
    return number % kStep == 0 && number != 0;
  }

  // Records an event after the operations before `number`, and waits until at
  // most kQueueDepth of them are pending.  The stream's context must be
  // current.
  typename Api::Error Mark(const Api& api, typename Api::Stream stream,
                           uint64_t number) {
    using Event = typename Api::Event;
    const uint64_t mark = number / kStep;
    Event former{};  // the previous mark
    Event oldest{};
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (marks_ == nullptr) marks_ = std::make_unique<Marks>();
      Event& event = (*marks_)[mark % kMarks];
      if (event == Event{}) {
        const auto error = api.CreateEvent(false, false, false, &event);
        if (error != Api::kSuccess) return error;
      } else if (complete_ + kMarks < mark) {
        former = (*marks_)[(mark - 1) % kMarks];
        oldest = event;
      }
    }
    if (oldest != Event{}) {
      // Querying a complete event is slow, so one query should answer for all
      // marks.
      const auto asked = api.QueryEvent(former);
      if (asked == Api::kSuccess) {
        NoteComplete(mark - 1);
      } else if (asked == Api::kNotReady) {
        const auto error = api.SynchronizeEvent(oldest);
        if (error != Api::kSuccess) return error;
        NoteComplete(mark - kMarks);
      } else {
        return asked;
      }
    }
    const std::lock_guard<std::mutex> lock(mutex_);
    return api.Record((*marks_)[mark % kMarks], stream);
  }

  void Destroy(const Api& api) {
    if (marks_ == nullptr) return;
    for (const auto event : *marks_) {
      if (event != typename Api::Event{}) (void)api.DestroyEvent(event);
    }
  }

 private:
  static constexpr uint64_t kStep = 20;
  static constexpr uint64_t kMarks = kQueueDepth / kStep;
  using Marks = std::array<typename Api::Event, kMarks>;

  void NoteComplete(uint64_t mark) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (mark > complete_) complete_ = mark;
  }

  std::atomic<uint64_t> count_{0};
  std::mutex mutex_;  // guards what follows
  std::unique_ptr<Marks> marks_;
  uint64_t complete_ = 0;  // the newest mark that is known to be complete
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_QUEUE_WINDOW_H_
