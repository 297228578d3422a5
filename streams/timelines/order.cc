// SPDX-License-Identifier: Apache-2.0

#include "streams/timelines/order.h"

#include <algorithm>

#include "streams/timelines/timeline.h"

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

void Order::CompleteAll() const {
  for (size_t i = 0; i < count; ++i) {
    points[i].timeline->Complete(points[i].epoch);
  }
}

}  // namespace devrt::internal
