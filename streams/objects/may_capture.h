// SPDX-License-Identifier: Apache-2.0
//
// MayBeCaptured: whether a stream can be part of a graph capture, inline, for
// code that asks at each operation.

#ifndef DEVRT_STREAMS_OBJECTS_MAY_CAPTURE_H_
#define DEVRT_STREAMS_OBJECTS_MAY_CAPTURE_H_

#include <atomic>

#include "absl/base/optimization.h"
#include "devrt/streams/stream.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/stream_record.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

// Returns true if others can put the stream into a capture, where the backend
// has captures: others have its native handle, or it has waited for captured
// work.  A default stream: others have its handle.
inline bool IsOpenToCaptures(const StreamRecord& record,
                             const Timeline& timeline) {
  return record.kind == StreamKind::kDefault
             ? record.exposed.load(std::memory_order_relaxed)
             : timeline.native().MayCapture();
}

// Returns true if `record` may be part of a graph capture of another library.
inline bool MayBeCaptured(const StreamRecord& record,
                          const Timeline& timeline) {
  return ABSL_PREDICT_FALSE(DeviceStreams::Of(record.device)->capture.table !=
                            nullptr) &&
         IsOpenToCaptures(record, timeline);
}
inline bool MayBeCaptured(StreamRef stream) {
  const StreamRecord& record = *stream.record();
  return MayBeCaptured(record,
                       *record.timeline.load(std::memory_order_acquire));
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_MAY_CAPTURE_H_
