// SPDX-License-Identifier: Apache-2.0

#include "memory/device/block_pool.h"

#include <memory>
#include <utility>

namespace devrt::internal {

namespace {

int64_t Signed(uint64_t bytes) { return static_cast<int64_t>(bytes); }

// True if a free block of `bytes` counts as split off: it is a part of a
// segment in use.  What is free in an expandable segment does not count, as its
// pages can go back to the driver.
bool IsPart(const Segment* segment, uint64_t bytes) {
  return bytes != segment->mapped && !segment->expandable();
}

void CountSplit(int64_t* lanes, uint64_t bytes) {
  lanes[kSplits] += 1;
  lanes[kSplitBytes] += Signed(bytes);
}

Block* FreeOrNull(Block* block) {
  return block != nullptr && block->use == BlockUse::kFree ? block : nullptr;
}

// A free neighbour of a block that becomes free is joined with it.  Returns the
// neighbour's bytes.
uint64_t CountJoined(const Segment* segment, const Block* neighbour,
                     Change* change) {
  if (neighbour == nullptr) return 0;
  const uint64_t bytes = neighbour->bytes();
  if (IsPart(segment, bytes)) CountSplit(change->down, bytes);
  return bytes;
}

}  // namespace

// ---- Counting ---------------------------------------------------------------

// Takes a copy of the change: a reference would force Count's fast path to keep
// the change in memory.
void BlockPool::CountSlowly(Row row, Change change) {
  ledger_->Count(&shard_, row, change);
}

void BlockPool::HandOut(Block* block, const PoolRequest& request,
                        BlockUses* uses) {
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
  Count(RowOf(segment->small), c);

  const uint64_t allocation = segments_.HandOut(block, taken);
  block->use = BlockUse::kLive;
  block->lent = false;
  block->oversize = taken >= request.max_split_size;
  block->id_or_site = (uint64_t{number_} + 1) << 44 | allocation;
  block->held = {uses, 0, request.requested, request.site};
  ++live_;
}

void BlockPool::MakeFree(Block* block) {
  Segment* const segment = block->segment;
  Block* const left = FreeOrNull(segment->Previous(block));
  Block* const right = FreeOrNull(segment->Next(block));
  const uint64_t bytes = block->bytes();
  Change c;
  if (block->use != BlockUse::kPending) {
    c.down[kAllocation] = 1;
    c.down[kAllocatedBytes] = Signed(bytes);
  }
  c.down[kActive] = 1;
  c.down[kActiveBytes] = Signed(bytes);
  c.down[kRequestedBytes] = Signed(block->held.requested);
  const uint64_t joined =
      bytes + CountJoined(segment, left, &c) + CountJoined(segment, right, &c);
  if (IsPart(segment, joined)) CountSplit(c.up, joined);
  Count(RowOf(segment->small), c);

  block->use == BlockUse::kPending ? --pending_ : --live_;
  if (block->lent) lent_.store(lent_ - 1, std::memory_order_relaxed);
  // The neighbours were freed before now, so this is the newest point (F18).
  segments_.Join(block, left, right, stream_.Now());
}

// ---- Allocation and free ----------------------------------------------------

// A large block that stays pending holds much memory, so each large request
// asks.
bool BlockPool::ShallPoll(const PoolRequest& request, const Block* block) {
  return block == nullptr || !IsSmall(request.size) || pace_.IsDue();
}

void BlockPool::NotePoll(bool answered) {
  SpinLockHolder hold(&lock_);
  pace_.NotePoll(answered);
}

PoolAnswer BlockPool::Allocate(StreamRef stream, const PoolRequest& request,
                               Segment* fresh, void** pointer) {
  SpinLockHolder hold(&lock_);
  if (ABSL_PREDICT_FALSE(fresh != nullptr)) {
    segments_.Adopt(fresh, stream_.Now());
  }
  if (ABSL_PREDICT_FALSE(!stream_.Is(stream))) return PoolAnswer::kMoved;
  if (ABSL_PREDICT_FALSE(!stream_.device()->IsOpen())) {
    return PoolAnswer::kClosed;
  }
  // A segment that was made for the request serves it, even where a cached
  // block of that size would be too large for the request (oversize).
  Block* const block = ABSL_PREDICT_FALSE(fresh != nullptr &&
                                          segments_.IsFreeFor(fresh, request))
                           ? fresh->table
                           : segments_.Best(request);
  if (ABSL_PREDICT_FALSE(pending_ != 0 && !request.polled) &&
      ShallPoll(request, block)) {
    return PoolAnswer::kPending;
  }
  if (ABSL_PREDICT_FALSE(block == nullptr)) {
    if (IsSmall(request.size)) keeper_.NoteShortage();
    return PoolAnswer::kNoBlock;
  }
  HandOut(block, request, nullptr);
  *pointer = block->address();
  AddToHistory(MemoryAction::kAlloc, *pointer, block->bytes(), serial(),
               request.site);
  return PoolAnswer::kDone;
}

void BlockPool::BeginClosing(Block* block, const PoolReturn& request) {
  block->use = BlockUse::kClosing;
  block->id_or_site = request.site;
  AddToHistory(MemoryAction::kFreeRequested, request.pointer, block->bytes(),
               stream_.HolderOf(block), request.event_site);
}

PoolAnswer BlockPool::Free(PoolReturn* request, Block** block) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(request->pointer);
  SpinLockHolder hold(&lock_);
  Segment* const segment = request->segment;
  if (ABSL_PREDICT_FALSE(segment->pool.load(std::memory_order_relaxed) !=
                             this ||
                         !segment->Holds(address))) {
    return PoolAnswer::kMoved;
  }
  Block* const found = segment->Beginning(address);
  if (ABSL_PREDICT_FALSE(found == nullptr || found->use != BlockUse::kLive)) {
    return PoolAnswer::kNotLive;
  }
  request->has_uses = found->held.uses != nullptr ||
                      (request->stream != nullptr &&
                       !stream_.IsHolder(found, *request->stream));
  if (ABSL_PREDICT_FALSE(request->has_uses || request->claim)) {
    if (request->plain) return PoolAnswer::kUses;
    request->defers = segment->small && pace_.Defers();
    BeginClosing(found, *request);
    *block = found;
    return PoolAnswer::kUses;
  }
  request->oversize = found->oversize;
  const uint64_t bytes = found->bytes();
  const uint64_t holder = stream_.HolderOf(found);
  MakeFree(found);
  ++frees_;
  found->id_or_site = request->site;
  for (const MemoryAction action :
       {MemoryAction::kFreeRequested, MemoryAction::kFreeCompleted}) {
    AddToHistory(action, request->pointer, bytes, holder, request->event_site);
  }
  return PoolAnswer::kDone;
}

