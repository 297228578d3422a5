// SPDX-License-Identifier: Apache-2.0
//
// Waits for a stream that devrt makes of its own accord, in a copy or an
// export: captures of other streams that the calling thread, or in the global
// mode any, has begun stay valid (C82).  The stream itself must not capture.
//
// What a program waits for by StreamRef it waits for in its own mode.

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
