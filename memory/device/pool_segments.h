// SPDX-License-Identifier: Apache-2.0
//
// PoolSegments: the segments of one pool and the free blocks in them.  Cuts
// free blocks, and joins a block that comes back with its free neighbours.
//
// Not synchronised: guarded by the lock of the pool.  Only free_bytes() may be
// called without the lock.

#ifndef DEVRT_MEMORY_DEVICE_POOL_SEGMENTS_H_
#define DEVRT_MEMORY_DEVICE_POOL_SEGMENTS_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/base/attributes.h"
#include "memory/device/block.h"
#include "memory/device/free_blocks.h"
#include "memory/device/pages.h"
#include "memory/device/pool_request.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

class BlockPool;

// A segment without a live block, or a run of pages of an expandable segment
// without one, as it was when the lock was held.
struct FreeSegment {
  Segment* segment;
  BlockPool* pool;
  OrderPoint released;
  uint64_t bytes;
  uint64_t age;  // allocations of the pool since the last use of the segment
  uint32_t first_page = 0;
  uint32_t pages = 0;  // 0: the whole segment

  PageRun run() const { return {segment, first_page, pages}; }
};

class PoolSegments {
 public:
  explicit PoolSegments(BlockPool* pool) : pool_(pool) {}
  PoolSegments(const PoolSegments&) = delete;
  PoolSegments& operator=(const PoolSegments&) = delete;

  // ---- Free blocks ----------------------------------------------------------

  // The smallest free block that may serve the request, which stays free;
  // nullptr if there is none.
  Block* Best(const PoolRequest& request) const {
    return IsSmall(request.size)
               ? small_.Best(static_cast<uint32_t>(request.size / kGranule))
               : large_.Best(request.size, request.limit());
  }
  // The next larger free block, for a caller that cannot use `block`.
  Block* After(const Block* block) const {
    return block->segment->small ? small_.After(block) : large_.After(block);
  }
  // The best free block that may be a whole segment and may serve the request.
  Block* BestWhole(const PoolRequest& request) const {
    return IsSmall(request.size) ? small_.Best(kSmallSegment / kGranule)
                                 : large_.Best(request.size, request.limit());
  }
  void Insert(Block* block) {
    block->segment->small ? small_.Insert(block) : large_.Insert(block);
  }
  void Remove(Block* block) {
    block->segment->small ? small_.Remove(block) : large_.Remove(block);
  }
  // Takes the first `taken` bytes of a free block out of the free blocks; what
  // is left of the block becomes a free block of its own.  Returns the number
  // of this allocation in the pool.
  ABSL_ATTRIBUTE_ALWAYS_INLINE uint64_t HandOut(Block* block, uint64_t taken) {
    Segment* const segment = block->segment;
    const uint64_t rest = block->bytes() - taken;
    Remove(block);
    if (rest != 0) {
      block->size = static_cast<uint32_t>(taken / kGranule);
      AddRest(block, static_cast<uint32_t>(rest / kGranule));
    }
    free_bytes_.store(free_bytes() - taken, std::memory_order_relaxed);
    segment->last_use = ++allocations_;
    return allocations_;
  }
  // Makes `block` free as of `released`, joined with its neighbours `left` and
  // `right`, each nullptr or free.
  ABSL_ATTRIBUTE_ALWAYS_INLINE void Join(Block* block, Block* left,
                                         Block* right, uint64_t released) {
    Segment* const segment = block->segment;
    free_bytes_.store(free_bytes() + block->bytes(), std::memory_order_relaxed);
    uint32_t size = block->size;
    if (right != nullptr) {
      size += right->size;
      Remove(right);
      segment->End(right);
    }
    if (left != nullptr) {
      size += left->size;
      Remove(left);
      segment->End(block);
      block = left;
    }
    block->size = size;
    block->use = BlockUse::kFree;
    block->free.released = released;
    if (Block* next = segment->Next(block)) next->previous = size;
    Insert(block);
  }

  // ---- Segments -------------------------------------------------------------

  // Adds a segment as one free block, released at `released`.
  void Adopt(Segment* segment, uint64_t released);
  // Takes a segment out that is one free block.
  void Remove(Segment* segment);
  // Adds a segment without a block, or takes it out.
  void List(Segment* segment);
  void Unlist(Segment* segment);
  // Takes all segments out, whatever is in them.
  void Clear(std::vector<Segment*>* segments);

  // True if the segment belongs to this pool, is one free block, and can serve
  // the request.
  bool IsFreeFor(const Segment* segment, const PoolRequest& request) const {
    return segment->pool.load(std::memory_order_relaxed) == pool_ &&
           IsFree(segment) && segment->small == IsSmall(request.size) &&
           segment->bytes() >= request.size;
  }
  // True if the segment is one free block.
  static bool IsFree(const Segment* segment) {
    return segment->table->use == BlockUse::kFree &&
           segment->table->bytes() == segment->bytes();
  }
  // Appends the segment if it is one free block.
  void ListFree(Segment* segment, Timeline* timeline,
                std::vector<FreeSegment>* list) const;
  // Takes the segment out if it is free as it was when it was listed.
  bool RemoveIfUnchanged(const FreeSegment& seen);

  BlockPool* pool() const { return pool_; }
  const std::vector<Segment*>& all() const { return segments_; }
  uint64_t allocations() const { return allocations_; }
  uint64_t free_bytes() const {
    return free_bytes_.load(std::memory_order_relaxed);
  }
  // Called when pages with memory are added or taken out.
  void ChangeFreeBytes(int64_t bytes) {
    free_bytes_.store(free_bytes() + static_cast<uint64_t>(bytes),
                      std::memory_order_relaxed);
  }

 private:
  // Adds a free block of `size` granules behind `block`, which was cut.
  void AddRest(Block* block, uint32_t size) {
    Segment* const segment = block->segment;
    const uint64_t released = block->free.released;
    Block* const rest = segment->Begin(block->offset + block->size);
    rest->size = size;
    rest->previous = block->size;
    rest->use = BlockUse::kFree;
    rest->free.released = released;
    if (Block* next = segment->Next(rest)) next->previous = size;
    Insert(rest);
  }

  BlockPool* const pool_;
  uint64_t allocations_ = 0;             // so far
  std::atomic<uint64_t> free_bytes_{0};  // changes under the lock
  SmallFreeBlocks small_;
  LargeFreeBlocks large_;
  std::vector<Segment*> segments_;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_POOL_SEGMENTS_H_
