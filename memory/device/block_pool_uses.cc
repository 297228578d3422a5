// SPDX-License-Identifier: Apache-2.0
//
// What BlockPool does beside allocations and frees: streams, uses, look-ups.

#include <memory>
#include <utility>

#include "memory/device/block_pool.h"

namespace devrt::internal {

// ---- Streams ----------------------------------------------------------------

bool BlockPool::Begin(StreamRef stream, Timeline* timeline) {
  SpinLockHolder hold(&lock_);
  if (serial() != 0 && end_epoch_ == 0) return false;
  if (timeline_ != timeline && !segments_.empty()) return false;
  serial_.store(stream.serial(), std::memory_order_relaxed);
  record_ = stream.record();
  timeline_ = timeline;
  end_epoch_ = 0;
  return true;
}

void BlockPool::End(uint64_t serial, uint64_t epoch) {
  SpinLockHolder hold(&lock_);
  if (this->serial() == serial && end_epoch_ == 0) end_epoch_ = epoch;
}

Timeline* BlockPool::timeline() {
  SpinLockHolder hold(&lock_);
  return timeline_;
}

std::optional<StreamRef> BlockPool::stream() {
  SpinLockHolder hold(&lock_);
  if (serial() == 0 || end_epoch_ != 0) return std::nullopt;
  return StreamRef(record_, serial());
}

// Under the lock of End: what is looked at are waits of the pool's own stream,
// which all came before its last epoch.
bool BlockPool::IsPast(const OrderPoint& point) {
  SpinLockHolder hold(&lock_);
  return serial() != 0 && end_epoch_ == 0 && timeline_->IsPast(point);
}

int64_t BlockPool::CountLive() {
  SpinLockHolder hold(&lock_);
  return live_;
}

bool BlockPool::IsBlank() {
  SpinLockHolder hold(&lock_);
  return (serial() == 0 || end_epoch_ != 0) && segments_.empty();
}

bool BlockPool::IsHolder(const Block* block, StreamRef stream) const {
  const uint64_t holder = block->lent ? block->held.stream_serial : serial();
  // Default streams of all devices have one serial.
  return holder == stream.serial() && stream.record()->device == device_;
}

// ---- Uses and look-ups ------------------------------------------------------

PoolAnswer BlockPool::AddUse(Segment* segment, const void* pointer,
                             StreamRef stream, Timeline* timeline, bool open,
                             bool end_counts, bool* foreign) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  // Made here for blocks that have none: not under the lock.
  std::unique_ptr<BlockUses> spare[2] = {std::make_unique<BlockUses>(),
                                         std::make_unique<BlockUses>()};
  *foreign = false;
  SpinLockHolder hold(&lock_);
  if (segment->pool.load(std::memory_order_relaxed) != this) {
    return PoolAnswer::kMoved;
  }
  Block* blocks[2] = {nullptr, nullptr};
  // An empty segment's end is looked for by its last byte.
  if (segment->Holds(address)) blocks[0] = segment->Find(address);
  if (end_counts && segment->Holds(address - 1)) {
    Block* before = segment->Find(address - 1);
    // The end of what was asked for lies behind the block only if the size
    // needed no rounding; a shorter one's lies in it.
    if (before != nullptr && before != blocks[0] &&
        before->use == BlockUse::kLive &&
        before->held.requested == before->bytes()) {
      blocks[1] = before;
    }
  }
  PoolAnswer answer = PoolAnswer::kNotLive;
  for (int i = 0; i < 2; ++i) {
    Block* block = blocks[i];
    if (block == nullptr || block->use != BlockUse::kLive) continue;
    answer = PoolAnswer::kDone;
    if (IsHolder(block, stream)) continue;
    *foreign = true;
    if (block->held.uses == nullptr) block->held.uses = spare[i].release();
    block->held.uses->Add(stream, timeline, timeline->Now());
    if (open) block->held.uses->AddOpen(stream, timeline);
  }
  return answer;
}

