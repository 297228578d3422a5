// SPDX-License-Identifier: Apache-2.0
//
// Queries of and waits for a stream that devrt makes of its own accord, in a
// copy or an export.  They leave captures of other streams valid, whichever
// thread began them (C82).  `stream` itself must not be captured.
//
// A wait by StreamRef::Synchronize uses the capture mode of the program.

#ifndef DEVRT_STREAMS_INTERNAL_RELAXED_WAIT_H_
#define DEVRT_STREAMS_INTERNAL_RELAXED_WAIT_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

DEVRT_EXPORT absl::StatusOr<bool> QueryRelaxed(StreamRef stream, CallSite site);
DEVRT_EXPORT absl::Status SynchronizeRelaxed(StreamRef stream, CallSite site);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_RELAXED_WAIT_H_
