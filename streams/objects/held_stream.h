// SPDX-License-Identifier: Apache-2.0
//
// HeldStream: keeps a native stream alive in a call that does not name the
// stream, while the owner may be destroying it.
//
//   const HeldStream held(use.stream, use.timeline);
//   if (held.handle() == nullptr) ...  // the stream has ended
//   DEVRT_ASSIGN_OR_RETURN(const bool capturing, IsCapturing(held));
//
// What it is not: for an adopted stream without an owner, which devrt cannot
// keep alive (Timeline::NeedsEagerCheckpoints).

#ifndef DEVRT_STREAMS_OBJECTS_HELD_STREAM_H_
#define DEVRT_STREAMS_OBJECTS_HELD_STREAM_H_

#include "devrt/backends/abi/devrt_plugin.h"
#include "devrt/streams/stream.h"
#include "runtime/registry/records.h"
#include "streams/objects/stream_record.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

class HeldStream {
 public:
  // `timeline`: the timeline that `stream` had while it lived.
  HeldStream(StreamRef stream, Timeline* timeline);
  explicit HeldStream(StreamRef stream)
      : HeldStream(stream, TimelineOf(stream)) {}
  HeldStream(const HeldStream&) = delete;
  HeldStream& operator=(const HeldStream&) = delete;
  ~HeldStream() {
    if (handle_ != nullptr) timeline_->native().Return();
  }

  StreamRef stream() const { return stream_; }
  Timeline* timeline() const { return timeline_; }
  DeviceRecord* device() const { return timeline_->device(); }
  // nullptr: the stream has ended, or is a default stream that nobody has used.
  devrt_stream handle() const { return handle_; }

 private:
  const StreamRef stream_;
  Timeline* const timeline_;
  devrt_stream handle_;
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_OBJECTS_HELD_STREAM_H_
