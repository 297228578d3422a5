// SPDX-License-Identifier: Apache-2.0
//
// OutsideUse: somebody goes on with memory on a stream, of which devrt hears
// only when he is through: who took a tensor, or whom RecordUse speaks for.
//
//   const OutsideUse use(stream, KeptStream(stream));   // which lives
//   ... he submits, and maybe the Stream ends ...
//   const std::optional<StorageUse> all = use.UpToNow();
//
// Threads: any.

#ifndef DEVRT_ARRAYS_EXCHANGE_OUTSIDE_USE_H_
#define DEVRT_ARRAYS_EXCHANGE_OUTSIDE_USE_H_

#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "arrays/storage/storage_uses.h"
#include "devrt/streams/stream.h"
#include "streams/internal/kept_stream.h"
#include "streams/internal/ordering.h"

namespace devrt::internal {

class OutsideUse {
 public:
  OutsideUse(StreamRef stream, KeptStream kept)
      : stream_(stream), begin_(PointOf(stream)), kept_(std::move(kept)) {}

  StreamRef stream() const { return stream_; }
  // Whether its Stream does.
  bool Lives() const;
  // What the stream was given by now; nullopt: that is over.  May ask the
  // backend whether it captures.
  std::optional<StorageUse> UpToNow() const;
  // Its Stream has ended, and the native stream may have gone on: what it was
  // given then is not known (ExchangeSettings::release).
  bool IsLost() const;

 private:
  // Of a stream that lives, or is kept.
  CaptureNumber Capture() const;
  // Whether its native stream, or the Stream that had it, serves another.
  bool IsAnothers() const;

  StreamRef stream_;  // may have ended
  OrderPoint begin_;
  KeptStream kept_;
};

// What stands for the use of a stream of `device` that devrt does not know, or
// not any more, when it lets memory go (ExchangeSettings::release).
// `is_captured`: whether a capture uses the memory, which a wait for the device
// would end.
std::optional<StorageUse> UseOfUnknown(Device device,
                                       absl::FunctionRef<bool()> is_captured);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_EXCHANGE_OUTSIDE_USE_H_
