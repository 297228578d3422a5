// SPDX-License-Identifier: Apache-2.0
//
// CheckpointPool: the events for checkpoints of one device that are unused now.
//
// A checkpoint is an event of devrt's own, recorded behind a use that somebody
// may wait for.  Programs do not see these events, and Shutdown does not count
// them among the program's objects.
//
// Threads: any.  Lock: `mutex_`, a leaf; Acquire makes a native event without
// it.

#ifndef DEVRT_STREAMS_TIMELINES_CHECKPOINT_POOL_H_
#define DEVRT_STREAMS_TIMELINES_CHECKPOINT_POOL_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/runtime/mutex.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

struct CheckpointEvent {
  devrt_event event = nullptr;
  uint64_t epoch = 0;
  bool last = false;  // the checkpoint covers all work that its stream ever had
  // The lock of the CheckpointList that has the checkpoint guards both.
  uint32_t pins = 0;                // users of the event outside that lock
  bool removed = false;             // from the list: the last Unpin returns it
  CheckpointEvent* next = nullptr;  // in the pool, or in a chain to return
};

class CheckpointPool {
 public:
  explicit CheckpointPool(DeviceRecord* device) : device_(device) {}

  // Takes an unused event out of the pool, or makes one if there is none.
  absl::StatusOr<CheckpointEvent*> Acquire() DEVRT_EXCLUDES(mutex_);
  void Return(CheckpointEvent* event) DEVRT_EXCLUDES(mutex_);
  // Returns a chain of events; nullptr is an empty one.
  void ReturnAll(CheckpointEvent* events) DEVRT_EXCLUDES(mutex_);
  // Destroys the events, when the device destroys its native objects.
  void DestroyAll() DEVRT_EXCLUDES(mutex_);

 private:
  DeviceRecord* const device_;
  Mutex mutex_;
  CheckpointEvent* first_ DEVRT_GUARDED_BY(mutex_) = nullptr;
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_TIMELINES_CHECKPOINT_POOL_H_
