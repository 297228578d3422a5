// SPDX-License-Identifier: Apache-2.0

#include <vector>

#include "devrt/streams/internal/device_streams.h"

namespace devrt::internal {

EventRef EventPool::Take(uint32_t flags) {
  EventRecord* record = nullptr;
  {
    MutexLock lock(&mutex_);
    CountLive(1);
    if (flags < kClasses && idle_[flags] != nullptr) {
      record = idle_[flags];
      idle_[flags] = record->next;
    }
  }
  if (record == nullptr) {
    record = new EventRecord;
    record->device = device_;
    record->flags = flags;
  }
  record->recorded.store(false, std::memory_order_relaxed);
  const uint64_t serial = ++record->lives;
  record->serial.store(serial, std::memory_order_release);
  return EventRef(record, serial);
}

void EventPool::Release(EventRecord* record) {
  const uint32_t state = device_->state.load(std::memory_order_acquire);
  if ((state & kForkedChild) != 0) return;
  record->serial.store(0, std::memory_order_release);
  // Interprocess events are named elsewhere: they are not used again.
  if (record->flags >= kClasses) {
    devrt_event handle = record->handle.exchange(nullptr);
    if (handle != nullptr && state == 0) {
      (void)FromPlugin(device_,
                       device_->ops->event_destroy(device_->self, handle),
                       "event destruction");
    }
    MutexLock lock(&mutex_);
    CountLive(-1);
    return;
  }
  MutexLock lock(&mutex_);
  CountLive(-1);
  record->next = idle_[record->flags];
  idle_[record->flags] = record;
}

// Under the lock, so that a plain store will do.
void EventPool::CountLive(int change) {
  const int64_t live = device_->live_events.load(std::memory_order_relaxed);
  device_->live_events.store(live + change, std::memory_order_relaxed);
}

absl::Status EventPool::EnsureHandle(EventRecord* record) {
  MutexLock lock(&mutex_);
  if (record->handle.load(std::memory_order_relaxed) != nullptr) {
    return absl::OkStatus();
  }
  devrt_event handle = nullptr;
  absl::Status status = FromPlugin(
      device_,
      device_->ops->event_create(device_->self, device_->ordinal,
                                 record->flags, &handle),
      "event creation");
  if (status.ok()) record->handle.store(handle, std::memory_order_release);
  return status;
}

void EventPool::ReleaseIdle() {
  MutexLock lock(&mutex_);
  for (EventRecord* list : idle_) {
    for (; list != nullptr; list = list->next) {
      devrt_event handle = list->handle.exchange(nullptr);
      list->native.store(0);
      if (handle == nullptr || !IsOpen(device_)) continue;
      (void)FromPlugin(device_,
                       device_->ops->event_destroy(device_->self, handle),
                       "event destruction");
    }
  }
}

}  // namespace devrt::internal
