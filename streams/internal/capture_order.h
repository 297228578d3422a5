// SPDX-License-Identifier: Apache-2.0
//
// What a stream, or the capture of an event, is known to be ordered after.
//
// A point is "the work of a stream up to here", an Order a bounded set of them:
// what it says is true, and what it does not say is merely unknown.
//
// CaptureOrder is what an event keeps of its newest capture, for who waits for
// it or asks it.  A record under way on another thread, or two at once (C39),
// make it unknown until the next one that is alone:
//
//   const uint64_t token = capture.Begin();          the record
//   if (CaptureOrder::IsAlone(token)) capture.Note(point, order);
//   ... the native record ...
//   capture.End(token, ok);
//
//   const uint64_t token = capture.Known();          the wait or query
//   ... the native wait or query ...
//   Captured captured;
//   if (token != 0 && capture.Read(token, &captured)) ... it was this one
//
// Threads: any.  No locks: one locked addition for a record, loads for a wait.

#ifndef DEVRT_STREAMS_INTERNAL_CAPTURE_ORDER_H_
#define DEVRT_STREAMS_INTERNAL_CAPTURE_ORDER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace devrt::internal {

class Timeline;

// "The work of a stream up to here."
struct OrderPoint {
  Timeline* timeline = nullptr;  // nullptr: nothing, always complete
  uint64_t epoch = 0;
};

// At most one point for a timeline, the newest joined first; the oldest are
// forgotten.
struct Order {
  static constexpr size_t kKept = 16;
  struct Point {  // not filled when made: there are many
    Timeline* timeline;
    uint64_t epoch;
  };
  size_t count = 0;
  Point points[kKept];

  // Joins `point`: a later one of its timeline stays.
  void Add(OrderPoint point);
  // The epoch up to which `timeline` is covered; 0 if nothing is known.
  uint64_t EpochOf(const Timeline* timeline) const;
  // Leaves out what is complete by now.
  void DropComplete();
};

// One capture.
struct Captured {
  OrderPoint point;
  Order order;  // of the stream then
};

class CaptureOrder {
 public:
  CaptureOrder() = default;
  CaptureOrder(const CaptureOrder&) = delete;
  CaptureOrder& operator=(const CaptureOrder&) = delete;
  ~CaptureOrder();

  uint64_t Begin() {
    const uint64_t before = begun_.fetch_add(1);
    const bool alone = ended_.load(std::memory_order_acquire) == before;
    return (before + 1) << 1 | static_cast<uint64_t>(alone);
  }
  static bool IsAlone(uint64_t token) { return (token & 1) != 0; }
  // Before the native record, whose stream has waited for `order`; nullptr:
  // for nothing.  Only while alone.
  void Note(OrderPoint point, const Order* order) {
    timeline_.store(point.timeline, std::memory_order_release);
    epoch_.store(point.epoch, std::memory_order_release);
    if (order != nullptr || count_.load(std::memory_order_relaxed) != 0) {
      NoteOrder(order);
    }
  }
  // `noted`: Note was called and the record took effect.
  void End(uint64_t token, bool noted) {
    const uint64_t number = token >> 1;
    if (noted) known_.store(number, std::memory_order_release);
    // A plain store may hide the end of another record that came meanwhile:
    // then no record of this life is alone any more, which is safe.
    if (IsAlone(token) && begun_.load(std::memory_order_relaxed) == number) {
      ended_.store(number, std::memory_order_release);
    } else {
      ended_.fetch_add(1, std::memory_order_release);
    }
  }
  // The event begins a new life; nobody else has it.
  void Forget() {
    const uint64_t begun = begun_.load(std::memory_order_relaxed) + 1;
    begun_.store(begun, std::memory_order_relaxed);
    ended_.store(begun, std::memory_order_relaxed);
  }

  // A token for Read; 0 while the capture is unknown.
  uint64_t Known() const {
    const uint64_t begun = begun_.load(std::memory_order_acquire);
    return known_.load(std::memory_order_acquire) == begun ? begun : 0;
  }
  // False if another record began since Known().
  bool Read(uint64_t token, Captured* captured) const;

 private:
  struct Kept {
    std::atomic<Timeline*> timeline{nullptr};
    std::atomic<uint64_t> epoch{0};
  };

  void NoteOrder(const Order* order);

  std::atomic<uint64_t> begun_{0};  // records
  std::atomic<uint64_t> ended_{0};  // never more than have
  std::atomic<uint64_t> known_{0};  // the record that what follows is of
  std::atomic<Timeline*> timeline_{nullptr};
  std::atomic<uint64_t> epoch_{0};
  std::atomic<size_t> count_{0};
  std::atomic<Kept*> kept_{nullptr};  // Order::kKept of them, once needed
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_CAPTURE_ORDER_H_
