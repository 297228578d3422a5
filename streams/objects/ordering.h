// SPDX-License-Identifier: Apache-2.0
//
// Functions that make later work of a stream, or the host, wait for a point of
// another stream.
//
//   const OrderPoint use = PointOf(producer);       // after the enqueue
//   ...
//   DEVRT_ASSIGN_OR_RETURN(bool done, OrderAfter(consumer, use, site));
//   if (!done) DEVRT_RETURN_IF_ERROR(WaitOnHost(use, site));
//
// OrderAfter issues nothing if the order is known (Timeline::IsAfter).
// Otherwise the stream waits for an event behind the point: an open checkpoint,
// or a new one.  After that the order is known.
//
// Only the host can wait for a point whose stream is of another backend or out
// of reach.  A stream is out of reach if it has ended, may have ended, or is
// another thread's per-thread stream, and no checkpoint covers the point.
//
// Captures are graph captures of other libraries (devrt.capture/0).  Captured
// work does not run when it is submitted, so a captured point orders only other
// captured work.
//
// Errors: the errors of the backend; FAILED_PRECONDITION if a wait would
// connect a capture with work outside of it.  Threads: any; the caller may hold
// no lock that host functions need.

#ifndef DEVRT_STREAMS_OBJECTS_ORDERING_H_
#define DEVRT_STREAMS_OBJECTS_ORDERING_H_

#include <atomic>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/call_site.h"
#include "devrt/streams/stream.h"
#include "streams/objects/held_stream.h"
#include "streams/objects/stream_record.h"
#include "streams/timelines/order.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

struct StreamTarget;

// The point of all work that was submitted to `stream`, which lives.
inline OrderPoint PointOf(StreamRef stream) {
  Timeline* const timeline = TimelineOf(stream);
  return {timeline, timeline->Now()};
}

// Returns true if `stream`, which lives, has no work to wait for: devrt saw it
// complete, and no other library has the native handle to submit more.
inline bool IsIdle(StreamRef stream) {
  const StreamRecord& record = *stream.record();
  return record.kind == StreamKind::kCreated &&
         !record.dirty.load(std::memory_order_relaxed) &&
         !record.exposed.load(std::memory_order_relaxed);
}

// Returns true if another library captures `stream`, which lives, into a graph.
absl::StatusOr<bool> IsCapturing(StreamRef stream);
absl::StatusOr<bool> IsCapturing(const HeldStream& stream);

// Makes later work of `stream` wait for `point`.  `capturing`: `stream` is
// captured.  Returns false if nothing was issued and only the host can wait.
absl::StatusOr<bool> OrderAfter(StreamRef stream, const OrderPoint& point,
                                bool capturing, CallSite site);
// OrderAfter for a stream that the caller has resolved, and a point that the
// stream is not known to come after.
absl::StatusOr<bool> OrderAfter(const StreamTarget& stream,
                                const OrderPoint& point, bool capturing);
// OrderAfter for a stream that is not captured, and a point that no other
// stream waits for: by an event that is no checkpoint (WaitByEvent).
absl::StatusOr<bool> OrderAfterOnce(const StreamTarget& stream,
                                    const OrderPoint& point);
// Makes later work of `stream` wait for all work of `after`, whose timeline is
// given.  Neither may be captured.  Records the event that the timeline keeps
// for such waits (Timeline::event_of_waits).  Notes what `stream` comes after,
// if anybody keeps points of streams (AreUsesTracked).
absl::Status WaitByEvent(const StreamTarget& stream, devrt_stream after,
                         Timeline* timeline);
// Makes later work of `stream` wait for all work of `after`, where both are
// captured: an edge of the graph.
absl::Status OrderInCapture(const StreamTarget& stream,
                            const StreamTarget& after);
absl::Status OrderInCapture(const HeldStream& stream, const HeldStream& after,
                            CallSite site);

// Tells a race detector, if there is one, that later work of the stream, or of
// the calling thread, comes after work that devrt knows to be complete.  Call
// it where devrt leaves a wait out because of that knowledge.
void TellKnownOrder(StreamRef stream);
void TellKnownOrderToHost(DeviceRecord* device);

// Waits for all work of the device, if nothing else can tell that some work is
// complete.  FAILED_PRECONDITION, without a wait, while another library
// captures a stream of the device that may be asked: the wait would make the
// capture invalid (C82).  A capture that begins after that question is not
// seen.
absl::Status WaitForDevice(DeviceRecord* device);

// Waits on the host for the point, and not for later work unless only a wait
// for the device can tell.
absl::Status WaitOnHost(const OrderPoint& point, CallSite site);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_ORDERING_H_
