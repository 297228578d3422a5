// SPDX-License-Identifier: Apache-2.0
//
// What a stream is given from now on comes after a point of another stream.
//
//   const OrderPoint use = PointOf(producer);       // after the enqueue
//   ...
//   DEVRT_ASSIGN_OR_RETURN(bool done, OrderAfter(consumer, use, site));
//   if (!done) DEVRT_RETURN_IF_ERROR(WaitOnHost(use, site));
//
// Nothing is issued where that order is known (Timeline::IsAfter); else the
// stream waits for an event behind the point: a checkpoint that is there
// already, or one that is recorded now.  Afterwards it is known.
//
// Only the host can help where the point's stream is of another backend or out
// of reach: it ended, may have, or is another thread's, and left no checkpoint.
//
// Captures of other libraries (devrt.capture/0).  Work that is captured does
// not run: its points order other captured work and nothing else.
//
// Errors: those of the backend; FAILED_PRECONDITION for what an event would
// tie to a capture that it is not part of.  Threads: any; no lock may be held
// that a backend's host functions need.

#ifndef DEVRT_STREAMS_INTERNAL_ORDERING_H_
#define DEVRT_STREAMS_INTERNAL_ORDERING_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/call_site.h"
#include "devrt/streams/stream.h"
#include "streams/internal/held_stream.h"
#include "streams/internal/order.h"
#include "streams/internal/timeline.h"

namespace devrt::internal {

// What was submitted to `stream`, which lives, up to here.
inline OrderPoint PointOf(StreamRef stream) {
  Timeline* const timeline = TimelineOf(stream);
  return {timeline, timeline->Now()};
}

// Whether another library records what `stream`, which lives, is given into a
// graph.
absl::StatusOr<bool> IsCapturing(StreamRef stream);
absl::StatusOr<bool> IsCapturing(const HeldStream& stream);

// False: nothing was issued, and only the host can wait for it.  `capturing`:
// of `stream`.
absl::StatusOr<bool> OrderAfter(StreamRef stream, const OrderPoint& point,
                                bool capturing, CallSite site);
// The same where both streams are captured: an edge of the graph.
absl::Status OrderInCapture(StreamRef stream, StreamRef after, CallSite site);
absl::Status OrderInCapture(const HeldStream& stream, const HeldStream& after,
                            CallSite site);

// Waits for all work of the device, where only that can tell that some of it is
// over.  FAILED_PRECONDITION, without a wait, while another library captures a
// stream of the device that may be asked: the driver would make the capture
// invalid (C82).  A capture that begins behind that question is not seen.
absl::Status WaitForDevice(DeviceRecord* device);

// Waits on the host for the point and, where the backend lets it, for nothing
// after it.
absl::Status WaitOnHost(const OrderPoint& point, CallSite site);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_ORDERING_H_