bool BlockPool::Settle(Block* block) {
  SpinLockHolder hold(&lock_);
  const bool oversize = block->oversize;
  const void* const pointer = block->address();
  const uint64_t bytes = block->bytes();
  const uint64_t holder = stream_.HolderOf(block);
  MakeFree(block);
  AddToHistory(MemoryAction::kFreeCompleted, pointer, bytes, holder, 0);
  return oversize;
}

void BlockPool::MarkPending(Block* block) {
  SpinLockHolder hold(&lock_);
  Change c;
  c.down[kAllocation] = 1;
  c.down[kAllocatedBytes] = Signed(block->bytes());
  Count(RowOf(block->segment->small), c);
  block->use = BlockUse::kPending;
  --live_;
  ++pending_;
}

// ---- The stream -------------------------------------------------------------

bool BlockPool::BeginStream(StreamRef stream, Timeline* timeline) {
  SpinLockHolder hold(&lock_);
  if (stream_.IsLive()) return false;
  if (stream_.timeline() != timeline && !segments_.all().empty()) return false;
  stream_.Begin(stream, timeline);
  return true;
}

void BlockPool::EndStream(uint64_t serial, uint64_t epoch) {
  SpinLockHolder hold(&lock_);
  stream_.End(serial, epoch);
}

std::optional<StreamRef> BlockPool::stream() {
  SpinLockHolder hold(&lock_);
  return stream_.ref();
}

Timeline* BlockPool::timeline() {
  SpinLockHolder hold(&lock_);
  return stream_.timeline();
}

// EndStream waits for the lock, so the timeline knows only waits of this
// stream: they all came before its last epoch.
bool BlockPool::IsPast(const OrderPoint& point) {
  SpinLockHolder hold(&lock_);
  return stream_.IsLive() && stream_.timeline()->IsPast(point);
}

