// SPDX-License-Identifier: Apache-2.0

#include "memory/device/block_pool.h"

#include <utility>

// For the two calls that are to be fast.
#define DEVRT_POOL_WORK_       \
  ABSL_ATTRIBUTE_ALWAYS_INLINE \
  DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis)

namespace devrt::internal {

namespace {

Row RowOf(const Segment* segment) {
  return segment->small ? kSmallRow : kLargeRow;
}

int64_t Signed(uint64_t bytes) { return static_cast<int64_t>(bytes); }

// A free block that is a part of a segment in use counts as a split one.  What
// is free in an expandable segment keeps nothing from the driver.
bool IsPart(const Segment* segment, uint64_t bytes) {
  return bytes != segment->mapped && !segment->expandable();
}

void CountSplit(int64_t* lanes, uint64_t bytes) {
  lanes[kSplits] += 1;
  lanes[kSplitBytes] += Signed(bytes);
}

}  // namespace

// ---- Counting ---------------------------------------------------------------

// A copy of the change: a reference would keep it in memory for the usual way.
bool BlockPool::CountSlowly(Row row, Change change, Ledger::Exclusive* all) {
  if (all == nullptr) return ledger_->Count(&shard_, row, change);
  all->Count(&shard_, row, change);
  return true;
}

// ---- Free blocks ------------------------------------------------------------

Block* BlockPool::Best(const PoolRequest& request) const {
  return IsSmall(request.size)
             ? small_.Best(static_cast<uint32_t>(request.size / kGranule))
             : large_.Best(request.size, request.limit());
}

void BlockPool::Insert(Block* block) {
  block->segment->small ? small_.Insert(block) : large_.Insert(block);
}

void BlockPool::Remove(Block* block) {
  block->segment->small ? small_.Remove(block) : large_.Remove(block);
}

bool BlockPool::HandOut(Block* block, const PoolRequest& request,
                        BlockUses* uses, Ledger::Exclusive* all) {
  Segment* const segment = block->segment;
  const uint64_t whole = block->bytes();
  const uint64_t rest = whole - request.size;
  const bool cut = IsSplit(request.size, rest, request.max_split_size);
  const uint64_t taken = cut ? request.size : whole;
  Change c;
  c.up[kAllocation] = 1;
  c.up[kActive] = 1;
  c.up[kAllocatedBytes] = Signed(taken);
  c.up[kActiveBytes] = Signed(taken);
  c.up[kRequestedBytes] = Signed(request.requested);
  if (IsPart(segment, whole)) CountSplit(c.down, whole);
  if (cut && IsPart(segment, rest)) CountSplit(c.up, rest);
  if (!Count(RowOf(segment), c, all)) return false;

  Remove(block);
  if (cut) {
    const uint64_t released = block->free.released;
    block->size = static_cast<uint32_t>(taken / kGranule);
    Block* second = segment->Begin(block->offset + block->size);
    second->size = static_cast<uint32_t>(rest / kGranule);
    second->previous = block->size;
    second->use = BlockUse::kFree;
    second->free.released = released;
    if (Block* next = segment->Next(second)) next->previous = second->size;
    Insert(second);
  }
  free_bytes_.store(free_bytes() - taken, std::memory_order_relaxed);
  segment->last_use = ++clock_;
  block->use = BlockUse::kLive;
  block->lent = false;
  block->oversize = taken >= request.max_split_size;
  block->mark = (uint64_t{number_} + 1) << 44 | clock_;
  block->held = {uses, 0, request.requested, request.site};
  ++live_;
  return true;
}

bool BlockPool::Return(Block* block, Ledger::Exclusive* all) {
  Segment* const segment = block->segment;
  Block* left = segment->Previous(block);
  Block* right = segment->Next(block);
  const uint64_t bytes = block->bytes();
  uint64_t joined = bytes;
  Change c;
  if (block->use != BlockUse::kPending) {
    c.down[kAllocation] = 1;
    c.down[kAllocatedBytes] = Signed(bytes);
  }
  c.down[kActive] = 1;
  c.down[kActiveBytes] = Signed(bytes);
  c.down[kRequestedBytes] = Signed(block->held.requested);
  if (left != nullptr) {
    if (left->use == BlockUse::kFree) {
      if (IsPart(segment, left->bytes())) CountSplit(c.down, left->bytes());
      joined += left->bytes();
    } else {
      left = nullptr;
    }
  }
  if (right != nullptr) {
    if (right->use == BlockUse::kFree) {
      if (IsPart(segment, right->bytes())) CountSplit(c.down, right->bytes());
      joined += right->bytes();
    } else {
      right = nullptr;
    }
  }
  if (IsPart(segment, joined)) CountSplit(c.up, joined);
  if (!Count(RowOf(segment), c, all)) return false;

  block->use == BlockUse::kPending ? --pending_ : --live_;
  if (block->lent) lent_.store(lent_ - 1, std::memory_order_relaxed);
  // Whatever was joined was freed before now: this is the newest point (F18).
  const uint64_t released = Now();
  if (right != nullptr) {
    Remove(right);
    segment->End(right);
  }
  if (left != nullptr) {
    Remove(left);
    segment->End(block);
    block = left;
  }
  block->size = static_cast<uint32_t>(joined / kGranule);
  block->use = BlockUse::kFree;
  block->free.released = released;
  if (Block* next = segment->Next(block)) next->previous = block->size;
  Insert(block);
  free_bytes_.store(free_bytes() + bytes, std::memory_order_relaxed);
  return true;
}

// ---- The calls --------------------------------------------------------------

PoolAnswer BlockPool::Allocate(StreamRef stream, const PoolRequest& request,
                               Segment* fresh, void** pointer) {
  PoolAnswer answer = PoolAnswer::kDone;
  // What was made for the request serves it, even where a block of that size
  // would be too good for it (oversize).
  const Segment* grown = nullptr;
  UnderLock([&](Ledger::Exclusive* all) DEVRT_POOL_WORK_ {
    if (ABSL_PREDICT_FALSE(fresh != nullptr)) {
      Adopt(fresh);
      grown = std::exchange(fresh, nullptr);
    }
    if (ABSL_PREDICT_FALSE(serial() != stream.serial() || end_epoch_ != 0)) {
      answer = PoolAnswer::kMoved;
    } else if (ABSL_PREDICT_FALSE(!device_->IsOpen())) {
      answer = PoolAnswer::kClosed;
    } else if (ABSL_PREDICT_FALSE(pending_ != 0 && !request.polled)) {
      answer = PoolAnswer::kPending;
    } else if (Block* block = ABSL_PREDICT_FALSE(grown != nullptr &&
                                                 Serves(grown, request))
                                  ? grown->table
                                  : Best(request);
               ABSL_PREDICT_FALSE(block == nullptr)) {
      answer = PoolAnswer::kNoBlock;
      if (IsSmall(request.size) && std::exchange(was_taken_from_, false)) {
        ++turns_;
      }
    } else {
      if (!HandOut(block, request, nullptr, all)) return false;
      *pointer = block->address();
      answer = PoolAnswer::kDone;
      Tell(MemoryAction::kAlloc, *pointer, block->bytes(), serial(),
           request.site);
    }
    return true;
  });
  return answer;
}

PoolAnswer BlockPool::Free(PoolReturn* request, Block** block) {
  PoolAnswer answer = PoolAnswer::kDone;
  const uintptr_t address = reinterpret_cast<uintptr_t>(request->pointer);
  UnderLock([&](Ledger::Exclusive* all) DEVRT_POOL_WORK_ {
    Segment* segment = request->segment;
    if (ABSL_PREDICT_FALSE(segment->pool.load(std::memory_order_relaxed) !=
                               this ||
                           !segment->Holds(address))) {
      answer = PoolAnswer::kMoved;
      return true;
    }
    Block* found = segment->Beginning(address);
    if (ABSL_PREDICT_FALSE(found == nullptr || found->use != BlockUse::kLive)) {
      answer = PoolAnswer::kNotLive;
      return true;
    }
    const bool foreign =
        request->stream != nullptr && !IsHolder(found, *request->stream);
    if (ABSL_PREDICT_FALSE(found->held.uses != nullptr || foreign ||
                           request->claim)) {
      answer = PoolAnswer::kUses;
      if (request->plain) return true;
      found->use = BlockUse::kClosing;
      found->mark = request->site;
      *block = found;
      Tell(MemoryAction::kFreeRequested, request->pointer, found->bytes(),
           HolderOf(found), request->event_site);
      return true;
    }
    request->oversize = found->oversize;
    const uint64_t bytes = found->bytes();
    const uint64_t holder = HolderOf(found);
    if (!Return(found, all)) return false;
    ++frees_;
    found->mark = request->site;
    for (const MemoryAction action :
         {MemoryAction::kFreeRequested, MemoryAction::kFreeCompleted}) {
      Tell(action, request->pointer, bytes, holder, request->event_site);
    }
    return true;
  });
  return answer;
}

bool BlockPool::Settle(Block* block) {
  const bool oversize = block->oversize;
  UnderLock([&](Ledger::Exclusive* all)
                DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
                  const void* const pointer = block->address();
                  const uint64_t bytes = block->bytes();
                  const uint64_t holder = HolderOf(block);
                  if (!Return(block, all)) return false;
                  Tell(MemoryAction::kFreeCompleted, pointer, bytes, holder, 0);
                  return true;
                });
  return oversize;
}

void BlockPool::Wait(Block* block) {
  UnderLock([&](Ledger::Exclusive* all)
                DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
                  Change c;
                  c.down[kAllocation] = 1;
                  c.down[kAllocatedBytes] = Signed(block->bytes());
                  if (!Count(RowOf(block->segment), c, all)) return false;
                  block->use = BlockUse::kPending;
                  --live_;
                  ++pending_;
                  return true;
                });
}

}  // namespace devrt::internal
