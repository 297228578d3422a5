// SPDX-License-Identifier: Apache-2.0
//
// For a room that keeps the uses of a block itself, and frees it.

#ifndef DEVRT_MEMORY_COMMON_KNOWN_USES_H_
#define DEVRT_MEMORY_COMMON_KNOWN_USES_H_

#include <cstdint>
#include <optional>

#include "absl/types/span.h"
#include "devrt/runtime/device.h"
#include "devrt/streams/stream.h"
#include "memory/device/block_uses.h"

namespace devrt::internal {

// Before FreeMemory or FreePinned: the block is not used again until `uses` are
// complete.  Checkpoints are the caller's.  False, with nothing done, if the
// block's resource does not track uses by points.
bool AddKnownUses(const void* pointer, absl::Span<const StreamUse> uses);

class GraphUse;

// The program's live block of device memory that `pointer` lies in.  The end of
// a block counts where no other one begins (F17).
struct HeldBlock {
  void* base;
  uint64_t bytes;                   // as asked for
  uint64_t id;                      // never that of another block
  std::optional<StreamRef> stream;  // that it was handed out on, if that lives
  GraphUse* graphs;  // of the allocator, if it serves graphs; else nullptr
};
std::optional<HeldBlock> FindHeldBlock(const void* pointer);

// Whether the live block that begins at `pointer` is of the resource that a
// request for `device` would go to now.
bool IsOfChosenResource(Device device, const void* pointer);

// Whether `pointer` lies in what a caching allocator has from the driver: where
// no block of it is alive there is nothing that a program may use.
bool LiesInCache(const void* pointer);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_COMMON_KNOWN_USES_H_
