// SPDX-License-Identifier: Apache-2.0
//
// CheckpointList: the open checkpoints of one stream, by epoch.  It records
// them, queries them, and completes epochs of the stream's clock.
//
// QueryAll costs little.  A checkpoint that is not complete answers for all
// checkpoints behind it, so a stream that is stuck costs one query a poll.  A
// checkpoint that is complete answers for all checkpoints before it, and the
// step from one query to the next doubles.
//
// A pinned checkpoint stays usable outside the lock: its event goes back to the
// pool with the last Unpin.
//
// Threads: any.  Lock: `mutex_`, a leaf; no call is made while it is held.

#ifndef DEVRT_STREAMS_TIMELINES_CHECKPOINT_LIST_H_
#define DEVRT_STREAMS_TIMELINES_CHECKPOINT_LIST_H_

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/mutex.h"
#include "runtime/registry/records.h"
#include "streams/timelines/checkpoint_pool.h"
#include "streams/timelines/epoch_clock.h"

namespace devrt::internal {

class CheckpointList {
 public:
  // What the queries of QueryAll have found.
  enum class Answer {
    kDone,    // every checkpoint is complete
    kNotYet,  // some checkpoint is not complete
    kFailed,  // a query failed; its checkpoint was removed
  };

  // The number of checkpoints that makes the list full.  A full list takes only
  // checkpoints that a wait needs (Timeline::PinCheckpoint).
  static constexpr size_t kMost = 64;

  CheckpointList(DeviceRecord* device, CheckpointPool* pool, EpochClock* clock)
      : device_(device), pool_(pool), clock_(clock) {}
  CheckpointList(const CheckpointList&) = delete;
  CheckpointList& operator=(const CheckpointList&) = delete;
  ~CheckpointList();

  // The epoch of the newest checkpoint; 0 before the first.
  uint64_t covered() const { return covered_.load(std::memory_order_acquire); }
  // Returns true if a checkpoint was recorded behind the work of `epoch`.
  bool Covers(uint64_t epoch) const { return covered() >= epoch; }
  bool IsFull() const { return size_.load(std::memory_order_relaxed) >= kMost; }
  // Returns true if no checkpoint is open and no thread polls.
  bool IsIdle() const DEVRT_EXCLUDES(mutex_);

  // Records a checkpoint behind all work of `stream`, whose handle the caller
  // has borrowed.  `last`: the stream gets no more work.  `pinned`, if not
  // nullptr, receives the checkpoint with a pin.
  absl::Status Record(devrt_stream stream, bool last,
                      CheckpointEvent** pinned = nullptr)
      DEVRT_EXCLUDES(mutex_);
  // Makes room in a full list: removes every second checkpoint, but not the
  // newest.
  void RemoveEverySecond() DEVRT_EXCLUDES(mutex_);
  // Removes all checkpoints.
  void Clear() DEVRT_EXCLUDES(mutex_);

  // Pins the oldest checkpoint that covers `epoch`; nullptr if there is none.
  CheckpointEvent* Pin(uint64_t epoch) DEVRT_EXCLUDES(mutex_);
  void Unpin(CheckpointEvent* check) DEVRT_EXCLUDES(mutex_);

  // Notes that a checkpoint was left out, because the list was full or the
  // stream was captured.  TakeLeftOut then returns true once.
  void NoteLeftOut() { left_out_.store(true, std::memory_order_relaxed); }
  bool HasLeftOut() const { return left_out_.load(std::memory_order_relaxed); }
  bool TakeLeftOut() {
    return HasLeftOut() && left_out_.exchange(false, std::memory_order_relaxed);
  }

  // One thread polls at a time.  Returns false if another thread polls, or if
  // the list is empty and `even_if_empty` is false.  `first`, if not nullptr,
  // receives the oldest checkpoint that covers `epoch`, or the newest one, with
  // a pin; nullptr if there is none.
  bool BeginPoll(bool even_if_empty, uint64_t epoch = 0,
                 CheckpointEvent** first = nullptr) DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    if (polling_.load(std::memory_order_acquire)) return false;
    if (checks_.empty() && !even_if_empty) return false;
    polling_.store(true, std::memory_order_relaxed);
    if (first == nullptr || checks_.empty()) return true;
    *first = checks_[std::min(Find(epoch), checks_.size() - 1)];
    ++(*first)->pins;
    return true;
  }
  void EndPoll() { polling_.store(false, std::memory_order_release); }
  // Queries checkpoints, oldest first, until one is not complete, and removes
  // the complete ones.  `found`: set if one was complete.  `error`: why a query
  // failed.
  Answer QueryAll(bool* found, absl::Status* error) DEVRT_EXCLUDES(mutex_);
  // Queries `check`, which is pinned, and unpins it.  Removes it, and all
  // before it, if it is complete.  `found` and `error` as above.
  Answer QueryOnce(CheckpointEvent* check, bool* found, absl::Status* error)
      DEVRT_EXCLUDES(mutex_);
  // Queries one checkpoint, which is pinned, and keeps it.
  void QueryPinned(const CheckpointEvent& check);

 private:
  Answer Query(const CheckpointEvent& check, absl::Status* error);
  absl::StatusOr<CheckpointEvent*> AcquireEvent();
  // Keeps one of a chain of events, and returns the others to the pool.
  void ReturnEvents(CheckpointEvent* events);
  // Completes the epochs that `check` covers.
  void Complete(const CheckpointEvent& check);
  // Pins and returns the checkpoint that QueryAll queries next.  While
  // `not_yet` is UINT64_MAX, that is the `step`-th oldest one.  Else the
  // checkpoint of epoch `not_yet` was found incomplete, and the next is halfway
  // between the oldest and that one.  Checkpoints of epochs after `newest` are
  // left to the next poll.  Returns nullptr if none is left.
  CheckpointEvent* PinNext(size_t step, uint64_t not_yet, uint64_t newest)
      DEVRT_EXCLUDES(mutex_);
  // Unpins and removes `check` and, if it is complete, all checkpoints before
  // it.
  CheckpointEvent* Remove(CheckpointEvent* check, bool complete)
      DEVRT_EXCLUDES(mutex_);
  void Insert(CheckpointEvent* check) DEVRT_REQUIRES(mutex_);
  // The index of the first checkpoint that covers `epoch`.
  size_t Find(uint64_t epoch) const DEVRT_REQUIRES(mutex_);
  // Removes the checkpoints with indices in [first, last).
  // Returns those without a pin as a chain, which the caller returns to the
  // pool.
  CheckpointEvent* TakeOut(size_t first, size_t last) DEVRT_REQUIRES(mutex_);

  DeviceRecord* const device_;
  CheckpointPool* const pool_;
  EpochClock* const clock_;
  std::atomic<uint64_t> covered_{0};  // epoch of the newest checkpoint
  std::atomic<bool> left_out_{false};
  std::atomic<bool> polling_{false};              // set under the lock
  std::atomic<size_t> size_{0};                   // of checks_
  std::atomic<CheckpointEvent*> spare_{nullptr};  // an unused event
  mutable Mutex mutex_;
  std::vector<CheckpointEvent*> checks_ DEVRT_GUARDED_BY(mutex_);  // by epoch
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_TIMELINES_CHECKPOINT_LIST_H_
