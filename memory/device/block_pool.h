// SPDX-License-Identifier: Apache-2.0
//
// BlockPool: the segments, blocks and statistics of one stream on one device,
// under one lock that only the stream's own users take: the whole of an
// allocation or a free that needs nothing from outside.
//
//   AllocateMemory(s, n)                        FreeMemory(p)
//     stream record -> pool                       AddressMap -> segment -> pool
//     lock, gate                                  lock
//     pending? -> slow                            block live? uses? -> slow
//     FreeBlocks::Best, cut                       join with free neighbours
//     shard: count                                shard: count
//     unlock                                      unlock
//
// "Slow" leaves the lock, does what must be done without it
// (PendingFrees::Poll, Timeline::Checkpoint, DeviceAllocator::Recover), and
// begins again.  Where a new peak is reached the pool does its work again under
// all locks (ledger.h).
//
// The gate is looked at under the lock: a Shutdown that closed it and then
// counts under the locks (CountLive) sees a block, or the block's request sees
// the closed gate (C98).
//
// The pool of a stream hangs on the StreamRecord with the serial that it is
// for.  When the stream ends the pool goes on without one (End): blocks that
// are live come back to it, as of the stream's end, and what is free in it
// serves whoever is past its points of release.  A pool has one timeline for as
// long as it has segments.  It gets a new stream when that has the same
// timeline (a recycled one: it is behind all that the pool's blocks were used
// for), or when nothing is left in it (C100, F20).
//
// Blocks that pass to another stream:
//   a segment that is wholly free moves to the other pool (TakeSegment);
//   of one that is not a block is lent (`lent`): it stays in this pool's
//   segment, with an open mark of its holder's stream, and is free again here
//   once that has been passed.
//
// Lock: `lock_`.  Never two pools' at a time, except by Ledger.  No backend or
// hook under it; Timeline::IsPast is a leaf.  Memory is taken only for a new
// group in FreeBlocks, and for the fifth stream of a block's uses.

#ifndef DEVRT_MEMORY_DEVICE_BLOCK_POOL_H_
#define DEVRT_MEMORY_DEVICE_BLOCK_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "absl/types/span.h"
#include "devrt/streams/stream.h"
#include "memory/common/ledger.h"
#include "memory/common/spin_lock.h"
#include "memory/device/block.h"
#include "memory/device/block_uses.h"
#include "memory/device/free_blocks.h"
#include "memory/device/pages.h"
#include "runtime/internal/records.h"
#include "streams/internal/stream_record.h"
#include "streams/internal/timeline.h"

namespace devrt::internal {

// As programs know it (C100).
inline uint64_t StreamId(uint64_t serial) {
  return serial == kDefaultSerial ? 0 : serial;
}

// What a try under the lock came to.
enum class PoolAnswer {
  kDone,
  kClosed,   // the device takes no calls
  kNoBlock,  // nothing fits: DeviceAllocator::Recover
  kPending,  // PendingFrees::Poll, then again
  kUses,     // Free: the block is kClosing now and the caller's to settle
  kNotLive,  // Free: no live block begins there
  kMoved,    // the segment or the stream has another pool by now
};

struct PoolRequest {
  uint64_t size;  // a BlockSize
  uint64_t requested;
  uint64_t max_split_size;
  uint64_t site;        // of the history; 0: none
  bool polled = false;  // pending frees were looked at

  // Blocks of so many bytes and more may not serve it (oversize,
  // docs/semantics.md 3.3).
  uint64_t limit() const {
    if (size < max_split_size) return max_split_size;
    return size + kLargeSegment;
  }
};

struct PoolReturn {
  Segment* segment;
  void* pointer;
  const StreamRef* stream;  // nullptr: the holder's
  uint64_t site;            // PackSite
  uint64_t event_site = 0;  // of the history
  bool claim = false;       // kUses even if there are none
  bool plain = false;       // kUses changes nothing
  bool oversize = false;    // out: the block was one
};

// A segment that is wholly free, or pages of an expandable one that are, as it
// was seen under the lock.
struct FreeSegment {
  Segment* segment;
  BlockPool* pool;
  OrderPoint released;
  uint64_t bytes;
  uint64_t age;  // allocations of its pool since its last use
  uint32_t first_page = 0;
  uint32_t pages = 0;  // 0: the segment

