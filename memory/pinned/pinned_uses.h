// SPDX-License-Identifier: Apache-2.0
//
// Uses of pinned blocks by work, and look-ups of pinned blocks by address.  The
// lock of a block's pool guards both.

#ifndef DEVRT_MEMORY_PINNED_PINNED_USES_H_
#define DEVRT_MEMORY_PINNED_PINNED_USES_H_

#include <optional>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "devrt/streams/stream.h"
#include "memory/device/block_uses.h"
#include "runtime/raw_memory/allocation_table.h"

namespace devrt::internal {

// RecordPinnedUse.
absl::Status RecordUseOfPinned(const void* pointer, StreamRef stream);
// Notes that an operation that was just submitted to `stream` uses the block
// that `pointer` lies in, if there is one.
void NoteUseOfPinned(const void* pointer, StreamRef stream);
// See AddKnownUses.
bool AddUsesOfPinned(const void* pointer, absl::Span<const StreamUse> uses);

// For PinnedHooks (memory/device/hooks.h).
std::optional<AllocationRange> FindLivePinned(const void* pointer);
std::optional<AllocationRange> FindFreedPinned(const void* pointer);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_PINNED_PINNED_USES_H_
