// SPDX-License-Identifier: Apache-2.0
//
// CopyAsync and FillAsync for a layer that keeps the uses of memory itself.

#ifndef DEVRT_STREAMS_INTERNAL_UNNOTED_H_
#define DEVRT_STREAMS_INTERNAL_UNNOTED_H_

#include <cstdint>

#include "absl/status/status.h"
#include "devrt/runtime/call_site.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

// As those, but the memory layer is not told (NoteUses), and no copy goes
// through the host: INVALID_ARGUMENT where it would have to.
absl::Status CopyUnnoted(StreamRef stream, void* dst, const void* src,
                         uint64_t bytes, CallSite site);
absl::Status FillUnnoted(StreamRef stream, void* dst, uint8_t value,
                         uint64_t bytes, CallSite site);

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_UNNOTED_H_
