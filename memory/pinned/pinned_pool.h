// SPDX-License-Identifier: Apache-2.0
//
// PinnedPool: the pinned blocks of some threads, and the statistics of these
// blocks, under one lock.
//
// A free block of a power of two is in the list of its size, last in first out;
// others are in a set ordered by size.  A live block belongs to the pool that
// it came from, and goes back to it, whichever thread frees it.  A free block
// may move to another pool (PinnedAllocator::TakeFromOthers).
//
// Bodies are here because each allocation and free runs through them.

#ifndef DEVRT_MEMORY_PINNED_PINNED_POOL_H_
#define DEVRT_MEMORY_PINNED_PINNED_POOL_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "memory/common/ledger.h"
#include "memory/common/pool_keeper.h"
#include "memory/common/spin_lock.h"
#include "memory/pinned/pinned_block.h"

namespace devrt::internal {

struct alignas(64) PinnedPool {
  SpinLock lock;
  // Ids of blocks are made of it: no other pool has the number.
  const uint32_t number;
  uint64_t allocations DEVRT_GUARDED_BY(lock) = 0;  // so far
  PinnedBlock* lists[64] DEVRT_GUARDED_BY(lock) = {};
  absl::btree_multimap<uint64_t, PinnedBlock*> others DEVRT_GUARDED_BY(lock);
  PoolKeeper keeper DEVRT_GUARDED_BY(lock);
  LedgerShard shard DEVRT_GUARDED_BY(lock);

  PinnedPool(Ledger* ledger, uint32_t number_of_pool) : number(number_of_pool) {
    ledger->Add(&lock, &shard);
  }

  static bool IsPowerOfTwo(uint64_t size) { return (size & (size - 1)) == 0; }
  // The list of the blocks of `size` bytes, a power of two.
  PinnedBlock*& ListOf(uint64_t size) DEVRT_REQUIRES(lock) {
    return lists[__builtin_ctzll(size)];
  }

  // The smallest free block of `size` to `most` bytes, most < 2 * size; nullptr
  // if there is none.
  PinnedBlock* Find(uint64_t size, uint64_t most) DEVRT_REQUIRES(lock) {
    if (size == most) return IsPowerOfTwo(size) ? ListOf(size) : nullptr;
    const auto other = others.lower_bound(size);
    PinnedBlock* const block =
        other == others.end() || other->first > most ? nullptr : other->second;
    const uint64_t power = uint64_t{1} << (64 - __builtin_clzll(size - 1));
    PinnedBlock* const listed = power > most ? nullptr : ListOf(power);
    if (block == nullptr || listed == nullptr) {
      return block != nullptr ? block : listed;
    }
    return other->first < power ? block : listed;
  }
  // Returns true if no other free block has the size of `block`, which Find
  // returned.
  bool IsAlone(const PinnedBlock* block) const DEVRT_REQUIRES(lock) {
    const uint64_t size = block->size.load(std::memory_order_relaxed);
    return IsPowerOfTwo(size) ? block->next == nullptr
                              : others.count(size) == 1;
  }
  // Takes out a block that Find returned.
  void Unlink(PinnedBlock* block) DEVRT_REQUIRES(lock) {
    const uint64_t size = block->size.load(std::memory_order_relaxed);
    if (ABSL_PREDICT_TRUE(IsPowerOfTwo(size))) {
      ListOf(size) = block->next;
    } else {
      others.erase(others.lower_bound(size));
    }
  }
  void Add(PinnedBlock* block) DEVRT_REQUIRES(lock) {
    block->use = BlockUse::kFree;
    const uint64_t size = block->size.load(std::memory_order_relaxed);
    if (ABSL_PREDICT_TRUE(IsPowerOfTwo(size))) {
      block->next = std::exchange(ListOf(size), block);
    } else {
      others.emplace(size, block);
    }
  }
  // Takes out all free blocks.
  std::vector<PinnedBlock*> TakeAll() DEVRT_EXCLUDES(lock) {
    std::vector<PinnedBlock*> blocks;
    SpinLockHolder hold(&lock);
    for (PinnedBlock*& list : lists) {
      for (PinnedBlock* b = std::exchange(list, nullptr); b != nullptr;) {
        blocks.push_back(b);
        b = b->next;
      }
    }
    for (const auto& [size, block] : others) blocks.push_back(block);
    others.clear();
    keeper = PoolKeeper();
    for (PinnedBlock* block : blocks) block->use = BlockUse::kNone;
    return blocks;
  }
};

// Holds the lock of the pool that a block belongs to, if it belongs to one.
// The record may serve another block by then.  Clang's analysis cannot follow
// which lock that is.
class PinnedBlockLock {
 public:
  explicit PinnedBlockLock(const PinnedBlock* block)
      DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
    for (;;) {
      pool_ = block->pool.load(std::memory_order_acquire);
      if (pool_ == nullptr) return;
      pool_->lock.Lock();
      if (ABSL_PREDICT_TRUE(block->pool.load(std::memory_order_relaxed) ==
                            pool_)) {
        return;
      }
      pool_->lock.Unlock();
    }
  }
  ~PinnedBlockLock() DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
    if (ABSL_PREDICT_TRUE(pool_ != nullptr)) pool_->lock.Unlock();
  }
  PinnedBlockLock(const PinnedBlockLock&) = delete;
  PinnedBlockLock& operator=(const PinnedBlockLock&) = delete;
  // nullptr: the block was never handed out, and is not live.
  PinnedPool* pool() const { return pool_; }

 private:
  PinnedPool* pool_;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_PINNED_PINNED_POOL_H_