// ---- Memory for other pools and for the driver ------------------------------

bool BlockPool::IsReleasedFor(const Block* block, const Timeline* taker) const {
  return taker->IsPast({stream_.timeline(), block->free.released});
}

Block* BlockPool::FindReleased(const PoolRequest& request,
                               const Timeline* taker, bool whole,
                               int most) const {
  const bool small = IsSmall(request.size);
  Block* block = whole ? segments_.BestWhole(request) : segments_.Best(request);
  for (int tried = 0; block != nullptr && tried < most; ++tried) {
    if (!small && block->bytes() >= request.limit()) return nullptr;
    const Segment* const segment = block->segment;
    const bool fits = !whole || (!segment->expandable() &&
                                 block->bytes() == segment->bytes());
    if (fits && IsReleasedFor(block, taker)) return block;
    block = segments_.After(block);
  }
  return nullptr;
}

Segment* BlockPool::TakeSegment(const PoolRequest& request,
                                const Timeline* taker, bool room, bool best) {
  SpinLockHolder hold(&lock_);
  const bool small = IsSmall(request.size);
  if (small && room && keeper_.Keeps(segments_.allocations())) return nullptr;
  Block* const block =
      FindReleased(request, taker, true, best ? 1 : kMostTried);
  if (block == nullptr) return nullptr;
  Segment* const segment = block->segment;
  segments_.Remove(segment);
  if (small) keeper_.NoteLoss();
  return segment;
}

PoolAnswer BlockPool::Lend(StreamRef stream, Timeline* taker,
                           const PoolRequest& request, void** pointer) {
  auto uses = std::make_unique<BlockUses>();
  uses->open.push_back({stream, taker});
  SpinLockHolder hold(&lock_);
  if (!stream_.device()->IsOpen()) return PoolAnswer::kNoBlock;
  Block* const block = FindReleased(request, taker, false, kMostTried);
  if (block == nullptr) return PoolAnswer::kNoBlock;
  HandOut(block, request, uses.release());
  block->lent = true;
  block->held.stream_serial = stream.serial();
  lent_.store(lent_ + 1, std::memory_order_relaxed);
  *pointer = block->address();
  AddToHistory(MemoryAction::kAlloc, *pointer, block->bytes(), stream.serial(),
               request.site);
  return PoolAnswer::kDone;
}

void BlockPool::ListFree(std::vector<FreeSegment>* list) {
  SpinLockHolder hold(&lock_);
  for (Segment* segment : segments_.all()) {
    if (segment->expandable()) {
      pages_.ListFree(segment, list);
    } else {
      segments_.ListFree(segment, stream_.timeline(), list);
    }
  }
}

bool BlockPool::RemoveIfUnchanged(const FreeSegment& seen,
                                  const std::atomic<bool>* kept) {
  SpinLockHolder hold(&lock_);
  if (kept != nullptr && kept->load(std::memory_order_acquire)) return false;
  if (seen.segment->pool.load(std::memory_order_relaxed) != this) return false;
  if (seen.pages == 0) return segments_.RemoveIfUnchanged(seen);
  return seen.segment->expandable() && pages_.TakeFree(seen);
}

void BlockPool::RemoveAll(std::vector<Segment*>* segments) {
  SpinLockHolder hold(&lock_);
  // No block is live: what is counted is free, or waits for its uses.  A reader
  // sees both rows or neither: only a meeting can make shrinkage wait in Count,
  // and no meeting stops a shard whose lock is held, once the first row is
  // counted.
  for (const Row row : {kSmallRow, kLargeRow}) {
    Change c;
    for (size_t m = 0; m < kMetrics; ++m) c.down[m] = shard_.current[row][m];
    Count(row, c);
  }
  segments_.Clear(segments);
  keeper_ = PoolKeeper();
  pace_ = PollPace();
  pending_ = 0;
  lent_.store(0, std::memory_order_relaxed);
}

// ---- Figures ----------------------------------------------------------------

int64_t BlockPool::CountLive() {
  SpinLockHolder hold(&lock_);
  return live_;
}

bool BlockPool::IsUnused() {
  SpinLockHolder hold(&lock_);
  return !stream_.IsLive() && segments_.all().empty();
}

uint64_t BlockPool::CountFrees() {
  SpinLockHolder hold(&lock_);
  return frees_;
}

}  // namespace devrt::internal
