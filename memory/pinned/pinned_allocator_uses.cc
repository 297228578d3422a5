// SPDX-License-Identifier: Apache-2.0
//
// PinnedAllocator: uses of blocks by work, and look-ups by address.

#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "memory/pinned/background.h"
#include "memory/pinned/pinned_allocator.h"
#include "memory/pinned/pinned_map.h"
#include "runtime/internal/blocks.h"
#include "streams/internal/stream_record.h"

namespace devrt::internal {
namespace {

uint64_t OffsetIn(const PinnedBlock& block, const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer) -
         reinterpret_cast<uintptr_t>(
             block.base.load(std::memory_order_relaxed));
}

// True if the class of `size` guards `block`.  `size` was read before the lock
// was taken, and the record may have become another block since; then nothing
// else of it may be read.
bool IsOf(const PinnedBlock& block, uint64_t size) {
  return block.size.load(std::memory_order_relaxed) == size &&
         block.base.load(std::memory_order_relaxed) != nullptr;
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

}  // namespace

absl::Status PinnedAllocator::AddUse(PinnedBlock* block, const void* pointer,
                                     StreamRef stream, Timeline* timeline,
                                     bool open) {
  const uint64_t size = block->size.load(std::memory_order_relaxed);
  SpinLockHolder hold(&ClassOf(size).lock);
  if (!IsOf(*block, size) || block->use != BlockUse::kLive ||
      OffsetIn(*block, pointer) > block->requested) {
    return absl::NotFoundError("not live");
  }
  block->uses.Add(stream, timeline, timeline->Now());
  if (open) block->uses.AddOpen(stream, timeline);
  return absl::OkStatus();
}

absl::Status PinnedAllocator::RecordUse(const void* pointer, StreamRef stream) {
  DEVRT_RETURN_IF_ERROR(CheckStream(stream, "RecordPinnedUse"));
  Timeline* const timeline = TimelineOf(stream);
  PinnedBlock* block = FindAround(pointer);
  bool found =
      block != nullptr &&
      block->allocator->AddUse(block, pointer, stream, timeline, true).ok();
  // If one block ends where another begins, both are used.
  PinnedBlock* before = pointer == nullptr
                            ? nullptr
                            : FindAround(static_cast<const char*>(pointer) - 1);
  if (before != nullptr && before != block) {
    found |=
        before->allocator->AddUse(before, pointer, stream, timeline, true).ok();
  }
  if (!found) return NotLive("RecordPinnedUse", pointer);
  // The owner of an adopted stream may destroy it before the free (F22).
  if (stream.record()->kind == StreamKind::kExternal) {
    timeline->Checkpoint(stream).IgnoreError();
  }
  return absl::OkStatus();
}

void PinnedAllocator::NoteUse(const void* pointer, StreamRef stream) {
  PinnedBlock* const block = FindAround(pointer);
  if (block == nullptr) return;
  Timeline* const timeline = TimelineOf(stream);
  const absl::Status added =
      block->allocator->AddUse(block, pointer, stream, timeline, false);
  // So that the end of this use can be told from that of later work (F15).
  // Without a checkpoint a later look at the stream finds the end.
  if (added.ok()) timeline->Checkpoint(stream).IgnoreError();
}

bool PinnedAllocator::AddPoints(const void* pointer,
                                absl::Span<const StreamUse> uses) {
  PinnedBlock* const block = FindAround(pointer);
  if (block == nullptr) return false;
  const uint64_t size = block->size.load(std::memory_order_relaxed);
  SpinLockHolder hold(&block->allocator->ClassOf(size).lock);
  if (!IsOf(*block, size) || block->use != BlockUse::kLive) return false;
  for (const StreamUse& use : uses) block->uses.Add(use);
  return true;
}

void PinnedAllocator::CloseUses(PinnedBlock* block) {
  // The block is kClosing: no other thread accesses its uses.
  BlockUses uses = std::move(block->uses);
  block->uses.points.clear();
  block->uses.open.clear();
  for (const BlockUses::Open& open : uses.open) {
    const uint64_t epoch = open.timeline->Now();
    if (IsOpen(open.timeline->device())) {
      open.timeline->CheckpointLater(open.stream, epoch).IgnoreError();
    }
    uses.Add(open.stream, open.timeline, epoch);
  }
  PendingFree item;
  item.block = block;
  item.uses = std::move(uses.points);
  if (PendingFrees::IsOver(&item)) {
    Settle(block);
    return;
  }
  {
    Class& c = ClassOf(block->size.load(std::memory_order_relaxed));
    SpinLockHolder hold(&c.lock);
    block->use = BlockUse::kPending;
  }
  pending_.Add(std::move(item));
  if (background_) WakeBackground();
}

// ---- Look-ups by address ----------------------------------------------------

namespace {

// The caller holds the lock of its class.
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

std::optional<AllocationRange> PinnedAllocator::FindLive(const void* pointer) {
  PinnedBlock* const block = FindAround(pointer);
  if (block == nullptr) return std::nullopt;
  const uint64_t size = block->size.load(std::memory_order_relaxed);
  SpinLockHolder hold(&block->allocator->ClassOf(size).lock);
  if (!IsOf(*block, size) || block->use != BlockUse::kLive ||
      OffsetIn(*block, pointer) >= block->requested) {
    return std::nullopt;
  }
  AllocationRange range = RangeOf(*block);
  range.id = block->id;
  range.allocated = block->site;
  return range;
}

std::optional<AllocationRange> PinnedAllocator::FindFreed(const void* pointer) {
  PinnedBlock* const block = FindAround(pointer);
  if (block == nullptr) return std::nullopt;
  const uint64_t size = block->size.load(std::memory_order_relaxed);
  SpinLockHolder hold(&block->allocator->ClassOf(size).lock);
  if (!IsOf(*block, size) || block->use == BlockUse::kLive ||
      block->device == nullptr ||
      OffsetIn(*block, pointer) >= block->requested) {
    return std::nullopt;
  }
  AllocationRange range = RangeOf(*block);
  range.freed = block->site;
  return range;
}

int64_t PinnedAllocator::CountLive(const DeviceRecord* device) {
  std::vector<PinnedBlock*> blocks;
  {
    MutexLock lock(&mutex_);
    for (const auto& record : records_) blocks.push_back(record.get());
  }
  int64_t live = 0;
  for (PinnedBlock* block : blocks) {
    const uint64_t size = block->size.load(std::memory_order_relaxed);
    if (size == 0) continue;
    SpinLockHolder hold(&ClassOf(size).lock);
    if (!IsOf(*block, size) || block->use != BlockUse::kLive) continue;
    live += block->device == device ? 1 : 0;
  }
  return live;
}

}  // namespace devrt::internal
