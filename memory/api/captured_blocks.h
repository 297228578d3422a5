// SPDX-License-Identifier: Apache-2.0
//
// Blocks for callers that report frees but not uses to devrt: other libraries
// (devrt_memory.h) and Python.
//
// AllocateOutside, FreeOutside and RecordOutside are AllocateMemory, FreeMemory
// and RecordStream; in addition they keep blocks that a capture of another
// library may have used.  A graph keeps addresses, and each launch uses them
// again (docs/decisions/0014).  A capture keeps a block if a stream that was
// part of the capture
//
//   was given the block
//   is the stream of the block, or of the free, when the block is freed
//   was named by RecordOutside
//
// A free of such a block is only noted, also by FreeMemory.  The memory goes
// back when no graph of the block's captures is left.  Until then a block that
// was handed out in a capture, and that no other stream has used, serves later
// requests of its stream in that capture, because the graph runs both uses in
// that order.  A block from before the capture does not: eager work may still
// use it.
//
// Order: work that was submitted to a stream before its capture began may still
// use memory that the capture gets.  A launch of the graph on that stream is
// behind that work.  For a launch on another stream the program orders it, as
// for all memory that it hands to a graph.
//
// A capture that keeps a whole pool (graph_pool.h) does not keep the blocks of
// that pool one by one.
//
// Cost: one query of the driver for each call on a stream whose native handle
// is known outside devrt; none for other streams.
//
// If the backend cannot tell captures apart, a stream that captures gets no
// memory, and what is freed on it is kept for ever.
//
// Threads: any.

#ifndef DEVRT_MEMORY_API_CAPTURED_BLOCKS_H_
#define DEVRT_MEMORY_API_CAPTURED_BLOCKS_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"
#include "devrt/streams/stream.h"
#include "streams/captures/captures.h"

namespace devrt::internal {

// Errors: those of AllocateMemory, FreeMemory and RecordStream, and
// FAILED_PRECONDITION if memory cannot be kept for a capture.
DEVRT_EXPORT absl::StatusOr<void*> AllocateOutside(StreamRef stream,
                                                   uint64_t bytes,
                                                   CallSite site);
// `stream`: nullptr means the block's stream.
DEVRT_EXPORT absl::Status FreeOutside(void* pointer, const StreamRef* stream,
                                      CallSite site);
DEVRT_EXPORT absl::Status RecordOutside(const void* pointer, StreamRef stream,
                                        CallSite site);

// Returns the capture that `stream` is part of, after HoldCapture.  Returns
// kNone if the stream is in no capture or has ended, and for a capture that
// will make no graph.
absl::StatusOr<CaptureNumber> CaptureOf(StreamRef stream);

// For FreeMemory: true if a capture may keep some block.
extern std::atomic<size_t> g_captured_blocks;
inline bool HasCapturedBlocks() {
  return g_captured_blocks.load(std::memory_order_acquire) != 0;
}
// True if a capture may keep the block at `pointer`.
bool IsCapturedBlock(const void* pointer);
// Frees or keeps such a block; nullopt if no capture keeps it.  Does not call
// the driver.
std::optional<absl::Status> FreeCapturedBlock(void* pointer,
                                              const StreamRef* stream,
                                              CallSite site);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_API_CAPTURED_BLOCKS_H_
