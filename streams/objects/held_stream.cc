// SPDX-License-Identifier: Apache-2.0

#include "streams/objects/held_stream.h"

#include "devrt/streams/gate.h"

namespace devrt::internal {

// The timeline may serve another native stream by now.  It does not if `stream`
// still lives after its handle was borrowed.
HeldStream::HeldStream(StreamRef stream, Timeline* timeline)
    : stream_(stream),
      timeline_(timeline),
      handle_(timeline->native().Borrow()) {
  if (handle_ == nullptr || CheckStream(stream, "a look").ok()) return;
  timeline_->native().Return();
  handle_ = nullptr;
}

}  // namespace devrt::internal
