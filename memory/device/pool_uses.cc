// SPDX-License-Identifier: Apache-2.0

#include "memory/device/pool_uses.h"

#include <memory>
#include <utility>

namespace devrt::internal {

namespace {

// The live block whose last requested byte is right before `address`, or
// nullptr.  Where rounding made a block longer than requested, that end lies
// inside the block, and a lookup of the address itself finds the block.
Block* BlockEndingAt(const Segment* segment, uintptr_t address) {
  if (!segment->Holds(address - 1)) return nullptr;
  Block* const before = segment->Find(address - 1);
  return before != nullptr && before->use == BlockUse::kLive &&
                 before->held.requested == before->bytes()
             ? before
             : nullptr;
}

}  // namespace

PoolAnswer PoolUses::Add(Segment* segment, const void* pointer,
                         StreamRef stream, const OrderPoint& point, bool open,
                         bool end_counts, bool* foreign) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  *foreign = false;
  // Allocated before the lock is taken; a block may have no uses so far.  The
  // second is for the rare case that one block ends where another begins.
  std::unique_ptr<BlockUses> spare[2] = {NewUses()};
  for (;; spare[1] = std::make_unique<BlockUses>()) {
    SpinLockHolder hold(lock_);
    if (segment->pool.load(std::memory_order_relaxed) != pool_) {
      return PoolAnswer::kMoved;
    }
    Block* blocks[2] = {nullptr, nullptr};
    if (segment->Holds(address)) blocks[0] = segment->Find(address);
    if (end_counts) {
      Block* const before = BlockEndingAt(segment, address);
      if (before != blocks[0]) blocks[1] = before;
    }
    if (blocks[1] != nullptr && spare[1] == nullptr) continue;
    PoolAnswer answer = PoolAnswer::kNotLive;
    for (int i = 0; i < 2; ++i) {
      Block* block = blocks[i];
      if (block == nullptr || block->use != BlockUse::kLive) continue;
      answer = PoolAnswer::kDone;
      if (stream_->IsHolder(block, stream)) continue;
      *foreign = true;
      if (block->held.uses == nullptr) block->held.uses = spare[i].release();
      block->held.uses->Add(stream, point.timeline, point.epoch);
      if (open) block->held.uses->AddOpen(stream, point.timeline);
    }
    return answer;
  }
}

std::unique_ptr<BlockUses> PoolUses::NewUses() {
  std::unique_ptr<BlockUses> uses;
  if (spare_.load(std::memory_order_relaxed) != nullptr) {
    uses.reset(spare_.exchange(nullptr, std::memory_order_acquire));
  }
  return uses != nullptr ? std::move(uses) : std::make_unique<BlockUses>();
}

void PoolUses::Recycle(std::unique_ptr<BlockUses> uses) {
  uses->points.clear();
  uses->open.clear();
  uses.reset(spare_.exchange(uses.release(), std::memory_order_acq_rel));
}

PoolAnswer PoolUses::AddPoints(Segment* segment, const void* pointer,
                               absl::Span<const StreamUse> uses) {
  std::unique_ptr<BlockUses> spare = NewUses();
  SpinLockHolder hold(lock_);
  if (segment->pool.load(std::memory_order_relaxed) != pool_) {
    return PoolAnswer::kMoved;
  }
  Block* const block = segment->Find(reinterpret_cast<uintptr_t>(pointer));
  if (block == nullptr || block->use != BlockUse::kLive) {
    return PoolAnswer::kNotLive;
  }
  if (block->held.uses == nullptr) block->held.uses = spare.release();
  for (const StreamUse& use : uses) block->held.uses->Add(use);
  return PoolAnswer::kDone;
}

bool PoolUses::Holds(const Segment* segment, uintptr_t address) const {
  return segment->pool.load(std::memory_order_relaxed) == pool_ &&
         segment->Holds(address);
}

std::optional<StreamRef> PoolUses::StreamOf(const Block* block) const {
  if (!block->lent) return stream_->ref();
  // BlockPool::Lend noted the borrower as a stream with an open use.
  for (const BlockUses::Open& use : block->held.uses->open) {
    if (use.stream.serial() == block->held.stream_serial) return use.stream;
  }
  return std::nullopt;
}

std::optional<PoolUses::LiveBlock> PoolUses::Find(Segment* segment,
                                                  const void* pointer) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  SpinLockHolder hold(lock_);
  if (!Holds(segment, address)) return std::nullopt;
  const Block* const block = segment->Find(address);
  if (block == nullptr || block->use != BlockUse::kLive) return std::nullopt;
  return LiveBlock{block->address(), block->held.requested, block->id_or_site,
                   block->held.site, StreamOf(block)};
}

CallSite PoolUses::FindFreed(Segment* segment, const void* pointer) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  SpinLockHolder hold(lock_);
  if (!Holds(segment, address)) return CallSite();
  const uint64_t at = address - segment->base.load(std::memory_order_relaxed);
  const uint32_t granule = static_cast<uint32_t>(at / kGranule);
  const Block* slot = segment->At(granule);
  if (slot->use == BlockUse::kLive || slot->offset != granule ||
      at % kGranule != 0) {
    return CallSite();
  }
  return UnpackSite(slot->id_or_site);
}

}  // namespace devrt::internal
