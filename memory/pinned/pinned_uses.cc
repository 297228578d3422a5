// SPDX-License-Identifier: Apache-2.0

#include "memory/pinned/pinned_uses.h"

#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "memory/pinned/pinned_map.h"
#include "memory/pinned/pinned_pool.h"
#include "runtime/raw_memory/blocks.h"
#include "streams/objects/stream_record.h"

namespace devrt::internal {
namespace {

uint64_t OffsetIn(const PinnedBlock& block, const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) -
         reinterpret_cast<uintptr_t>(
             block.base.load(std::memory_order_relaxed));
}

absl::Status NotLive(const char* call, const void* pointer) {
  return absl::InvalidArgumentError(
      absl::StrCat(call, " needs a live block from AllocatePinned, but ",
                   DescribePointer(pointer)));
}

// The block around `pointer`, which is mostly its beginning.
PinnedBlock* FindAround(const void* pointer) {
  return PinnedMap::Get().Find(pointer);
}

// Adds a use of the block if `pointer` lies in it and it is live.
bool AddUse(PinnedBlock* block, const void* pointer, StreamRef stream,
            Timeline* timeline, bool open) {
  const PinnedBlockLock hold(block);
  if (block->use != BlockUse::kLive ||
      OffsetIn(*block, pointer) > block->requested) {
    return false;
  }
  block->uses.Add(stream, timeline, timeline->Now());
  if (open) block->uses.AddOpen(stream, timeline);
  return true;
}

}  // namespace

absl::Status RecordUseOfPinned(const void* pointer, StreamRef stream) {
  DEVRT_RETURN_IF_ERROR(CheckStream(stream, "RecordPinnedUse"));
  Timeline* const timeline = TimelineOf(stream);
  PinnedBlock* block = FindAround(pointer);
  bool found =
      block != nullptr && AddUse(block, pointer, stream, timeline, true);
  // If one block ends where another begins, both are used.
  PinnedBlock* before = pointer == nullptr
                            ? nullptr
                            : FindAround(static_cast<const char*>(pointer) - 1);
  if (before != nullptr && before != block) {
    found |= AddUse(before, pointer, stream, timeline, true);
  }
  if (!found) return NotLive("RecordPinnedUse", pointer);
  // The owner of an adopted stream may destroy it before the free (F22).
  if (stream.record()->kind == StreamKind::kExternal) {
    timeline->Checkpoint(timeline->Now()).IgnoreError();
  }
  return absl::OkStatus();
}

void NoteUseOfPinned(const void* pointer, StreamRef stream) {
  PinnedBlock* const block = FindAround(pointer);
  if (block == nullptr) return;
  Timeline* const timeline = TimelineOf(stream);
  const bool added = AddUse(block, pointer, stream, timeline, false);
  // So that the end of this use can be told from that of later work (F15).
  // Without a checkpoint a later look at the stream finds the end.
  if (added) timeline->Checkpoint(timeline->Now()).IgnoreError();
}

bool AddUsesOfPinned(const void* pointer, absl::Span<const StreamUse> uses) {
  PinnedBlock* const block = FindAround(pointer);
  if (block == nullptr) return false;
  const PinnedBlockLock hold(block);
  if (block->use != BlockUse::kLive ||
      OffsetIn(*block, pointer) > block->requested) {
    return false;
  }
  for (const StreamUse& use : uses) block->uses.Add(use);
  return true;
}

// ---- Look-ups by address ----------------------------------------------------

namespace {

// The caller holds the lock of its pool.
AllocationRange RangeOf(const PinnedBlock& block) {
  AllocationRange range;
  range.device = block.device;
  range.kind = PointerKind::kPinned;
  range.base = block.base.load(std::memory_order_relaxed);
  range.size = block.requested;
  range.cached = true;
  return range;
}

}  // namespace

std::optional<AllocationRange> FindLivePinned(const void* pointer) {
  PinnedBlock* const block = FindAround(pointer);
  if (block == nullptr) return std::nullopt;
  const PinnedBlockLock hold(block);
  if (block->use != BlockUse::kLive ||
      OffsetIn(*block, pointer) >= block->requested) {
    return std::nullopt;
  }
  AllocationRange range = RangeOf(*block);
  range.id = block->id;
  range.allocated = block->site;
  return range;
}

std::optional<AllocationRange> FindFreedPinned(const void* pointer) {
  PinnedBlock* const block = FindAround(pointer);
  if (block == nullptr) return std::nullopt;
  const PinnedBlockLock hold(block);
  if (block->use == BlockUse::kLive || block->device == nullptr ||
      OffsetIn(*block, pointer) >= block->requested) {
    return std::nullopt;
  }
  AllocationRange range = RangeOf(*block);
  range.freed = block->site;
  return range;
}

}  // namespace devrt::internal
