// SPDX-License-Identifier: Apache-2.0
//
// KnownOrder: the points of other streams that one stream has waited for by
// events, and the points that those events came after (C26).
//
// Threads: any.  Lock: `mutex_`, a leaf; a stream that has waited for nothing
// takes no lock.

#ifndef DEVRT_STREAMS_TIMELINES_KNOWN_ORDER_H_
#define DEVRT_STREAMS_TIMELINES_KNOWN_ORDER_H_

#include <atomic>
#include <memory>

#include "devrt/runtime/mutex.h"
#include "streams/timelines/event_order.h"
#include "streams/timelines/order.h"

namespace devrt::internal {

class KnownOrder {
 public:
  // `stream`: the stream whose order this is.
  explicit KnownOrder(const Timeline* stream) : stream_(stream) {}
  KnownOrder(const KnownOrder&) = delete;
  KnownOrder& operator=(const KnownOrder&) = delete;

  // Returns true if the stream comes after `point`.
  bool Covers(const OrderPoint& point) const DEVRT_EXCLUDES(mutex_);
  // Notes that the stream has waited for `waited`.
  void Join(const OrderedPoint& waited) DEVRT_EXCLUDES(mutex_);
  // Notes in `event` that it is recorded at `point` of the stream.
  void NoteIn(EventOrder* event, OrderPoint point) DEVRT_EXCLUDES(mutex_) {
    if (only_.load(std::memory_order_acquire) != nullptr) {
      NoteAllIn(event, point);
    } else {
      event->Note(point, nullptr);
    }
  }
  // Copies for `taker`, which knows its own points; nullptr: for any stream.
  // Leaves `*order` as it is if there is nothing to learn, as for two streams
  // that wait for each other in turns.
  void CopyTo(Order* order, const Timeline* taker) const DEVRT_EXCLUDES(mutex_);

  void Clear() DEVRT_EXCLUDES(mutex_);
  // Called when the native stream ends.  Clears the order; Join does nothing
  // until Open.
  void Close() DEVRT_EXCLUDES(mutex_);
  void Open() DEVRT_EXCLUDES(mutex_);

 private:
  void NoteAllIn(EventOrder* event, OrderPoint point) DEVRT_EXCLUDES(mutex_);

  const Timeline* const stream_;
  // nullptr: there are no points.  `stream_`: the points may be of several
  // streams.  Else all points are of this stream.
  std::atomic<const Timeline*> only_{nullptr};
  mutable Mutex mutex_;
  std::unique_ptr<Order> order_ DEVRT_GUARDED_BY(mutex_);
  bool closed_ DEVRT_GUARDED_BY(mutex_) = false;
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_TIMELINES_KNOWN_ORDER_H_
