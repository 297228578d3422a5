// SPDX-License-Identifier: Apache-2.0
//
// Native events that take turns, for vendors where an event must not be
// recorded while an earlier record of it is pending (C27).
//
//   error = events.Take(api, clock, current, create, &event);
//   if (error == Api::kSuccess) error = api.Record(event, stream);
//   if (error == Api::kSuccess) events.Recorded();
//
// Whether a record is over, only the driver knows, and its answer costs more
// than ten records. So it is asked rarely: a stream's records are numbered, and
// one that is over says so of all that were made before it. Until the next
// question new events are made.
//
// None is destroyed before the owner is: another thread may just be about to
// wait for one that it has read.

#ifndef DEVRT_BACKENDS_GPU_FRESH_EVENTS_H_
#define DEVRT_BACKENDS_GPU_FRESH_EVENTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace devrt::gpu {

// The records on one stream. Threads: all.
class RecordClock {
 public:
  // Records between two questions, at most: as many events may be on turn.
  static constexpr uint64_t kInterval = 128;

  // How many have been made: all of them come before what is recorded next.
  uint64_t recorded() const {
    return recorded_.load(std::memory_order_acquire);
  }
  // Behind the native record; its number.
  uint64_t Count() {
    return recorded_.fetch_add(1, std::memory_order_acq_rel) + 1;
  }

  bool IsOver(uint64_t number) const {
    return number <= over_.load(std::memory_order_acquire);
  }
  // All records up to that one.
  void SetOver(uint64_t number) {
    uint64_t known = over_.load(std::memory_order_relaxed);
    while (known < number && !over_.compare_exchange_weak(
                                 known, number, std::memory_order_release,
                                 std::memory_order_relaxed)) {
    }
  }

  // Whether it is time for a question; they become rarer. Threads that mix
  // here ask once too often.
  bool MayAsk() {
    const uint64_t now = recorded_.load(std::memory_order_relaxed);
    const uint64_t interval = interval_.load(std::memory_order_relaxed);
    if (now - asked_.load(std::memory_order_relaxed) < interval) return false;
    asked_.store(now, std::memory_order_relaxed);
    if (interval < kInterval) {
      interval_.store(2 * interval, std::memory_order_relaxed);
    }
    return true;
  }

 private:
  std::atomic<uint64_t> recorded_{0};
  std::atomic<uint64_t> over_{0};
  std::atomic<uint64_t> asked_{0};
  std::atomic<uint64_t> interval_{1};
};

// One record: of an event, on a stream.
struct RecordMark {
  std::shared_ptr<RecordClock> clock;  // none: there was no record
  uint64_t before = 0;                 // records that were made before it began
  uint64_t number = 0;

  bool IsOver() const { return clock == nullptr || clock->IsOver(number); }
  void SetOver() const {
    if (clock == nullptr) return;
    // Other threads' records between the two may have come behind it.
    clock->SetOver(number == before + 1 ? number : before);
  }
};

// Threads: one at a time.
template <class Api>
class FreshEvents {
 public:
  using Event = typename Api::Event;
  using Error = typename Api::Error;

  // `*event` has no pending record: it is `current`, one that was kept, or made
  // by create(event). It is to be recorded on the clock's stream.
  template <typename Create>
  Error Take(const Api& api, const std::shared_ptr<RecordClock>& clock,
             Event current, const Create& create, Event* event) {
    current_.event = current;
    if (clock_ != clock) clock_ = clock;
    before_ = clock_->recorded();
    takes_kept_ = false;
    *event = current;
    if (current_.last.IsOver()) return Api::kSuccess;
    if (HasKept() || (clock_->MayAsk() && Ask(api))) {
      if (takes_kept_) *event = kept_[oldest_].event;
      return Api::kSuccess;
    }
    Entry made{};
    const Error error = create(&made.event);
    if (error == Api::kSuccess) {
      kept_.insert(kept_.begin() + static_cast<ptrdiff_t>(oldest_),
                   std::move(made));
      takes_kept_ = true;
    } else if (!Ask(api)) {
      return error;
    }
    if (takes_kept_) *event = kept_[oldest_].event;
    return Api::kSuccess;
  }

  // What Take gave last has been recorded: it is the current one.
  void Recorded() {
    if (takes_kept_) {
      // What was the oldest of the ring makes way for the newest.
      std::swap(current_, kept_[oldest_]);
      Advance();
    }
    RecordMark& last = current_.last;
    if (last.clock != clock_) last.clock = clock_;
    last.before = before_;
    last.number = clock_->Count();
  }

  // The current event's last record.
  const RecordMark& last() const { return current_.last; }

  // All but the current one; that has no record any more.
  void Destroy(const Api& api) {
    for (const Entry& kept : kept_) (void)api.DestroyEvent(kept.event);
    Forget();
  }
  // The same where they are somebody else's now, or gone with a reset.
  void Forget() {
    kept_.clear();
    oldest_ = 0;
    current_ = {};
  }

 private:
  struct Entry {
    Event event{};
    RecordMark last;
  };

  // Those of other streams stand in nobody's way: they go to the end.
  bool HasKept() {
    takes_kept_ = false;
    for (int look = 0; look < kLooks && !kept_.empty(); ++look) {
      const RecordMark& last = kept_[oldest_].last;
      takes_kept_ = last.IsOver();
      if (takes_kept_ || last.clock == clock_) break;
      Advance();
    }
    return takes_kept_;
  }

  void Advance() { oldest_ = oldest_ + 1 == kept_.size() ? 0 : oldest_ + 1; }

  static bool IsComplete(const Api& api, Entry* entry) {
    const Error error = api.QueryEvent(entry->event);
    if (error == Api::kNotReady) return false;
    if (error == Api::kSuccess) entry->last.SetOver();
    // What else may be wrong with it its next record will tell.
    entry->last = {};
    return true;
  }

  // The newest record first: it answers for most. The oldest in any case, which
  // may be another stream's, and nobody else's to ask for.
  bool Ask(const Api& api) {
    takes_kept_ = false;
    const bool is_over = IsComplete(api, &current_);
    if (kept_.empty()) return is_over;
    if (!is_over) {
      const size_t middle = (oldest_ + kept_.size() / 2) % kept_.size();
      (void)IsComplete(api, &kept_[middle]);
    }
    Entry& oldest = kept_[oldest_];
    if (!oldest.last.IsOver()) (void)IsComplete(api, &oldest);
    return is_over || HasKept();
  }

  // Kept ones looked at for a record, where streams take turns.
  static constexpr int kLooks = 4;

  Entry current_;
  // A ring; those of one stream in the order of their last records.
  std::vector<Entry> kept_;
  size_t oldest_ = 0;
  // What Take found for Recorded.
  std::shared_ptr<RecordClock> clock_;
  uint64_t before_ = 0;
  bool takes_kept_ = false;
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_FRESH_EVENTS_H_
