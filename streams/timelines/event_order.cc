// SPDX-License-Identifier: Apache-2.0

#include "streams/timelines/event_order.h"

namespace devrt::internal {

EventOrder::~EventOrder() { delete[] kept_.load(); }

void EventOrder::NoteOrder(const Order* order) {
  const size_t count = order != nullptr ? order->count : 0;
  Kept* kept = kept_.load(std::memory_order_relaxed);
  if (kept == nullptr && count != 0) {
    kept = new Kept[Order::kKept];
    kept_.store(kept, std::memory_order_release);
  }
  for (size_t i = 0; i < count; ++i) {
    kept[i].timeline.store(order->points[i].timeline,
                           std::memory_order_release);
    kept[i].epoch.store(order->points[i].epoch, std::memory_order_release);
  }
  count_.store(count, std::memory_order_release);
}

// A thread that reads a value of a later record finds in the last line that the
// record has begun, because Begin comes before the values.
bool EventOrder::Read(uint64_t token, OrderedPoint* recorded) const {
  recorded->point = {timeline_.load(std::memory_order_acquire),
                     epoch_.load(std::memory_order_acquire)};
  Order& order = recorded->order;
  order.count = count_.load(std::memory_order_acquire);
  const Kept* const kept = kept_.load(std::memory_order_acquire);
  for (size_t i = 0; i < order.count; ++i) {
    order.points[i] = {kept[i].timeline.load(std::memory_order_acquire),
                       kept[i].epoch.load(std::memory_order_acquire)};
  }
  return begun_.load(std::memory_order_acquire) == token;
}

}  // namespace devrt::internal
