// SPDX-License-Identifier: Apache-2.0
//
// Native events in rotation, for vendors where an event must not be recorded
// while an earlier record of it is pending (C27).
//
//   error = events.Next(api, clock, current, create, &event);
//   if (error == Api::kSuccess) error = api.Record(event, stream);
//   if (error == Api::kSuccess) events.Recorded();
//
// Only the driver knows whether a record is complete, and a query costs more
// than ten records.  So queries are rare: a stream's records are numbered, and
// a complete record proves that all records before it are complete.  Between
// queries new events are created.
//
// Events are destroyed with their owner only, because another thread may be
// about to wait for one that it has read.

#ifndef DEVRT_BACKENDS_GPU_FRESH_EVENTS_H_
#define DEVRT_BACKENDS_GPU_FRESH_EVENTS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

namespace devrt::gpu {

// The records on one stream.  Threads: every member from any thread.
class RecordClock {
 public:
  // The most records between two queries, and so the most events in rotation.
  static constexpr uint64_t kInterval = 128;

  // The number of records so far.  All of them come before the next record.
  uint64_t recorded() const {
    return recorded_.load(std::memory_order_acquire);
  }
  // Counts a record after its native call, and returns its number.
  uint64_t Count() {
    return recorded_.fetch_add(1, std::memory_order_acq_rel) + 1;
  }

  bool IsOver(uint64_t number) const {
    return number <= over_.load(std::memory_order_acquire);
  }
  // Notes that all records up to that number are complete.
  void SetOver(uint64_t number) {
    uint64_t known = over_.load(std::memory_order_relaxed);
    while (known < number && !over_.compare_exchange_weak(
                                 known, number, std::memory_order_release,
                                 std::memory_order_relaxed)) {
    }
  }

  // Returns true if a query is due, and counts it.  Queries become rarer.
  // Threads that race here query once too often.
  bool BeginQueryIfDue() {
    const uint64_t now = recorded_.load(std::memory_order_relaxed);
    const uint64_t interval = interval_.load(std::memory_order_relaxed);
    if (now - queried_.load(std::memory_order_relaxed) < interval) return false;
    queried_.store(now, std::memory_order_relaxed);
    if (interval < kInterval) {
      interval_.store(2 * interval, std::memory_order_relaxed);
    }
    return true;
  }

 private:
  std::atomic<uint64_t> recorded_{0};
  std::atomic<uint64_t> over_{0};
  std::atomic<uint64_t> queried_{0};
  std::atomic<uint64_t> interval_{1};
};

// One record of an event on a stream.
struct RecordMark {
  std::shared_ptr<RecordClock> clock;  // null: there was no record
  uint64_t before = 0;                 // number of records before it
  uint64_t number = 0;

  bool IsOver() const { return clock == nullptr || clock->IsOver(number); }
  void SetOver() const {
    if (clock == nullptr) return;
    // Other threads' records between the two numbers may come after this one.
    clock->SetOver(number == before + 1 ? number : before);
  }
};

// Threads: one at a time.
template <class Api>
class FreshEvents {
 public:
  using Event = typename Api::Event;
  using Error = typename Api::Error;

  // Sets `*event` to an event without a pending record: `current`, a kept one,
  // or one made by create(event).  The caller records it on the clock's stream.
  template <typename Create>
  Error Next(const Api& api, const std::shared_ptr<RecordClock>& clock,
             Event current, const Create& create, Event* event) {
    current_.event = current;
    if (clock_ != clock) clock_ = clock;
    before_ = clock_->recorded();
    takes_kept_ = false;
    *event = current;
    if (current_.last.IsOver()) return Api::kSuccess;
    if (HasKept() || (clock_->BeginQueryIfDue() && QueryRecords(api))) {
      if (takes_kept_) *event = kept_[oldest_].event;
      return Api::kSuccess;
    }
    Entry made{};
    const Error error = create(&made.event);
    if (error == Api::kSuccess) {
      kept_.insert(kept_.begin() + static_cast<ptrdiff_t>(oldest_),
                   std::move(made));
      takes_kept_ = true;
    } else if (!QueryRecords(api)) {
      return error;
    }
    if (takes_kept_) *event = kept_[oldest_].event;
    return Api::kSuccess;
  }

  // Notes that the event of the last Next was recorded.  It becomes the current
  // one.
  void Recorded() {
    if (takes_kept_) {
      // The newest event takes the oldest one's place in the ring.
      std::swap(current_, kept_[oldest_]);
      Advance();
    }
    RecordMark& last = current_.last;
    if (last.clock != clock_) last.clock = clock_;
    last.before = before_;
    last.number = clock_->Count();
  }

  // The last record of the current event.
  const RecordMark& last() const { return current_.last; }

  // Destroys all events but the current one, which has no record any more.
  void Destroy(const Api& api) {
    for (const Entry& kept : kept_) (void)api.DestroyEvent(kept.event);
    Forget();
  }
  // Forgets the events, which now have another owner or ended with a reset.
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

  // Events of other streams move to the end, so that they do not block others.
  bool HasKept() {
    takes_kept_ = false;
    for (int i = 0; i < kMaxChecked && !kept_.empty(); ++i) {
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
    // Any other error will show at the event's next record.
    entry->last = {};
    return true;
  }

  // Queries the newest record first, because it covers most others.  Queries
  // the oldest one in any case, since it may belong to another stream.
  bool QueryRecords(const Api& api) {
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

  // The most kept events that HasKept checks, if streams take turns.
  static constexpr int kMaxChecked = 4;

  Entry current_;
  // A ring.  The events of one stream are in the order of their last records.
  std::vector<Entry> kept_;
  size_t oldest_ = 0;
  // Found by Next, for Recorded.
  std::shared_ptr<RecordClock> clock_;
  uint64_t before_ = 0;
  bool takes_kept_ = false;
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_FRESH_EVENTS_H_