  PageRun run() const { return {segment, first_page, pages}; }
};

class alignas(64) BlockPool {
 public:
  BlockPool(DeviceRecord* device, Ledger* ledger, uint32_t number)
      : device_(device), ledger_(ledger), number_(number) {
    ledger->Add(&lock_, &shard_);
  }
  BlockPool(const BlockPool&) = delete;
  BlockPool& operator=(const BlockPool&) = delete;

  // For a stream from now on; false if the pool has another one, or segments
  // of another timeline.
  bool Begin(StreamRef stream, Timeline* timeline) DEVRT_EXCLUDES(lock_);
  // The stream ended; all of its work is covered by `epoch` of its timeline.
  void End(uint64_t serial, uint64_t epoch) DEVRT_EXCLUDES(lock_);

  // `fresh`: a segment to add before, or nullptr; it is the pool's whatever the
  // answer is.
  PoolAnswer Allocate(StreamRef stream, const PoolRequest& request,
                      Segment* fresh, void** pointer) DEVRT_EXCLUDES(lock_);
  // `*block` is set for kUses.
  PoolAnswer Free(PoolReturn* request, Block** block) DEVRT_EXCLUDES(lock_);
  // A block that was kClosing or kPending: its uses are over.  True if it is
  // an oversize one.
  bool Settle(Block* block) DEVRT_EXCLUDES(lock_);
  // kClosing -> kPending: counted as freed, still active.
  void Wait(Block* block) DEVRT_EXCLUDES(lock_);

  // Work of `stream` that was enqueued just now uses the live block that holds
  // `pointer`; `open`: and so does what will be, up to the free.  `end_counts`:
  // the end of a block is in it (F17).  kDone, kNotLive or kMoved; `*foreign`
  // is set if any of it was off the block's own stream.
  PoolAnswer AddUse(Segment* segment, const void* pointer, StreamRef stream,
                    Timeline* timeline, bool open, bool end_counts,
                    bool* foreign) DEVRT_EXCLUDES(lock_);
  // See AddKnownUses; `pointer` is the beginning of a block.
  PoolAnswer AddPoints(Segment* segment, const void* pointer,
                       absl::Span<const StreamUse> uses) DEVRT_EXCLUDES(lock_);
  // True if nothing is to be noted for uses on `stream` of any block here.
  bool IsOwn(StreamRef stream) const {
    return serial_.load(std::memory_order_relaxed) == stream.serial() &&
           lent_.load(std::memory_order_relaxed) == 0 &&
           stream.record()->device == device_;
  }

  // The live block that holds `pointer`.
  struct Found {
    void* base;
    uint64_t requested;
    uint64_t id;
    uint64_t site;
  };
  std::optional<Found> Find(Segment* segment, const void* pointer)
      DEVRT_EXCLUDES(lock_);
  // The same, with the stream that it was handed out on, if that lives.
  struct Holder : Found {
    std::optional<StreamRef> stream;
  };
  std::optional<Holder> FindHolder(Segment* segment, const void* pointer)
      DEVRT_EXCLUDES(lock_);
  // For messages: where the block that began at `pointer` was freed last; an
  // empty site if none ever began there.
  CallSite FindFreed(Segment* segment, const void* pointer)
      DEVRT_EXCLUDES(lock_);

  // Segments that are wholly free, and pages.
  void ListFree(std::vector<FreeSegment>* list) DEVRT_EXCLUDES(lock_);
  // Takes that one out if it still is as it was seen; pages are busy then.
  // Nothing if `*kept`, which is looked at under the lock: what an allocation
  // has used since the list was made may look as it was seen.
  bool Take(const FreeSegment& segment, const std::atomic<bool>* kept)
      DEVRT_EXCLUDES(lock_);
  // Takes out a segment that is wholly free, fits, and whose block was released
  // before what `taker` does next; nullptr if there is none.  With `room` for
  // more a pool keeps its small ones while it is at work: one that kTurns times
  // had to ask again after it was taken from, until it is asked kAsks times
  // with no allocation in between.  Else threads that all allocate little would
  // take one another's for ever.
  Segment* TakeSegment(const PoolRequest& request, const Timeline* taker,
                       bool room) DEVRT_EXCLUDES(lock_);
  // Lends a block to `stream` on the same condition; looks at kLooks blocks.
  PoolAnswer Lend(StreamRef stream, Timeline* taker, const PoolRequest& request,
                  void** pointer) DEVRT_EXCLUDES(lock_);
  // Expandable segments (pages.h).  Addresses for this pool, nothing behind
  // them.
  void AdoptAddresses(Segment* segment) DEVRT_EXCLUDES(lock_);
  // Holes that make room for the request, together with what is free beside
  // them: busy now.  False where no segment has that many.
  bool ReservePages(const PoolRequest& request, PageRun* run)
      DEVRT_EXCLUDES(lock_);
  // There is memory behind the busy pages now: a free block.
  void AddPages(const PageRun& run) DEVRT_EXCLUDES(lock_);
  // There is none (any more): holes, but for pages that still have a chunk,
  // which nobody can use.  True if the segment has none at all and was taken
  // out.
  bool EndPages(const PageRun& run) DEVRT_EXCLUDES(lock_);

