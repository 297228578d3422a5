// SPDX-License-Identifier: Apache-2.0
//
// EventPool: the event records of one device that no Event uses now.
//
// A record keeps its native event, which is made at the first record of the
// event.  The device's spare record goes out and comes back without the lock:
// programs make and end an event for a wait.
//
// Threads: any.  Lock: `mutex_`, a leaf; a native event is made without it.

#ifndef DEVRT_STREAMS_OBJECTS_EVENT_POOL_H_
#define DEVRT_STREAMS_OBJECTS_EVENT_POOL_H_

#include <cstdint>

#include "absl/status/status.h"
#include "devrt/backends/abi/devrt_event_ipc.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/event.h"
#include "runtime/registry/records.h"
#include "streams/objects/event_record.h"

namespace devrt::internal {

class EventPool {
 public:
  explicit EventPool(DeviceRecord* device) : device_(device) {}

  EventRef Acquire(uint32_t flags);
  void Release(EventRecord* record);
  // Takes a record for a native event that another process has exported.
  EventRef Acquire(uint32_t flags, devrt_event handle);
  // Makes the native event if there is none.
  absl::Status EnsureHandle(EventRecord* record) DEVRT_EXCLUDES(mutex_);
  void ReleaseIdle();

 private:
  static constexpr uint32_t kClasses = 2 * DEVRT_EVENT_IPC;  // one per flags
  EventRecord* TakeOrMake(uint32_t flags) DEVRT_EXCLUDES(mutex_);
  void PutBack(EventRecord* record) DEVRT_EXCLUDES(mutex_);
  void CountLive(int change) DEVRT_REQUIRES(mutex_);
  // Does nothing for nullptr, or if the device takes no handles back.
  void DestroyHandle(devrt_event handle);
  DeviceRecord* const device_;
  Mutex mutex_;
  EventRecord* idle_[kClasses] DEVRT_GUARDED_BY(mutex_) = {};
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_EVENT_POOL_H_
