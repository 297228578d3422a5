// SPDX-License-Identifier: Apache-2.0
//
// Order: what a stream, or the newest record of an event, comes after.
//
// A point is "the work of a stream up to here".  An Order is a bounded set of
// points.  The stream or the record certainly comes after these points.  It may
// come after others too.
//
// Threads: these are plain values, which their owners lock.

#ifndef DEVRT_STREAMS_TIMELINES_ORDER_H_
#define DEVRT_STREAMS_TIMELINES_ORDER_H_

#include <cstddef>
#include <cstdint>

namespace devrt::internal {

class Timeline;

// "The work of a stream up to here."
struct OrderPoint {
  Timeline* timeline = nullptr;  // nullptr: no work, always complete
  uint64_t epoch = 0;
};

// At most one point for each timeline, the newest joined first.  The oldest
// points are forgotten.
struct Order {
  static constexpr size_t kKept = 16;
  struct Point {  // without initialisers, because an Order has many
    Timeline* timeline;
    uint64_t epoch;
  };
  size_t count = 0;
  Point points[kKept];

  // Adds `point`, or keeps a later point of its timeline.
  void Add(OrderPoint point);
  // The epoch up to which `timeline` is covered; 0 if nothing is known.
  uint64_t EpochOf(const Timeline* timeline) const;
  // Removes points whose work is complete.
  void DropComplete();
  // Completes the work of all points.
  void CompleteAll() const;
};

// A point of a stream, and what the stream came after there.
struct OrderedPoint {
  OrderPoint point;
  Order order;

  // Completes the work of the point and all work before it.  Defined in
  // timeline.h, inline for queries of events.
  inline void CompleteAll() const;
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_TIMELINES_ORDER_H_