  // Takes all segments out, whatever is in them: the device's memory is gone.
  void Drop(std::vector<Segment*>* segments) DEVRT_EXCLUDES(lock_);

  uint32_t number() const { return number_; }
  // Whether a block that comes back now may be released as of its stream's
  // present epoch although `point` may not be complete.  Not while the pool has
  // no stream: blocks come back as of that stream's end, and what its native
  // stream waits for later, under another serial, is not in that.
  bool IsPast(const OrderPoint& point) DEVRT_EXCLUDES(lock_);
  // Its stream, if it has not ended.
  std::optional<StreamRef> stream() DEVRT_EXCLUDES(lock_);
  Timeline* timeline() DEVRT_EXCLUDES(lock_);
  // Blocks of users, for Shutdown (C98).
  int64_t CountLive() DEVRT_EXCLUDES(lock_);
  // Nobody's, nothing in it.
  bool IsBlank() DEVRT_EXCLUDES(lock_);
  // A hint, read without the lock: whether looking here can be of use.
  uint64_t free_bytes() const {
    return free_bytes_.load(std::memory_order_relaxed);
  }
  // Runs `visit(segment)` for each segment; the caller holds all locks
  // (Ledger::Exclusive).
  template <typename Visit>
  void VisitSegments(Visit visit) const
      DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
    for (const Segment* segment : segments_) visit(*segment);
  }
  // Blocks that went back at their free.
  uint64_t CountFrees() DEVRT_EXCLUDES(lock_) {
    SpinLockHolder hold(&lock_);
    return frees_;
  }
  // The stream that it is or was for; under all locks.
  uint64_t serial() const { return serial_.load(std::memory_order_relaxed); }

 private:
  static constexpr int kLooks = 8;
  static constexpr uint32_t kAsks = 32;
  static constexpr uint32_t kTurns = 8;

  // Whether it is asked for a small segment while it is at work.
  bool KeepsSmall() DEVRT_REQUIRES(lock_);

