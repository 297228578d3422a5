// SPDX-License-Identifier: Apache-2.0
//
// PoolUses: finds a pool's live blocks by their addresses, and notes which
// other streams use them.
//
// Lock: each call takes that of the pool.  The caller finds the segment in the
// AddressMap and the pool in the segment; the segment may have moved to another
// pool in between.

#ifndef DEVRT_MEMORY_DEVICE_POOL_USES_H_
#define DEVRT_MEMORY_DEVICE_POOL_USES_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>

#include "absl/types/span.h"
#include "devrt/runtime/call_site.h"
#include "devrt/streams/stream.h"
#include "memory/common/spin_lock.h"
#include "memory/device/block.h"
#include "memory/device/block_uses.h"
#include "memory/device/pool_request.h"
#include "memory/device/pool_stream.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

class BlockPool;

class PoolUses {
 public:
  PoolUses(SpinLock* lock, const BlockPool* pool, const PoolStream* stream)
      : lock_(lock), pool_(pool), stream_(stream) {}
  ~PoolUses() { delete spare_.load(); }
  PoolUses(const PoolUses&) = delete;
  PoolUses& operator=(const PoolUses&) = delete;

  // Notes that work of `stream`, up to `point`, uses the live block that holds
  // `pointer`.  `open`: all later work of the stream until the free uses
  // the block too.  `end_counts`: a pointer to the end of a block uses that
  // block too (F17).  Answers kDone, kNotLive or kMoved.  Sets `*foreign` if a
  // block was given to another stream than `stream`.
  PoolAnswer Add(Segment* segment, const void* pointer, StreamRef stream,
                 const OrderPoint& point, bool open, bool end_counts,
                 bool* foreign) DEVRT_EXCLUDES(*lock_);
  // Adds uses that end at known points of their streams (api/known_uses.h).
  // `pointer` is the beginning of a block.
  PoolAnswer AddPoints(Segment* segment, const void* pointer,
                       absl::Span<const StreamUse> uses) DEVRT_EXCLUDES(*lock_);

  // Takes the uses of a block that was freed.
  void Recycle(std::unique_ptr<BlockUses> uses);

  struct LiveBlock {
    void* base;
    uint64_t requested;
    uint64_t id;
    uint64_t site;
    // The stream that the block was given to; empty if the stream has ended.
    std::optional<StreamRef> stream;
  };
  // The live block that holds `pointer`.
  std::optional<LiveBlock> Find(Segment* segment, const void* pointer)
      DEVRT_EXCLUDES(*lock_);
  // For messages: where the program last freed the block that began at
  // `pointer`; an empty site if no block ever began there.
  CallSite FindFreed(Segment* segment, const void* pointer)
      DEVRT_EXCLUDES(*lock_);

 private:
  // The caller holds the lock.
  bool Holds(const Segment* segment, uintptr_t address) const;
  std::optional<StreamRef> StreamOf(const Block* block) const;

  // Uses without a point, from Recycle or new.
  std::unique_ptr<BlockUses> NewUses();

  std::atomic<BlockUses*> spare_{nullptr};
  SpinLock* const lock_;
  const BlockPool* const pool_;
  const PoolStream* const stream_;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_POOL_USES_H_
