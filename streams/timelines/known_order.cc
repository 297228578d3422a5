// SPDX-License-Identifier: Apache-2.0

#include "streams/timelines/known_order.h"

#include <algorithm>

#include "streams/timelines/timeline.h"

namespace devrt::internal {

bool KnownOrder::Covers(const OrderPoint& point) const {
  if (only_.load(std::memory_order_acquire) == nullptr) return false;
  MutexLock lock(&mutex_);
  return order_ != nullptr && order_->EpochOf(point.timeline) >= point.epoch;
}

// Adds the older points first, because an Order keeps those joined last.
void KnownOrder::Join(const OrderedPoint& waited) {
  MutexLock lock(&mutex_);
  if (closed_) return;
  if (order_ == nullptr) order_ = std::make_unique<Order>();
  Order* const order = order_.get();
  // One stream often waits for one other again and again, and that one for it.
  const bool adds_one =
      waited.order.count == 0 ||
      (waited.order.count == 1 && waited.order.points[0].timeline == stream_);
  if (order->count == 1 && adds_one &&
      order->points[0].timeline == waited.point.timeline) {
    order->points[0].epoch =
        std::max(order->points[0].epoch, waited.point.epoch);
    return;
  }
  const auto add = [this, order](const OrderPoint& p) {
    if (p.timeline != stream_ && !p.timeline->IsComplete(p.epoch)) {
      order->Add(p);
    }
  };
  order->DropComplete();
  for (size_t i = waited.order.count; i > 0; --i) {
    const Order::Point& p = waited.order.points[i - 1];
    add({p.timeline, p.epoch});
  }
  add(waited.point);
  only_.store(order->count == 0   ? nullptr
              : order->count == 1 ? order->points[0].timeline
                                  : stream_,
              std::memory_order_release);
}

void KnownOrder::NoteAllIn(EventOrder* event, OrderPoint point) {
  MutexLock lock(&mutex_);
  if (order_ != nullptr) order_->DropComplete();
  event->Note(point, order_.get());
}

void KnownOrder::CopyTo(Order* order, const Timeline* taker) const {
  const Timeline* const only = only_.load(std::memory_order_acquire);
  if (only == nullptr || only == taker) return;
  MutexLock lock(&mutex_);
  if (order_ == nullptr) return;
  order->count = order_->count;
  std::copy_n(order_->points, order_->count, order->points);
}

void KnownOrder::Clear() {
  MutexLock lock(&mutex_);
  order_.reset();
  only_.store(nullptr, std::memory_order_relaxed);
}

void KnownOrder::Close() {
  MutexLock lock(&mutex_);
  order_.reset();
  only_.store(nullptr, std::memory_order_relaxed);
  closed_ = true;
}

void KnownOrder::Open() {
  MutexLock lock(&mutex_);
  closed_ = false;
}

}  // namespace devrt::internal
