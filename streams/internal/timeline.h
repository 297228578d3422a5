// SPDX-License-Identifier: Apache-2.0
//
// Timeline: how far a stream has come, as devrt knows it without waiting.
//
// Every native stream has one.  Time on it is its epoch, a number that grows
// whenever somebody is about to look at the stream:
//
//   a use was enqueued       OrderPoint p = {&timeline, timeline.Now()};
//   a look (record, query,   const uint64_t e = timeline.BeginLook();
//   synchronise)             ... the native record, query or wait ...
//   the look saw the end     timeline.Complete(e);
//   later, from any thread   timeline.IsComplete(p.epoch)
//
// A look that began at epoch e covers every use whose Now() was at most e: the
// use was enqueued before it read the epoch, and the look raised the epoch
// before it went to the driver, which orders both (R4).  A submission costs
// nothing, a use that must be remembered one load, a look one locked addition.
//
// Checkpoints are events of devrt's own behind uses that somebody waits for.
// They are asked in order: one query that says "not yet" answers for all behind
// it, and a stream that is stuck costs one query a poll and no more.
//
// What a stream is ordered after besides itself (1.14) is its Order: which
// epochs of other timelines it has waited for by events, those events' own
// Order included (C26).  It is bounded and may forget: what it says is true,
// and what it does not say is merely unknown.
//
// Identity: a timeline belongs to one native stream from its making to its end
// and is not used again, so that neither a recycled Stream nor a driver's
// handle that comes back is taken for it (C100, F20).  A Stream that is handed
// out again by the recycler keeps its native stream and so its timeline.
// Timelines are never freed; about 200 bytes each.
//
// Threads: any.  `mutex` is a leaf: nothing is called while it is held.

#ifndef DEVRT_STREAMS_INTERNAL_TIMELINE_H_
#define DEVRT_STREAMS_INTERNAL_TIMELINE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "devrt/runtime/internal/records.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/event.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

class Timeline;

// "The work of a stream up to here."
struct OrderPoint {
  Timeline* timeline = nullptr;  // nullptr: nothing, always complete
  uint64_t epoch = 0;
};

// What a stream or a capture is ordered after.  Immutable and shared between
// the stream and the events that captured it; a stream that waits gets another.
struct Order {
  static constexpr size_t kKept = 16;         // the newest of so many streams
  absl::InlinedVector<OrderPoint, 4> points;  // one for a timeline at most
};

// What EventRecord keeps of its newest capture, for Wait and Query.  A record
// under way on another thread, or two at once (C39), make it unknown: `version`
// is odd meanwhile, and a reader that sees it odd or changed learns nothing.
struct CaptureOrder {
  std::atomic<uint32_t> version{0};
  OrderPoint point;                    // epoch of BeginLook
  std::shared_ptr<const Order> order;  // of the stream then; often null
};

class Timeline {
 public:
  explicit Timeline(DeviceRecord* device) : device_(device) {}
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  DeviceRecord* device() const { return device_; }

  // After an enqueue: the epoch that the work belongs to.
  uint64_t Now() const { return epoch_.load(std::memory_order_acquire); }
  // Before a native record, query or wait.
  uint64_t BeginLook() { return epoch_.fetch_add(1); }
  // What was looked at at `epoch` is over.  Publishes with release: what this
  // thread has seen is seen by who finds IsComplete.
  void Complete(uint64_t epoch) {
    uint64_t seen = completed_.load(std::memory_order_relaxed);
    while (seen < epoch && !completed_.compare_exchange_weak(
                               seen, epoch, std::memory_order_release,
                               std::memory_order_relaxed)) {
    }
  }
  bool IsComplete(uint64_t epoch) const {
    return completed_.load(std::memory_order_acquire) >= epoch;
  }

  // Whether work that is submitted from now on is ordered after `point`: by
  // this being its stream, by completion, by an Order, or by the rule of the
  // default stream (C8: a default and a blocking stream of one device).
  bool IsAfter(const OrderPoint& point) const DEVRT_EXCLUDES(mutex_);

  // Records an event of devrt's own on `stream`, whose timeline this is, unless
  // one covers its present epoch already.  Calls the backend: no lock may be
  // held.  Beyond kMostCheckpoints open ones nothing is recorded: the uses are
  // covered by the next one, later than need be.
  absl::Status Checkpoint(StreamRef stream) DEVRT_EXCLUDES(mutex_);
  // Asks checkpoints, oldest first, until one is not complete; where there is
  // none and `query_stream`, the stream.  True when completed_ grew.  A failed
  // query leaves the epoch incomplete for ever: its blocks are lost (2.5).
  bool Poll(bool query_stream) DEVRT_EXCLUDES(mutex_);
  // This stream has waited for an event with that capture.
  void Join(const CaptureOrder& capture) DEVRT_EXCLUDES(mutex_);

  static constexpr size_t kMostCheckpoints = 64;

 private:
  struct Check {
    uint64_t epoch;
    Event event;
    Check* next;
  };

  DeviceRecord* const device_;
  std::atomic<uint64_t> epoch_{1};
  std::atomic<uint64_t> completed_{0};
  // Epoch of the newest checkpoint: none is needed for uses of before it.
  std::atomic<uint64_t> covered_{0};
  mutable Mutex mutex_;
  Check* oldest_ DEVRT_GUARDED_BY(mutex_) = nullptr;
  Check** newest_ DEVRT_GUARDED_BY(mutex_) = &oldest_;
  size_t checks_ DEVRT_GUARDED_BY(mutex_) = 0;
  std::shared_ptr<const Order> order_ DEVRT_GUARDED_BY(mutex_);
};

// The stream's timeline, made with its native handle.
Timeline* TimelineOf(StreamRef stream);

// ---- What the memory layer hears --------------------------------------------

// One range that an operation of devrt's touched.
struct UsedRange {
  const void* pointer;
  uint64_t bytes;
};

// After an operation was enqueued, with no lock held.  Cheap where all ranges
// are the stream's own.
using UseHook = void (*)(StreamRef stream, const UsedRange* ranges,
                         size_t count);
void SetUseHook(UseHook hook);

// A stream that programs know as `stream` is at its end, before its record is
// given another serial: open marks are closed by a checkpoint, its free blocks
// become anybody's.  No lock held; outside host functions.
using StreamEndHook = void (*)(StreamRef stream);
void SetStreamEndHook(StreamEndHook hook);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_TIMELINE_H_
