// SPDX-License-Identifier: Apache-2.0
//
// EventOrder: what the newest record of an event comes after, for calls that
// wait for the event or query it.
//
// While a record is under way on another thread, or two records at once (C39),
// the order is unknown.  It stays unknown until the next record that no other
// record overlaps:
//
//   const uint64_t token = order.Begin();            a record
//   if (EventOrder::IsAlone(token)) order.Note(point, stream_order);
//   ... the native record ...
//   order.End(token, ok);
//
//   const uint64_t token = order.Known();            a wait or a query
//   ... the native wait or query ...
//   OrderedPoint recorded;
//   if (token != 0 && order.Read(token, &recorded)) ... that was `recorded` ...
//
// Threads: any.  There is no lock: a record costs one locked addition, a wait
// costs loads.

#ifndef DEVRT_STREAMS_TIMELINES_EVENT_ORDER_H_
#define DEVRT_STREAMS_TIMELINES_EVENT_ORDER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "streams/timelines/order.h"

namespace devrt::internal {

class EventOrder {
 public:
  EventOrder() = default;
  EventOrder(const EventOrder&) = delete;
  EventOrder& operator=(const EventOrder&) = delete;
  ~EventOrder();

  uint64_t Begin() {
    const uint64_t before = begun_.fetch_add(1);
    const bool alone = ended_.load(std::memory_order_acquire) == before;
    return (before + 1) << 1 | static_cast<uint64_t>(alone);
  }
  static bool IsAlone(uint64_t token) { return (token & 1) != 0; }
  // Called before the native record, if the record is alone.  `point`: the
  // point of the stream at which it records.  `order`: what the stream comes
  // after there; nullptr if it has waited for nothing.
  void Note(OrderPoint point, const Order* order) {
    timeline_.store(point.timeline, std::memory_order_release);
    epoch_.store(point.epoch, std::memory_order_release);
    if (order != nullptr || count_.load(std::memory_order_relaxed) != 0) {
      NoteOrder(order);
    }
  }
  // Called after the native record.  `noted`: Note was called and the native
  // record succeeded.
  void End(uint64_t token, bool noted) {
    const uint64_t number = token >> 1;
    if (noted) known_.store(number, std::memory_order_release);
    // The plain store may hide the end of another record that came meanwhile.
    // Then no record of this event is alone any more, which is safe.
    if (IsAlone(token) && begun_.load(std::memory_order_relaxed) == number) {
      ended_.store(number, std::memory_order_release);
    } else {
      ended_.fetch_add(1, std::memory_order_release);
    }
  }
  // Forgets everything, because the record now serves a new event, which no
  // other thread has yet.
  void Forget() {
    const uint64_t begun = begun_.load(std::memory_order_relaxed) + 1;
    begun_.store(begun, std::memory_order_relaxed);
    ended_.store(begun, std::memory_order_relaxed);
  }

  // A token for Read; 0 while the order is unknown.
  uint64_t Known() const {
    const uint64_t begun = begun_.load(std::memory_order_acquire);
    return known_.load(std::memory_order_acquire) == begun ? begun : 0;
  }
  // Returns false if another record began since Known().
  bool Read(uint64_t token, OrderedPoint* recorded) const;

 private:
  struct Kept {
    std::atomic<Timeline*> timeline{nullptr};
    std::atomic<uint64_t> epoch{0};
  };

  void NoteOrder(const Order* order);

  std::atomic<uint64_t> begun_{0};  // number of records that have begun
  std::atomic<uint64_t> ended_{0};  // at most the number that have ended
  std::atomic<uint64_t> known_{0};  // number of the record that is noted here
  std::atomic<Timeline*> timeline_{nullptr};
  std::atomic<uint64_t> epoch_{0};
  std::atomic<size_t> count_{0};
  std::atomic<Kept*> kept_{nullptr};  // Order::kKept of them, once needed
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_TIMELINES_EVENT_ORDER_H_
