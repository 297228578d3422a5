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
// The free of such a block only notes it, FreeMemory too.  Memory goes back
// when no graph of its captures is left.  Until then a block that was handed
// out in a capture, and that no other stream has used, serves later requests of
// its stream in that capture, as the graph runs both in that order.  A block of
// before the capture does not: eager work may still use it.
//
// Order: what a capture gets may be in use by what its stream was given before
// the capture began.  A launch on that stream is behind that; another stream
// has to be ordered behind it, as for all that the program hands to a graph.
//
// A block of a pool (graph_pool.h) is kept by a capture only if the capture
// does not hold the pool.
//
// Cost: one question to the driver for each call on a stream whose native
// handle others have; none for other streams.
//
// Where the backend cannot tell captures apart nothing is handed out on a
// stream that captures, and what is freed there is kept for ever.
//
// Threads: any.

#ifndef DEVRT_MEMORY_EXTERNAL_CAPTURED_BLOCKS_H_
#define DEVRT_MEMORY_EXTERNAL_CAPTURED_BLOCKS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

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

// For FreeMemory.  Whether any block may be one that a capture keeps.
extern std::atomic<size_t> g_captured_blocks;
inline bool HasCapturedBlocks() {
  return g_captured_blocks.load(std::memory_order_acquire) != 0;
}
// Whether the block at `pointer` may be one.
bool IsMarkedByCapture(const void* pointer);
// Frees such a block, or keeps it; nullopt: it is none.  Asks no driver.
std::optional<absl::Status> FreeMarked(void* pointer, const StreamRef* stream,
                                       CallSite site);

// Gives back what was kept for captures that are over.
void EndCapturesThatAreOver();

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_EXTERNAL_CAPTURED_BLOCKS_H_