PoolAnswer BlockPool::AddPoints(Segment* segment, const void* pointer,
                                absl::Span<const StreamUse> uses) {
  auto spare = std::make_unique<BlockUses>();
  SpinLockHolder hold(&lock_);
  if (segment->pool.load(std::memory_order_relaxed) != this) {
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

const Block* BlockPool::FindLive(const Segment* segment,
                                 const void* pointer) const {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  if (segment->pool.load(std::memory_order_relaxed) != this ||
      !segment->Holds(address)) {
    return nullptr;
  }
  const Block* const block = segment->Find(address);
  return block != nullptr && block->use == BlockUse::kLive ? block : nullptr;
}

std::optional<BlockPool::Found> BlockPool::Find(Segment* segment,
                                                const void* pointer) {
  SpinLockHolder hold(&lock_);
  const Block* const block = FindLive(segment, pointer);
  if (block == nullptr) return std::nullopt;
  return Describe(block);
}

std::optional<BlockPool::Holder> BlockPool::FindHolder(Segment* segment,
                                                       const void* pointer) {
  SpinLockHolder hold(&lock_);
  const Block* const block = FindLive(segment, pointer);
  if (block == nullptr) return std::nullopt;
  Holder holder = {Describe(block), std::nullopt};
  if (!block->lent) {
    if (serial() != 0 && end_epoch_ == 0) {
      holder.stream = StreamRef(record_, serial());
    }
    return holder;
  }
  // Lend noted the stream as one that uses the block up to its free.
  for (const BlockUses::Open& use : block->held.uses->open) {
    if (use.stream.serial() == block->held.stream_serial) {
      holder.stream = use.stream;
    }
  }
  return holder;
}

CallSite BlockPool::FindFreed(Segment* segment, const void* pointer) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  SpinLockHolder hold(&lock_);
  if (segment->pool.load(std::memory_order_relaxed) != this ||
      !segment->Holds(address)) {
    return CallSite();
  }
  const uint64_t at = address - segment->base.load(std::memory_order_relaxed);
  const uint32_t granule = static_cast<uint32_t>(at / kGranule);
  const Block* slot = segment->At(granule);
  if (slot->use == BlockUse::kLive || slot->offset != granule ||
      at % kGranule != 0) {
    return CallSite();
  }
  return UnpackSite(slot->mark);
}

// ---- Segments that come and go ----------------------------------------------

void BlockPool::Adopt(Segment* segment) {
  Block* block = segment->Begin(0);
  block->size = static_cast<uint32_t>(segment->bytes() / kGranule);
  block->previous = 0;
  block->use = BlockUse::kFree;
  // Fresh memory, or another stream's that this one is after.
  block->free.released = Now();
  List(segment);
  Insert(block);
  free_bytes_.store(free_bytes() + segment->bytes(), std::memory_order_relaxed);
}

void BlockPool::TakeOut(Segment* segment) {
  Block* block = segment->table;
  Remove(block);
  segment->End(block);
  free_bytes_.store(free_bytes() - segment->bytes(), std::memory_order_relaxed);
  Unlist(segment);
}

void BlockPool::List(Segment* segment) {
  segment->last_use = clock_;
  segment->place = segments_.size();
  segments_.push_back(segment);
  segment->pool.store(this, std::memory_order_release);
}

void BlockPool::Unlist(Segment* segment) {
  segments_.back()->place = segment->place;
  segments_[segment->place] = segments_.back();
  segments_.pop_back();
  segment->pool.store(nullptr, std::memory_order_release);
}

void BlockPool::ListFree(std::vector<FreeSegment>* list) {
  SpinLockHolder hold(&lock_);
  for (Segment* segment : segments_) {
    if (segment->expandable()) {
      ListFreePages(segment, list);
      continue;
    }
    const Block* first = segment->table;
    if (first->use != BlockUse::kFree || first->bytes() != segment->bytes()) {
      continue;
    }
    list->push_back({segment,
                     this,
                     {timeline_, first->free.released},
                     segment->bytes(),
                     clock_ - segment->last_use});
  }
}

bool BlockPool::Take(const FreeSegment& seen, const std::atomic<bool>* kept) {
  SpinLockHolder hold(&lock_);
  if (kept != nullptr && kept->load(std::memory_order_acquire)) return false;
  Segment* segment = seen.segment;
  if (segment->pool.load(std::memory_order_relaxed) != this) return false;
  if (seen.pages != 0) return segment->expandable() && TakePages(seen);
  if (segment->expandable() || segment->bytes() != seen.bytes) return false;
  const Block* first = segment->table;
  if (first->use != BlockUse::kFree || first->bytes() != seen.bytes ||
      first->free.released != seen.released.epoch) {
    return false;
  }
  TakeOut(segment);
  return true;
}

bool BlockPool::IsReleasedFor(const Block* block, const Timeline* taker) const {
  return taker->IsPast({timeline_, block->free.released});
}

bool BlockPool::KeepsSmall() {
  if (turns_ < kTurns) return false;
  if (std::exchange(asked_at_, clock_) != clock_) asks_ = 0;
  if (++asks_ < kAsks) return true;
  turns_ = 0;
  return false;
}

Segment* BlockPool::TakeSegment(const PoolRequest& request,
                                const Timeline* taker, bool room) {
  SpinLockHolder hold(&lock_);
  const bool small = IsSmall(request.size);
  if (small && room && KeepsSmall()) return nullptr;
  Block* block = small ? small_.Best(kSmallSegment / kGranule)
                       : large_.Best(request.size, request.limit());
  for (int look = 0; block != nullptr && look < kLooks; ++look) {
    if (!small && block->bytes() >= request.limit()) return nullptr;
    Segment* segment = block->segment;
    if (!segment->expandable() && block->bytes() == segment->bytes() &&
        IsReleasedFor(block, taker)) {
      TakeOut(segment);
      was_taken_from_ = was_taken_from_ || small;
      return segment;
    }
    block = small ? small_.After(block) : large_.After(block);
  }
  return nullptr;
}

PoolAnswer BlockPool::Lend(StreamRef stream, Timeline* taker,
                           const PoolRequest& request, void** pointer) {
  auto uses = std::make_unique<BlockUses>();
  uses->open.push_back({stream, taker});
  PoolAnswer answer = PoolAnswer::kNoBlock;
  UnderLock([&](Ledger::Exclusive* all) DEVRT_THREAD_ANNOTATION_(
                no_thread_safety_analysis) {
    if (!device_->IsOpen()) return true;
    const bool small = IsSmall(request.size);
    Block* block = Best(request);
    for (int look = 0; block != nullptr && look < kLooks; ++look) {
      if (!small && block->bytes() >= request.limit()) return true;
      if (IsReleasedFor(block, taker)) {
        if (!HandOut(block, request, uses.get(), all)) return false;
        uses.release();
        block->lent = true;
        block->held.stream_serial = stream.serial();
        lent_.store(lent_ + 1, std::memory_order_relaxed);
        *pointer = block->address();
        answer = PoolAnswer::kDone;
        Tell(MemoryAction::kAlloc, *pointer, block->bytes(), stream.serial(),
             request.site);
        return true;
      }
      block = small ? small_.After(block) : large_.After(block);
    }
    return true;
  });
  return answer;
}

void BlockPool::Drop(std::vector<Segment*>* segments) {
  SpinLockHolder hold(&lock_);
  // Nobody holds a block: what is counted is free, or waits for its uses.
  for (const Row row : {kSmallRow, kLargeRow}) {
    Change c;
    for (size_t m = 0; m < kMetrics; ++m) c.down[m] = shard_.current[row][m];
    shard_.Apply(row, c);  // only less: never short of a lease
  }
  for (Segment* segment : segments_) {
    segment->pool.store(nullptr, std::memory_order_release);
    segments->push_back(segment);
  }
  segments_.clear();
  small_ = SmallFreeBlocks();
  large_ = LargeFreeBlocks();
  free_bytes_.store(0, std::memory_order_relaxed);
  pending_ = 0;
  lent_.store(0, std::memory_order_relaxed);
}

}  // namespace devrt::internal
