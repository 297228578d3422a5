// SPDX-License-Identifier: Apache-2.0

#include "streams/internal/capture_order.h"

#include <algorithm>

#include "streams/internal/timeline.h"

namespace devrt::internal {

void Order::Add(OrderPoint point) {
  Point* const end = points + count;
  Point* place = std::find_if(points, end, [&](const Point& p) {
    return p.timeline == point.timeline;
  });
  if (place != end) {
    point.epoch = std::max(point.epoch, place->epoch);
  } else if (count < kKept) {
    ++count;
  } else {
    --place;  // the oldest is forgotten
  }
  std::move_backward(points, place, place + 1);
  points[0] = {point.timeline, point.epoch};
}

uint64_t Order::EpochOf(const Timeline* timeline) const {
  for (size_t i = 0; i < count; ++i) {
    if (points[i].timeline == timeline) return points[i].epoch;
  }
  return 0;
}

void Order::DropComplete() {
  Point* const end = std::remove_if(points, points + count, [](const Point& p) {
    return p.timeline->IsComplete(p.epoch);
  });
  count = static_cast<size_t>(end - points);
}

CaptureOrder::~CaptureOrder() { delete[] kept_.load(); }

void CaptureOrder::NoteOrder(const Order* order) {
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

// Whoever reads a value of a later record sees its Begin in the last line: the
// values are published after it.
bool CaptureOrder::Read(uint64_t token, Captured* captured) const {
  captured->point = {timeline_.load(std::memory_order_acquire),
                     epoch_.load(std::memory_order_acquire)};
  Order& order = captured->order;
  order.count = count_.load(std::memory_order_acquire);
  const Kept* const kept = kept_.load(std::memory_order_acquire);
  for (size_t i = 0; i < order.count; ++i) {
    order.points[i] = {kept[i].timeline.load(std::memory_order_acquire),
                       kept[i].epoch.load(std::memory_order_acquire)};
  }
  return begun_.load(std::memory_order_acquire) == token;
}

}  // namespace devrt::internal
