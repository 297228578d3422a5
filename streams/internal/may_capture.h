// SPDX-License-Identifier: Apache-2.0
//
// MayCapture (ordering.h) without a call, for what asks at each operation.

#ifndef DEVRT_STREAMS_INTERNAL_MAY_CAPTURE_H_
#define DEVRT_STREAMS_INTERNAL_MAY_CAPTURE_H_

#include <atomic>

#include "absl/base/optimization.h"
#include "devrt/streams/stream.h"
#include "streams/internal/device_streams.h"
#include "streams/internal/stream_record.h"
#include "streams/internal/timeline.h"

namespace devrt::internal {

// What nobody else has the handle of, and has joined no capture, cannot be
// captured; a default stream is asked for who has its handle.
inline bool MayBeCaptured(const StreamRecord& record,
                          const Timeline& timeline) {
  if (ABSL_PREDICT_TRUE(DeviceStreams::Of(record.device)->capture.table ==
                        nullptr)) {
    return false;
  }
  return record.kind == StreamKind::kDefault
             ? record.exposed.load(std::memory_order_relaxed)
             : timeline.native().MayCapture();
}
inline bool MayBeCaptured(StreamRef stream) {
  const StreamRecord& record = *stream.record();
  return MayBeCaptured(record,
                       *record.timeline.load(std::memory_order_acquire));
}

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_MAY_CAPTURE_H_
