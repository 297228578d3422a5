// SPDX-License-Identifier: Apache-2.0
//
// BlockPool: the segments, blocks and statistics of one stream on one device,
// under one lock that only the stream's own users take: the whole of an
// allocation or a free that needs nothing from outside.
//
//   AllocateMemory(s, n)                        FreeMemory(p)
//     gate, stream record -> pool                 AddressMap -> segment -> pool
//     lock                                        lock
//     pending? -> slow                            block live? uses? -> slow
//     FreeBlocks::Best, cut                       join with free neighbours
//     shard: count (lease short? -> slow)         shard: count
//     unlock                                      unlock
//
// "Slow" leaves the lock, does what must be done without it (Ledger::Exclusive,
// Timeline::Poll, DeviceAllocator::Recover), and begins again.
//
// The pool of a stream hangs on the StreamRecord with the serial that it is
// for; when the stream ends its free blocks, with their points of release, go
// to the device's orphans, and the pool serves the next new stream (C100, F20).
// Live blocks stay with their segments, whose pool then answers to no stream:
// what is freed there goes to the orphans too.
//
// Blocks that pass to another stream:
//   a segment that is wholly free moves to the other pool (TakeSegment);
//   of one that is not a block is lent (`lent`): it stays in this pool's
//   segment, and is free again here once its holder's stream has been passed.
//
// Lock: `lock_`.  Never two pools' at a time, except by Ledger in order of
// `number`.  No backend, hook or allocation of memory under it, but for the
// table of a new group in FreeBlocks.

#ifndef DEVRT_MEMORY_INTERNAL_BLOCK_POOL_H_
#define DEVRT_MEMORY_INTERNAL_BLOCK_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "devrt/memory/internal/block.h"
#include "devrt/memory/internal/free_blocks.h"
#include "devrt/memory/internal/ledger.h"
#include "devrt/memory/internal/spin_lock.h"
#include "devrt/streams/internal/timeline.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

// What a try under the lock came to.
enum class PoolAnswer {
  kDone,
  kNoBlock,     // nothing fits: DeviceAllocator::Recover
  kShortLease,  // again, under a Ledger::Exclusive
  kPending,     // PendingFrees::Poll, then again
  kUses,        // Free: the block is kClosing now and the caller's to settle
  kNotLive,     // Free: no live block begins there
  kMoved,       // the segment or the stream has another pool by now
};

struct PoolRequest {
  uint64_t size;  // a BlockSize
  uint64_t requested;
  uint64_t max_split_size;
  uint64_t site;  // of the history; 0: none
};

class alignas(64) BlockPool {
 public:
  BlockPool(DeviceAllocator* allocator, uint32_t number)
      : allocator_(allocator), number_(number) {}
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  PoolAnswer Allocate(StreamRef stream, const PoolRequest& request,
                      void** pointer) DEVRT_EXCLUDES(lock_);
  // In the order of the pool's stream.  `*block` is set for kUses.
  PoolAnswer Free(Segment* segment, void* pointer, Block** block)
      DEVRT_EXCLUDES(lock_);
  // A block that was kClosing or kPending: its uses are over.
  void Settle(Block* block) DEVRT_EXCLUDES(lock_);
  // kClosing -> kPending: counted as freed, still active.
  PoolAnswer Wait(Block* block) DEVRT_EXCLUDES(lock_);

  // A use of the live block that holds `pointer`, off its stream; false if
  // there is no such block.
  bool AddUse(Segment* segment, const void* pointer, const OrderPoint& point)
      DEVRT_EXCLUDES(lock_);
  bool AddOpenUse(Segment* segment, const void* pointer, StreamRef stream)
      DEVRT_EXCLUDES(lock_);

  // A fresh segment, or one from another pool: one free block.
  void AddSegment(Segment* segment) DEVRT_EXCLUDES(lock_);
  // Takes out a segment that is wholly free, at least `size`, and whose block
  // was released before what `taker` does next; nullptr if there is none.
  // `taker` nullptr: any, for the driver.
  Segment* TakeSegment(uint64_t size, const Timeline* taker)
      DEVRT_EXCLUDES(lock_);
  // Lends a block to `stream` on the same condition; looks at kLooks blocks.
  PoolAnswer Lend(StreamRef stream, const Timeline* taker,
                  const PoolRequest& request, void** pointer)
      DEVRT_EXCLUDES(lock_);

  uint32_t number() const { return number_; }
  // Hints, read without the lock: whether looking here can be of use.
  uint64_t free_bytes() const {
    return free_bytes_.load(std::memory_order_relaxed);
  }
  // Blocks of this pool that PendingFrees has.
  void AddPending(int64_t change) {
    pending_.fetch_add(change, std::memory_order_relaxed);
  }

 private:
  friend class Ledger;  // the shard, under `lock_`
  static constexpr int kLooks = 8;

  Block* Cut(Block* block, const PoolRequest& request, Change* change)
      DEVRT_REQUIRES(lock_);
  Block* Join(Block* block, Change* change) DEVRT_REQUIRES(lock_);

  DeviceAllocator* const allocator_;
  const uint32_t number_;
  SpinLock lock_;
  // The stream; serial 0: none, what is freed goes to the orphans.
  uint64_t serial_ DEVRT_GUARDED_BY(lock_) = 0;
  Timeline* timeline_ DEVRT_GUARDED_BY(lock_) = nullptr;
  uint64_t clock_ DEVRT_GUARDED_BY(lock_) = 0;  // allocations so far
  int64_t live_ DEVRT_GUARDED_BY(lock_) = 0;    // for Shutdown (C98)
  SmallFreeBlocks small_ DEVRT_GUARDED_BY(lock_);
  LargeFreeBlocks large_ DEVRT_GUARDED_BY(lock_);
  std::vector<Segment*> segments_ DEVRT_GUARDED_BY(lock_);
  LedgerShard shard_ DEVRT_GUARDED_BY(lock_);
  std::atomic<uint64_t> free_bytes_{0};
  std::atomic<int64_t> pending_{0};
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_INTERNAL_BLOCK_POOL_H_