  // `all`: every lock is held, and counting cannot fail.  False: it is needed.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Count(Row row, const Change& change,
                                          Ledger::Exclusive* all)
      DEVRT_REQUIRES(lock_) {
    if (ABSL_PREDICT_TRUE(all == nullptr && shard_.Apply(row, change))) {
      return true;
    }
    return CountSlowly(row, change, all);
  }
  bool CountSlowly(Row row, Change change, Ledger::Exclusive* all)
      DEVRT_REQUIRES(lock_);
  // Calls `work(nullptr)` under the lock, and `work(all)` under all locks if it
  // could not count.
  template <typename Work>
  ABSL_ATTRIBUTE_ALWAYS_INLINE void UnderLock(Work work)
      DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
    for (int turn = 0;;) {
      {
        SpinLockHolder hold(&lock_);
        if (ABSL_PREDICT_TRUE(work(nullptr))) return;
      }
      Ledger::Exclusive all(ledger_, &turn);
      if (!all.held()) continue;
      work(&all);
      return;
    }
  }

  // For the history, if there is one.
  void Tell(MemoryAction action, const void* pointer, uint64_t bytes,
            uint64_t stream, uint64_t site) const {
    HistoryRing* const history = ledger_->history();
    if (ABSL_PREDICT_TRUE(history == nullptr)) return;
    history->Add(action, pointer, bytes, StreamId(stream), site);
  }
  // Where the block was handed out.
  uint64_t HolderOf(const Block* block) const DEVRT_REQUIRES(lock_) {
    return block->lent ? block->held.stream_serial : serial();
  }

  Block* Best(const PoolRequest& request) const DEVRT_REQUIRES(lock_);
  // Here, free from end to end, and large enough: between two tries the record
  // may have become another segment's.
  bool Serves(const Segment* segment, const PoolRequest& request) const
      DEVRT_REQUIRES(lock_) {
    return segment->pool.load(std::memory_order_relaxed) == this &&
           segment->table->use == BlockUse::kFree &&
           segment->table->bytes() == segment->bytes() &&
           segment->small == IsSmall(request.size) &&
           segment->bytes() >= request.size;
  }
  void Insert(Block* block) DEVRT_REQUIRES(lock_);
  void Remove(Block* block) DEVRT_REQUIRES(lock_);
  void Adopt(Segment* segment) DEVRT_REQUIRES(lock_);
  void TakeOut(Segment* segment) DEVRT_REQUIRES(lock_);
  void List(Segment* segment) DEVRT_REQUIRES(lock_);
  void Unlist(Segment* segment) DEVRT_REQUIRES(lock_);
  void ListFreePages(Segment* segment, std::vector<FreeSegment>* list)
      DEVRT_REQUIRES(lock_);
  bool TakePages(const FreeSegment& seen) DEVRT_REQUIRES(lock_);
  // False, and nothing changed, when it cannot be counted.
  bool HandOut(Block* block, const PoolRequest& request, BlockUses* uses,
               Ledger::Exclusive* all) DEVRT_REQUIRES(lock_);
  // Free again, joined with its neighbours; likewise.
  bool Return(Block* block, Ledger::Exclusive* all) DEVRT_REQUIRES(lock_);
  bool IsReleasedFor(const Block* block, const Timeline* taker) const
      DEVRT_REQUIRES(lock_);
  // The live block that holds `pointer`, or nullptr.
  const Block* FindLive(const Segment* segment, const void* pointer) const
      DEVRT_REQUIRES(lock_);
  static Found Describe(const Block* block) {
    return {block->address(), block->held.requested, block->mark,
            block->held.site};
  }
  // Whether `block` was handed out on `stream`.
  bool IsHolder(const Block* block, StreamRef stream) const
      DEVRT_REQUIRES(lock_);
  uint64_t Now() const DEVRT_REQUIRES(lock_) {
    return end_epoch_ != 0 ? end_epoch_ : timeline_->Now();
  }

  // First what an allocation and a free need.
  SpinLock lock_;
  std::atomic<uint32_t> lent_{0};    // blocks
  std::atomic<uint64_t> serial_{0};  // changes under the lock
  Timeline* timeline_ DEVRT_GUARDED_BY(lock_) = nullptr;
  StreamRecord* record_ DEVRT_GUARDED_BY(lock_) = nullptr;
  uint64_t end_epoch_ DEVRT_GUARDED_BY(lock_) = 0;  // 0: the stream lives
  uint64_t clock_ DEVRT_GUARDED_BY(lock_) = 0;      // allocations so far
  uint64_t frees_ DEVRT_GUARDED_BY(lock_) = 0;
  int64_t live_ DEVRT_GUARDED_BY(lock_) = 0;
  int64_t pending_ DEVRT_GUARDED_BY(lock_) = 0;  // blocks of PendingFrees
  std::atomic<uint64_t> free_bytes_{0};          // changes under the lock
  // See TakeSegment.
  uint64_t asked_at_ DEVRT_GUARDED_BY(lock_) = 0;  // its clock then
  uint32_t asks_ DEVRT_GUARDED_BY(lock_) = 0;      // since
  uint32_t turns_ DEVRT_GUARDED_BY(lock_) = 0;     // taken from, asked again
  bool was_taken_from_ DEVRT_GUARDED_BY(lock_) = false;
  DeviceRecord* const device_;
  Ledger* const ledger_;
  const uint32_t number_;
  LedgerShard shard_ DEVRT_GUARDED_BY(lock_);
  SmallFreeBlocks small_ DEVRT_GUARDED_BY(lock_);
  LargeFreeBlocks large_ DEVRT_GUARDED_BY(lock_);
  std::vector<Segment*> segments_ DEVRT_GUARDED_BY(lock_);
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_BLOCK_POOL_H_
