// SPDX-License-Identifier: Apache-2.0
//
// Graph captures of other libraries (devrt.capture/0): which capture a stream
// is part of, and whether a graph of that capture still exists.
//
//   DEVRT_ASSIGN_OR_RETURN(CaptureNumber capture, HoldCapture(stream));
//   ... work is enqueued, and its memory noted as used by `capture` ...
//   if (IsOver(capture)) ... nothing can run that work any more ...
//
// HoldCapture attaches an object to the capturing graph, one for each capture.
// The driver destroys the object with the last graph that came of the capture;
// nothing else tells how long a graph keeps addresses.  The driver's thread
// only notes that end (DeferCaptureEnd): IsOver becomes true in a later call of
// devrt.
//
// Threads: any, outside host functions.

#ifndef DEVRT_STREAMS_CAPTURES_CAPTURES_H_
#define DEVRT_STREAMS_CAPTURES_CAPTURES_H_

#include <cstdint>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/streams/stream.h"
#include "runtime/registry/records.h"
#include "streams/common/deferred_deletion.h"
#include "streams/objects/held_stream.h"

namespace devrt::internal {

// A number of devrt for a capture, over all backends; none is used twice.
enum class CaptureNumber : uint64_t {
  kNone = 0,
  // A capture of a backend that does not tell captures apart; it is never over.
  kUnknown = UINT64_MAX,
};

// The capture that `stream`, which lives, is part of; kNone if there is none.
// FAILED_PRECONDITION if the graph cannot be held: the capture became invalid,
// or it is the capture of another stream (C83).
absl::StatusOr<CaptureNumber> HoldCapture(StreamRef stream);
absl::StatusOr<CaptureNumber> HoldCapture(const HeldStream& stream);

// Returns true if no graph of the capture is left and all work of its graphs is
// complete.  False for kNone.
bool IsOver(CaptureNumber capture);

// Keeps `object` until the capture is over; for kUnknown, for ever.  Returns
// false, with nothing kept, if the capture is over.  The destructor of `object`
// must run no code of other libraries and wait for nothing; it passes such work
// to DeferArrayRelease.
bool KeepUntilOver(CaptureNumber capture,
                   std::unique_ptr<DeferredObject> object);
// Takes out the newest object of `capture` for which `f` returns true; nullptr
// if there is none.  `f` must not call functions of this header.
std::unique_ptr<DeferredObject> TakeOutNewest(
    CaptureNumber capture,
    absl::FunctionRef<bool(const DeferredObject& object)> f);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_CAPTURES_CAPTURES_H_
