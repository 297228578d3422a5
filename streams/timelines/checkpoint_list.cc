// SPDX-License-Identifier: Apache-2.0

#include "streams/timelines/checkpoint_list.h"

#include <algorithm>
#include <utility>

#include "devrt/runtime/status.h"

namespace devrt::internal {

// Only tests destroy a list.
CheckpointList::~CheckpointList() {
  for (CheckpointEvent* check : checks_) delete check;
  delete spare_.load();
}

// One event goes to and fro between a list and its spare one without the lock
// of the pool.
inline absl::StatusOr<CheckpointEvent*> CheckpointList::AcquireEvent() {
  if (spare_.load(std::memory_order_relaxed) != nullptr) {
    CheckpointEvent* const spare =
        spare_.exchange(nullptr, std::memory_order_acquire);
    if (spare != nullptr) return spare;
  }
  return pool_->Acquire();
}

inline void CheckpointList::ReturnEvents(CheckpointEvent* events) {
  if (events == nullptr) return;
  CheckpointEvent* const others = std::exchange(events->next, nullptr);
  CheckpointEvent* none = nullptr;
  if (!spare_.compare_exchange_strong(none, events, std::memory_order_release,
                                      std::memory_order_relaxed)) {
    pool_->Return(events);
  }
  pool_->ReturnAll(others);
}

bool CheckpointList::IsIdle() const {
  MutexLock lock(&mutex_);
  return checks_.empty() && !polling_.load(std::memory_order_acquire);
}

absl::Status CheckpointList::Record(devrt_stream stream, bool last,
                                    CheckpointEvent** pinned) {
  DEVRT_ASSIGN_OR_RETURN(CheckpointEvent* const check, AcquireEvent());
  check->epoch = clock_->BeginLook();
  check->last = last;
  // Uses that are noted after the end read the raised epoch, and their work was
  // submitted before the end.
  if (last) ++check->epoch;
  absl::Status status = FromPlugin(
      device_, device_->ops->event_record(device_->self, check->event, stream),
      "checkpoint");
  if (!status.ok()) {
    pool_->Return(check);
    return status;
  }
  MutexLock lock(&mutex_);
  Insert(check);
  if (pinned != nullptr) {
    ++check->pins;
    *pinned = check;
  }
  if (covered_.load(std::memory_order_relaxed) < check->epoch) {
    covered_.store(check->epoch, std::memory_order_release);
  }
  return status;
}

// Two threads that record at once may insert the later epoch first.
void CheckpointList::Insert(CheckpointEvent* check) {
  auto place = checks_.end();
  while (place != checks_.begin() && place[-1]->epoch > check->epoch) --place;
  checks_.insert(place, check);
  size_.store(checks_.size(), std::memory_order_relaxed);
}

size_t CheckpointList::Find(uint64_t epoch) const {
  const auto found =
      std::lower_bound(checks_.begin(), checks_.end(), epoch,
                       [](const CheckpointEvent* check, uint64_t e) {
                         return check->epoch < e;
                       });
  return static_cast<size_t>(found - checks_.begin());
}

CheckpointEvent* CheckpointList::TakeOut(size_t first, size_t last) {
  CheckpointEvent* taken = nullptr;
  for (size_t i = first; i < last; ++i) {
    CheckpointEvent* const check = checks_[i];
    if (check->pins != 0) {
      check->removed = true;
    } else {
      check->next = std::exchange(taken, check);
    }
  }
  const auto begin = checks_.begin();
  checks_.erase(begin + static_cast<ptrdiff_t>(first),
                begin + static_cast<ptrdiff_t>(last));
  size_.store(checks_.size(), std::memory_order_relaxed);
  return taken;
}

void CheckpointList::RemoveEverySecond() {
  CheckpointEvent* taken = nullptr;
  {
    MutexLock lock(&mutex_);
    if (checks_.size() < kMost) return;
    for (size_t i = checks_.size() - 1; i >= 2; i -= 2) {
      if (CheckpointEvent* const check = TakeOut(i - 1, i)) {
        check->next = std::exchange(taken, check);
      }
    }
  }
  pool_->ReturnAll(taken);
}

void CheckpointList::Clear() {
  CheckpointEvent* checks = nullptr;
  {
    MutexLock lock(&mutex_);
    checks = TakeOut(0, checks_.size());
  }
  pool_->ReturnAll(checks);
  pool_->ReturnAll(spare_.exchange(nullptr, std::memory_order_acquire));
}

CheckpointEvent* CheckpointList::Pin(uint64_t epoch) {
  MutexLock lock(&mutex_);
  const size_t i = Find(epoch);
  if (i == checks_.size()) return nullptr;
  ++checks_[i]->pins;
  return checks_[i];
}

void CheckpointList::Unpin(CheckpointEvent* check) {
  {
    MutexLock lock(&mutex_);
    if (--check->pins != 0 || !check->removed) return;
    check->removed = false;
  }
  pool_->Return(check);
}

CheckpointList::Answer CheckpointList::Query(const CheckpointEvent& check,
                                             absl::Status* error) {
  uint32_t done = 0;
  const OwnQuery own;
  *error = FromPlugin(
      device_, device_->ops->event_query(device_->self, check.event, &done),
      "checkpoint");
  if (!error->ok()) return Answer::kFailed;
  return done != 0 ? Answer::kDone : Answer::kNotYet;
}

void CheckpointList::Complete(const CheckpointEvent& check) {
  clock_->Complete(check.epoch);
  if (check.last) clock_->Complete(clock_->Now());
}

// Inline, as Remove: a poll of a stream that makes progress calls both often.
inline CheckpointEvent* CheckpointList::PinNext(size_t step, uint64_t not_yet,
                                                uint64_t newest) {
  MutexLock lock(&mutex_);
  const size_t end = Find(std::min(not_yet, newest + 1));
  if (end == 0) return nullptr;
  CheckpointEvent* const check =
      checks_[not_yet == UINT64_MAX ? std::min(step, end) - 1 : (end - 1) / 2];
  ++check->pins;
  return check;
}

inline CheckpointEvent* CheckpointList::Remove(CheckpointEvent* check,
                                               bool complete) {
  MutexLock lock(&mutex_);
  // Two may have one epoch: the last one, and one that another thread recorded
  // meanwhile.
  size_t i = Find(check->epoch);
  while (i < checks_.size() && checks_[i] != check &&
         checks_[i]->epoch == check->epoch) {
    ++i;
  }
  const bool there = i < checks_.size() && checks_[i] == check;
  --check->pins;
  CheckpointEvent* const taken = TakeOut(complete ? 0 : i, there ? i + 1 : i);
  // Another thread may have removed it while it was pinned.
  if (there || check->pins != 0 || !std::exchange(check->removed, false)) {
    return taken;
  }
  check->next = taken;
  return check;
}

CheckpointList::Answer CheckpointList::QueryOnce(CheckpointEvent* check,
                                                 bool* found,
                                                 absl::Status* error) {
  const Answer answer = Query(*check, error);
  if (answer == Answer::kNotYet) {
    Unpin(check);
    return answer;
  }
  if (answer == Answer::kDone) {
    *found = true;
    Complete(*check);
  }
  ReturnEvents(Remove(check, answer == Answer::kDone));
  return answer;
}

CheckpointList::Answer CheckpointList::QueryAll(bool* found,
                                                absl::Status* error) {
  size_t step = 1;
  uint64_t not_yet = UINT64_MAX;  // the epoch of one that is not complete
  // The loop ends: each query removes checkpoints or halves the range that
  // is left.  Checkpoints that other threads record from here on are left to
  // the next poll.
  const uint64_t newest = clock_->Now();
  while (CheckpointEvent* const check = PinNext(step, not_yet, newest)) {
    const uint64_t epoch = check->epoch;
    const Answer answer = QueryOnce(check, found, error);
    if (answer == Answer::kFailed) return answer;
    if (answer == Answer::kNotYet) {
      not_yet = epoch;
    } else {
      step = std::min(2 * step, kMost);
    }
  }
  return not_yet == UINT64_MAX ? Answer::kDone : Answer::kNotYet;
}

void CheckpointList::QueryPinned(const CheckpointEvent& check) {
  absl::Status ignored;
  if (Query(check, &ignored) == Answer::kDone) Complete(check);
}

}  // namespace devrt::internal
