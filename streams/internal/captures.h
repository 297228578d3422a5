// SPDX-License-Identifier: Apache-2.0
//
// Captures of other libraries (devrt.capture/0): which one a stream is part of,
// whether a graph of it is left, and questions that leave captures valid.
//
//   DEVRT_ASSIGN_OR_RETURN(CaptureNumber capture, HoldCapture(stream));
//   ... work is enqueued, and its memory noted as used by `capture` ...
//   if (IsOver(capture)) ... nothing can run that work any more ...
//
// HoldCapture hangs an object of the driver's on the capturing graph, one for
// each capture, which goes with the last graph that came of it; nothing else
// tells how long addresses are kept.  The driver's thread only notes its end
// (DeferCaptureEnd): the capture comes to be over in a later call of devrt's.
//
// Threads: any; outside host functions.  No lock is held over what waits.

#ifndef DEVRT_STREAMS_INTERNAL_CAPTURES_H_
#define DEVRT_STREAMS_INTERNAL_CAPTURES_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/streams/stream.h"
#include "runtime/internal/records.h"
#include "streams/internal/deferred_deletion.h"
#include "streams/internal/held_stream.h"

namespace devrt::internal {

// devrt's own, over all backends; none comes back.
enum class CaptureNumber : uint64_t {
  kNone = 0,
  // Of a backend that tells no captures apart: may be any, and is never over.
  kUnknown = UINT64_MAX,
};

// The capture that `stream`, which lives, is part of; kNone mostly.
// FAILED_PRECONDITION where its graph cannot be held: it became invalid, or the
// capture is that of another stream (C83).
absl::StatusOr<CaptureNumber> HoldCapture(StreamRef stream);
absl::StatusOr<CaptureNumber> HoldCapture(const HeldStream& stream);

// Whether no graph of it is left, and what they ran is complete.  False for
// kNone.
bool IsOver(CaptureNumber capture);

// `object` ends when the capture is over; for kUnknown never.  False, with
// nothing kept, if it is over.  The end of `object` runs no code of other
// libraries and waits for nothing: it leaves that to DeferArrayRelease.
bool EndWith(CaptureNumber capture, std::unique_ptr<DeferredObject> object);
// Takes the newest of them out again for which `f`, which calls nothing here,
// says so.  nullptr: none.
std::unique_ptr<DeferredObject> TakeBack(
    CaptureNumber capture,
    absl::FunctionRef<bool(const DeferredObject& object)> f);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_CAPTURES_H_
