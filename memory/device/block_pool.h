// SPDX-License-Identifier: Apache-2.0
//
// BlockPool: the memory and the statistics of one stream on one device, under
// one lock.  An allocation or a free that needs no other pool and no driver is
// done under that lock alone:
//
//   AllocateMemory(s, n)                      FreeMemory(p)
//     stream record -> pool                     AddressMap -> segment -> pool
//     lock, gate                                lock
//     pending frees? -> slow path               live? other uses? -> slow path
//     best free block, cut                      join with free neighbours
//     count in the shard                        count in the shard
//     unlock                                    unlock
//
// The slow path gives the lock up, does what must be done without it
// (PendingFrees::Poll, Timeline::Checkpoint, Recovery), and begins again.
// A change that reaches a new peak waits until all other pools are at rest
// (ledger.h).  It is counted before anything else changes.
//
// The gate is read under the lock.  Shutdown closes the gate and then counts
// live blocks under the locks (CountLive): either it counts the block, or the
// request finds the gate closed (C98).
//
// The parts of a pool, all guarded by its lock:
//   PoolStream     the stream, and when blocks were released
//   PoolSegments   the segments and the free blocks
//   PoolPages      pages of expandable segments
//   PoolUses       look-ups of live blocks, and their uses by other streams
//   PoolKeeper     whether small segments go to other pools
//
// The stream's record points to the pool, with the serial that the pool is for.
// A pool outlives its stream: live blocks come back to it as of the end of the
// stream, and its free memory serves streams that are past the points of
// release.  All free blocks of a pool have points of release on one timeline.
// So a pool serves a new stream only if that stream has the same timeline (a
// recycled native stream, which runs behind all earlier uses), or if the pool
// has no segment (C100, F20).
//
// Memory passes to another stream in two ways:
//   TakeSegment  a segment without a live block moves to the other pool
//   Lend         a block of a segment in use is lent: it stays in this pool's
//                segment with an open use of the borrower, and is free again
//                here once the borrower's work on it is over
//
// Lock: `lock_`.  Only the Ledger holds the locks of two pools at a time.  No
// backend and no hook is called under it; Timeline::IsPast is a leaf.  The host
// allocates memory under it only for a new group in FreeBlocks and for the
// fifth stream that uses a block.

#ifndef DEVRT_MEMORY_DEVICE_BLOCK_POOL_H_
#define DEVRT_MEMORY_DEVICE_BLOCK_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "devrt/streams/stream.h"
#include "memory/common/ledger.h"
#include "memory/common/pool_keeper.h"
#include "memory/common/spin_lock.h"
#include "memory/device/block.h"
#include "memory/device/block_uses.h"
#include "memory/device/poll_pace.h"
#include "memory/device/pool_pages.h"
#include "memory/device/pool_request.h"
#include "memory/device/pool_segments.h"
#include "memory/device/pool_stream.h"
#include "memory/device/pool_uses.h"
#include "runtime/registry/records.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

// The number of a stream that programs see (C100).
inline uint64_t StreamId(uint64_t serial) {
  return serial == kDefaultSerial ? 0 : serial;
}

class alignas(64) BlockPool {
 public:
  BlockPool(DeviceRecord* device, Ledger* ledger, uint32_t number)
      : stream_(device),
        segments_(this),
        ledger_(ledger),
        number_(number),
        pages_(&lock_, &segments_, &stream_),
        uses_(&lock_, this, &stream_) {
    ledger->Add(&lock_, &shard_);
  }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // ---- Allocation and free --------------------------------------------------

  // `fresh`: a segment that the pool adopts first, whatever the answer is;
  // nullptr: none.
  PoolAnswer Allocate(StreamRef stream, const PoolRequest& request,
                      Segment* fresh, void** pointer) DEVRT_EXCLUDES(lock_);
  // Called after the poll that the answer kPending asks for.  `answered`: an
  // answer of the driver settled a block.
  void NotePoll(bool answered) DEVRT_EXCLUDES(lock_);
  // Sets `*block` for kUses.
  PoolAnswer Free(PoolReturn* request, Block** block) DEVRT_EXCLUDES(lock_);
  // Makes a block free that is kClosing or kPending; its uses are over.
  // Returns true if the block is oversize.
  bool Settle(Block* block) DEVRT_EXCLUDES(lock_);
  // Turns kClosing into kPending: counted as freed, and still active.
  void MarkPending(Block* block) DEVRT_EXCLUDES(lock_);

  // ---- The stream -----------------------------------------------------------

