// SPDX-License-Identifier: Apache-2.0

#include "streams/objects/event_pool.h"

#include <string_view>

#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "streams/common/deferred_deletion.h"

namespace devrt::internal {

EventRecord* EventPool::TakeOrMake(uint32_t flags) {
  {
    MutexLock lock(&mutex_);
    CountLive(1);
    EventRecord* const record = idle_[flags];
    if (record != nullptr) {
      idle_[flags] = record->next;
      return record;
    }
  }
  auto* const record = new EventRecord;
  record->device = device_;
  record->flags = flags;
  return record;
}

void EventPool::PutBack(EventRecord* record) {
  MutexLock lock(&mutex_);
  CountLive(-1);
  record->next = idle_[record->flags];
  idle_[record->flags] = record;
}

EventRef EventPool::Acquire(uint32_t flags) {
  EventRecord* record = nullptr;
  std::atomic<EventRecord*>& spare = device_->spare_event;
  if (flags == 0 && spare.load(std::memory_order_relaxed) != nullptr) {
    record = spare.exchange(nullptr, std::memory_order_acquire);
  }
  if (record == nullptr) record = TakeOrMake(flags);
  record->recorded.store(false, std::memory_order_relaxed);
  record->may_be_captured.store(false, std::memory_order_relaxed);
  record->order.Forget();
  const uint64_t serial = ++record->lives;
  record->serial.store(serial, std::memory_order_release);
  return EventRef(record, serial);
}

EventRef EventPool::Acquire(uint32_t flags, devrt_event handle) {
  const EventRef event = Acquire(flags);
  event.record()->handle.store(handle, std::memory_order_release);
  return event;
}

void EventPool::Release(EventRecord* record) {
  const uint32_t state = device_->state.load(std::memory_order_acquire);
  if ((state & kForkedChild) != 0) return;
  record->serial.store(0, std::memory_order_release);
  // A native interprocess event is not used again, because other processes may
  // have it.
  if ((record->flags & DEVRT_EVENT_IPC) != 0) {
    devrt_event handle = record->handle.exchange(nullptr);
    if (state == 0)
      RunOutsideHostFunction([this, handle] { DestroyHandle(handle); });
    record->native.store(0, std::memory_order_relaxed);
  }
  std::atomic<EventRecord*>& spare = device_->spare_event;
  EventRecord* none = nullptr;
  if (record->flags == 0 && spare.load(std::memory_order_relaxed) == none &&
      spare.compare_exchange_strong(none, record, std::memory_order_release,
                                    std::memory_order_relaxed)) {
    return;
  }
  PutBack(record);
}

void EventPool::DestroyHandle(devrt_event handle) {
  if (handle == nullptr || !TakesHandlesBack(device_)) return;
  absl::Status status =
      FromPlugin(device_, device_->ops->event_destroy(device_->self, handle),
                 "event destruction");
  if (!status.ok() && TakesHandlesBack(device_)) {
    DEVRT_LOG(kError, std::string_view(status.message().data(),
                                       status.message().size()));
  }
}

// The lock is held, so a load and a store are enough.
void EventPool::CountLive(int change) {
  const int64_t live = device_->live_events.load(std::memory_order_relaxed);
  device_->live_events.store(live + change, std::memory_order_relaxed);
}

// The lock is not held while the event is made, because other threads may run
// in that call.
absl::Status EventPool::EnsureHandle(EventRecord* record) {
  if (record->handle.load(std::memory_order_acquire) != nullptr) {
    return absl::OkStatus();
  }
  devrt_event handle = nullptr;
  DEVRT_RETURN_IF_ERROR(
      FromPlugin(device_,
                 device_->ops->event_create(device_->self, device_->ordinal,
                                            record->flags, &handle),
                 "event creation"));
  devrt_event none = nullptr;
  if (!record->handle.compare_exchange_strong(none, handle)) {
    DestroyHandle(handle);  // another thread was first
  }
  return absl::OkStatus();
}

void EventPool::ReleaseIdle() {
  EventRecord* const spare = device_->spare_event.exchange(nullptr);
  if (spare != nullptr) PutBack(spare);
  MutexLock lock(&mutex_);
  for (EventRecord* list : idle_) {
    for (; list != nullptr; list = list->next) {
      list->native.store(0);
      DestroyHandle(list->handle.exchange(nullptr));
    }
  }
}

}  // namespace devrt::internal
