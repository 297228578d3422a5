// SPDX-License-Identifier: Apache-2.0

#include "streams/timelines/checkpoint_pool.h"

#include <utility>

#include "devrt/runtime/status.h"
#include "streams/common/host_order.h"

namespace devrt::internal {

absl::StatusOr<CheckpointEvent*> CheckpointPool::Acquire() {
  {
    MutexLock lock(&mutex_);
    if (first_ != nullptr) {
      CheckpointEvent* const taken = first_;
      first_ = std::exchange(taken->next, nullptr);
      return taken;
    }
  }
  devrt_event event = nullptr;
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      device_,
      device_->ops->event_create(device_->self, device_->ordinal, 0, &event),
      "checkpoint"));
  TellOwnEvent(event);
  auto* const made = new CheckpointEvent;
  made->event = event;
  return made;
}

void CheckpointPool::Return(CheckpointEvent* event) {
  MutexLock lock(&mutex_);
  event->next = std::exchange(first_, event);
}

void CheckpointPool::ReturnAll(CheckpointEvent* events) {
  if (events == nullptr) return;
  CheckpointEvent* last = events;
  while (last->next != nullptr) last = last->next;
  MutexLock lock(&mutex_);
  last->next = std::exchange(first_, events);
}

void CheckpointPool::DestroyAll() {
  CheckpointEvent* events = nullptr;
  {
    MutexLock lock(&mutex_);
    std::swap(events, first_);
  }
  while (events != nullptr) {
    CheckpointEvent* const event = std::exchange(events, events->next);
    if (TakesHandlesBack(device_)) {
      (void)FromPlugin(device_,
                       device_->ops->event_destroy(device_->self, event->event),
                       "event destruction");
    }
    delete event;
  }
}

}  // namespace devrt::internal