  // Makes the pool serve `stream`.  Returns false if it serves another stream,
  // or has segments and another timeline.
  bool BeginStream(StreamRef stream, Timeline* timeline) DEVRT_EXCLUDES(lock_);
  // Notes that the stream has ended.  `epoch` of its timeline covers all of its
  // work.
  void EndStream(uint64_t serial, uint64_t epoch) DEVRT_EXCLUDES(lock_);
  // The stream, if it has not ended.
  std::optional<StreamRef> stream() DEVRT_EXCLUDES(lock_);
  // The place of the stream among those of StreamPools, which sets it.
  uint64_t order() const { return order_.load(std::memory_order_relaxed); }
  void set_order(uint64_t order) {
    order_.store(order, std::memory_order_relaxed);
  }
  Timeline* timeline() DEVRT_EXCLUDES(lock_);
  // True if no use of any block here by `stream` has to be noted.
  bool IsOwn(StreamRef stream) const
      DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
    return stream_.serial() == stream.serial() &&
           lent_.load(std::memory_order_relaxed) == 0 &&
           stream.record()->device == stream_.device();
  }
  // True if a block that comes back now may count as released at its stream's
  // present epoch although `point` may not be complete.  False while the pool
  // has no stream: a returned block then counts as released when the last
  // stream ended, which does not cover what its native stream waits for later.
  bool IsPast(const OrderPoint& point) DEVRT_EXCLUDES(lock_);

  // ---- Memory for other pools and for the driver ----------------------------

  // Takes out a segment without a live block that fits the request and was
  // released before what `taker` does next; nullptr if there is none.  `room`
  // says that the device has memory left: the pool may then keep its small
  // segments (PoolKeeper).  `best`: takes only the one that fits best.
  Segment* TakeSegment(const PoolRequest& request, const Timeline* taker,
                       bool room, bool best) DEVRT_EXCLUDES(lock_);
  // Lends a block to `stream` under the same condition.
  PoolAnswer Lend(StreamRef stream, Timeline* taker, const PoolRequest& request,
                  void** pointer) DEVRT_EXCLUDES(lock_);
  // Appends the segments and pages without a live block.
  void ListFree(std::vector<FreeSegment>* list) DEVRT_EXCLUDES(lock_);
  // Takes out a segment or pages that ListFree found, if they have not changed
  // since.  Pages then become busy.  Takes nothing if `*kept` is true.  `*kept`
  // is read under the lock, because a block that was allocated and freed since
  // ListFree leaves its segment looking unchanged.
  bool RemoveIfUnchanged(const FreeSegment& segment,
                         const std::atomic<bool>* kept) DEVRT_EXCLUDES(lock_);
  // Takes all segments out, whatever is in them: the device's memory is gone.
  void RemoveAll(std::vector<Segment*>* segments) DEVRT_EXCLUDES(lock_);

  PoolPages& pages() { return pages_; }
  PoolUses& uses() { return uses_; }

  // ---- Figures --------------------------------------------------------------

  uint32_t number() const { return number_; }
  // Live blocks, for Shutdown (C98).
  int64_t CountLive() DEVRT_EXCLUDES(lock_);
  // True if the pool has no stream and no segment.
  bool IsUnused() DEVRT_EXCLUDES(lock_);
  // Blocks that were free at once when the program freed them, so far.
  uint64_t CountFrees() DEVRT_EXCLUDES(lock_);
  // Read without the lock: a hint whether a search here can succeed.
  uint64_t free_bytes() const
      DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
    return segments_.free_bytes();
  }
  // Both are for a caller for whom all pools are at rest (Ledger::Exclusive).
  template <typename Visit>
  void VisitSegments(Visit visit) const
      DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
    for (const Segment* segment : segments_.all()) visit(*segment);
  }
  uint64_t serial() const DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
    return stream_.serial();
  }

 private:
  // TakeSegment and Lend try this many free blocks.
  static constexpr int kMostTried = 8;

  ABSL_ATTRIBUTE_ALWAYS_INLINE void Count(Row row, const Change& change)
      DEVRT_REQUIRES(lock_) {
    if (ABSL_PREDICT_FALSE(!shard_.Apply(row, change))) {
      CountSlowly(row, change);
    }
  }
  void CountSlowly(Row row, Change change) DEVRT_REQUIRES(lock_);

  // Adds an event to the history, if that is on.
  void AddToHistory(MemoryAction action, const void* pointer, uint64_t bytes,
                    uint64_t stream, uint64_t site) const {
    HistoryRing* const history = ledger_->history();
    if (ABSL_PREDICT_TRUE(history == nullptr)) return;
    history->Add(action, pointer, bytes, StreamId(stream), site);
  }

  // Makes a free block live; `uses` becomes the block's.
  void HandOut(Block* block, const PoolRequest& request, BlockUses* uses)
      DEVRT_REQUIRES(lock_);
  // Makes a block free and joins it with its free neighbours.
  void MakeFree(Block* block) DEVRT_REQUIRES(lock_);
  // Makes a block kClosing that was freed while other streams may use it.
  void BeginClosing(Block* block, const PoolReturn& request)
      DEVRT_REQUIRES(lock_);
  // Returns true if the request shall ask about pending frees.  `block`: what
  // fits it; nullptr: nothing does.
  bool ShallPoll(const PoolRequest& request, const Block* block)
      DEVRT_REQUIRES(lock_);
  // True if the block was released before what `taker` does next.
  bool IsReleasedFor(const Block* block, const Timeline* taker) const
      DEVRT_REQUIRES(lock_);
  // The best of the first `most` free blocks that fit, are released for
  // `taker`, and are a whole segment if `whole`; nullptr if there is none.
  Block* FindReleased(const PoolRequest& request, const Timeline* taker,
                      bool whole, int most) const DEVRT_REQUIRES(lock_);

  // The first cache line has what every allocation and free needs.
  SpinLock lock_;
  std::atomic<uint32_t> lent_{0};  // blocks
  PoolStream stream_ DEVRT_GUARDED_BY(lock_);
  std::atomic<uint64_t> order_{0};
  int64_t live_ DEVRT_GUARDED_BY(lock_) = 0;
  int64_t pending_ DEVRT_GUARDED_BY(lock_) = 0;  // blocks in PendingFrees
  uint64_t frees_ DEVRT_GUARDED_BY(lock_) = 0;
  PoolSegments segments_ DEVRT_GUARDED_BY(lock_);
  PoolKeeper keeper_ DEVRT_GUARDED_BY(lock_);
  PollPace pace_ DEVRT_GUARDED_BY(lock_);
  Ledger* const ledger_;
  const uint32_t number_;
  LedgerShard shard_ DEVRT_GUARDED_BY(lock_);
  PoolPages pages_;
  PoolUses uses_;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_BLOCK_POOL_H_
