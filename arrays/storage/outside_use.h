// SPDX-License-Identifier: Apache-2.0
//
// OutsideUse: another library uses memory on a stream and tells devrt only when
// it is done: the consumer of a tensor, or the subject of a RecordUse.
//
//   const OutsideUse use(stream, KeptStream(stream));   // a live stream
//   ... the library submits work, and the Stream may end ...
//   const std::optional<StorageUse> all = use.UpToNow();
//
// Threads: any.

#ifndef DEVRT_ARRAYS_STORAGE_OUTSIDE_USE_H_
#define DEVRT_ARRAYS_STORAGE_OUTSIDE_USE_H_

#include <cstdint>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "arrays/storage/storage_uses.h"
#include "devrt/streams/stream.h"
#include "streams/objects/kept_stream.h"
#include "streams/objects/ordering.h"

namespace devrt::internal {

class OutsideUse {
 public:
  OutsideUse(StreamRef stream, KeptStream kept)
      : stream_(stream), begin_(PointOf(stream)), kept_(std::move(kept)) {}

  StreamRef stream() const { return stream_; }
  // Returns true if the Stream has not ended.
  bool Lives() const;
  // Returns a use that stands for all work that the stream got up to now;
  // nullopt if that work is complete.  May ask the backend whether the stream
  // captures.
  std::optional<StorageUse> UpToNow() const;
  // Returns true if the Stream has ended and the native stream may have got
  // work since, of which devrt knows nothing (ExchangeSettings::release).
  bool IsLost() const;

 private:
  // The capture of the stream, which lives or is kept.
  CaptureNumber Capture() const;
  // Returns true if the native stream, or the record of the Stream, was reused
  // for another stream.
  bool IsAnothers() const;

  StreamRef stream_;  // may have ended
  OrderPoint begin_;
  KeptStream kept_;
};

// A use that stands for the work of a stream of `device` that devrt does not
// know, or no longer knows, when the consumer releases memory (release_rule.h).
// `is_captured` tells whether a capture uses the memory, because a wait for the
// device would end the capture.
std::optional<StorageUse> UseOfUnknown(Device device,
                                       absl::FunctionRef<bool()> is_captured);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_STORAGE_OUTSIDE_USE_H_
