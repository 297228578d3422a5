// SPDX-License-Identifier: Apache-2.0
//
// For the arrays floor, which keeps the uses of a block itself: hands them to
// the allocator before the free, and finds blocks.

#ifndef DEVRT_MEMORY_API_KNOWN_USES_H_
#define DEVRT_MEMORY_API_KNOWN_USES_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "devrt/runtime/device.h"
#include "devrt/streams/stream.h"
#include "memory/device/block_uses.h"

namespace devrt::internal {

// Call it before FreeMemory or FreePinned: the block is not reused before
// `uses` are complete.  The caller makes the checkpoints.  Returns false, and
// does nothing, if the block's resource does not track uses by points.
bool AddKnownUses(const void* pointer, absl::Span<const StreamUse> uses);

class GraphUse;

// A live block of the program.
struct HeldBlock {
  void* base;
  uint64_t bytes;  // the size that the program asked for
  uint64_t id;     // never reused
  // The stream that the block was given to; nullopt if that stream has ended.
  std::optional<StreamRef> stream;
  GraphUse* graphs;  // of the allocator, if it serves graphs; else nullptr
};
// Returns the block that `pointer` lies in.  The end of a block lies in that
// block if no other block begins there (F17).  Returns nullopt outside of live
// blocks.
std::optional<HeldBlock> FindHeldBlock(const void* pointer);

// Returns true if the live block that begins at `pointer` comes from the
// resource that serves requests for `device` now.
bool IsOfChosenResource(Device device, const void* pointer);

// Returns true if `pointer` lies in a segment of a caching allocator.  A
// program may use such memory only if it lies in a live block.
bool LiesInCache(const void* pointer);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_API_KNOWN_USES_H_
