// SPDX-License-Identifier: Apache-2.0
//
// Blocks of callers that tell devrt of frees and not of uses: other libraries
// (devrt_memory.h) and Python.
//
//   AllocateOutside, FreeOutside, RecordOutside
//
// are AllocateMemory, FreeMemory and RecordStream, and keep what a capture of
// another library may have used: a graph keeps addresses, and each launch uses
// them again (docs/decisions/0014).  A block is kept by a capture if a stream
// that was part of the capture
//
//   was given the block
//   is the stream of the block, or of the free, when the block is freed
//   was named by RecordOutside
//
// The free of such a block only notes it.  Memory goes back when no graph of
// its captures is left; until then a later request of the same stream in the
// same capture gets the block again, as the graph runs both in that order.
//
// A block of a pool (graph_pool.h) is the pool's matter.
//
// Cost: one question to the driver for each call on a stream whose native
// handle others have; none for other streams.
//
// Where the backend cannot tell captures apart nothing is handed out on a
// stream that captures, and what is freed there is kept for ever.
//
// Threads: any.

#ifndef DEVRT_MEMORY_INTERNAL_CAPTURED_BLOCKS_H_
#define DEVRT_MEMORY_INTERNAL_CAPTURED_BLOCKS_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"
#include "streams/internal/captures.h"

namespace devrt::internal {

// Errors are those of AllocateMemory, FreeMemory and RecordStream, and
// FAILED_PRECONDITION for memory that cannot be kept for a capture.
DEVRT_EXPORT absl::StatusOr<void*> AllocateOutside(StreamRef stream,
                                                   uint64_t bytes,
                                                   CallSite site);
// `stream`: nullptr is the block's own.
DEVRT_EXPORT absl::Status FreeOutside(void* pointer, const StreamRef* stream,
                                      CallSite site);
DEVRT_EXPORT absl::Status RecordOutside(const void* pointer, StreamRef stream,
                                        CallSite site);

// The capture that `stream` is part of, held; kNone for one that no graph will
// come of, and for a stream that has ended.
absl::StatusOr<CaptureNumber> CaptureOf(StreamRef stream);

// Gives back what was kept for captures that are over.
void EndCapturesThatAreOver();

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_INTERNAL_CAPTURED_BLOCKS_H_
