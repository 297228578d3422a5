// SPDX-License-Identifier: Apache-2.0
//
// Timelines: all timelines of one device.  Timelines of native streams that
// ended serve new streams.
//
// Threads: any.  Lock: `mutex_`, a leaf; no timeline is called while it is
// held, except for reading its epoch.

#ifndef DEVRT_STREAMS_TIMELINES_TIMELINES_H_
#define DEVRT_STREAMS_TIMELINES_TIMELINES_H_

#include <cstddef>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/mutex.h"
#include "runtime/registry/records.h"
#include "streams/timelines/checkpoint_pool.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

class Timelines {
 public:
  // `checkpoints`: the events that the checkpoints of all timelines use.
  // `capture`: the extension of `device`.  Both outlive the timelines.
  Timelines(DeviceRecord* device, CheckpointPool* checkpoints,
            const ExtensionOf<devrt_capture_v0>* capture)
      : device_(device),
        checkpoints_(checkpoints),
        capture_(capture),
        legacy_(device, checkpoints, capture, Timeline::Rule::kDefault) {
    all_.push_back(&legacy_);
  }

  // The timeline of the device's default stream.
  Timeline* legacy() { return &legacy_; }
  // A timeline for a new native stream.
  Timeline* Acquire(bool blocking) DEVRT_EXCLUDES(mutex_);
  // Gives back a timeline whose native stream has ended.  Acquire hands it out
  // again once it is spent.
  void Retire(Timeline* timeline) DEVRT_EXCLUDES(mutex_);

  // Returns true if another library captures a stream of the device.  A stream
  // whose handle the calling thread may not use counts as not captured.
  absl::StatusOr<bool> HasCaptured() DEVRT_EXCLUDES(mutex_);
  // Calls `wait`, which waits for the device.  If that succeeds, the work
  // submitted before the call is complete in all timelines.
  absl::Status Synchronize(absl::FunctionRef<absl::Status()> wait)
      DEVRT_EXCLUDES(mutex_);
  // Called when the device destroys its native objects.
  void Release() DEVRT_EXCLUDES(mutex_);

 private:
  std::vector<Timeline*> All() DEVRT_EXCLUDES(mutex_);
  // nullptr if none is spent.
  Timeline* TakeKept() DEVRT_EXCLUDES(mutex_);

  DeviceRecord* const device_;
  CheckpointPool* const checkpoints_;
  const ExtensionOf<devrt_capture_v0>* const capture_;
  Timeline legacy_;
  Mutex mutex_;
  std::vector<Timeline*> all_ DEVRT_GUARDED_BY(mutex_);
  std::vector<Timeline*> retired_ DEVRT_GUARDED_BY(mutex_);
  size_t next_retired_ DEVRT_GUARDED_BY(mutex_) = 0;
  // Retired before the last Release, all alike.  Acquire takes one in place of
  // a new timeline, without a call of the backend: so a run of the simulator
  // does not depend on earlier ones.
  std::vector<Timeline*> kept_ DEVRT_GUARDED_BY(mutex_);
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_TIMELINES_TIMELINES_H_
