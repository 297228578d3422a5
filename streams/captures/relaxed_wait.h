// SPDX-License-Identifier: Apache-2.0
//
// A query of a stream and a wait for a stream in the relaxed capture mode, for
// copies and exports, in which the program asked for no wait.  They leave
// captures of other streams valid, whichever thread began them (C82).  `stream`
// itself must not be captured.
//
// A wait by StreamRef::Synchronize uses the capture mode of the program.

#ifndef DEVRT_STREAMS_CAPTURES_RELAXED_WAIT_H_
#define DEVRT_STREAMS_CAPTURES_RELAXED_WAIT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

struct StreamTarget;

DEVRT_EXPORT absl::StatusOr<bool> QueryRelaxed(StreamRef stream, CallSite site);
DEVRT_EXPORT absl::Status SynchronizeRelaxed(StreamRef stream, CallSite site);
// For a stream that the caller has resolved, outside host functions.
absl::Status SynchronizeRelaxed(const StreamTarget& target);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_CAPTURES_RELAXED_WAIT_H_
