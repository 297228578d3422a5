// SPDX-License-Identifier: Apache-2.0
//
// PendingFrees: blocks that were freed while work still uses them.
//
// A block waits for one of its uses at a time, in the queue of that use's
// timeline.  When the use is complete, the block goes to the queue of its next
// use, or back to its pool.  So a stream that is stuck holds back only the
// blocks that it uses (F9), and a poll costs one query for each stream that
// blocks wait for, however many blocks there are.
//
// A queue is a heap by epoch, because a block that is freed later may wait for
// an earlier use (a use has the epoch of its submission, F15).
//
// The allocators of device memory and of pinned memory have one object each.
//
// Order: a block is added after the events of its uses were recorded (F18).
// Lock: `mutex_`, a leaf; no timeline and no pool is called under it.

#ifndef DEVRT_MEMORY_DEVICE_PENDING_FREES_H_
#define DEVRT_MEMORY_DEVICE_PENDING_FREES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "devrt/runtime/mutex.h"
#include "memory/device/block_uses.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

class BlockPool;

struct PendingFree {
  void* block = nullptr;  // Block or PinnedBlock
  // The pool that the block goes back to; may be null.  A use is not waited for
  // if the pool's stream comes after it (BlockPool::IsPast).
  BlockPool* home = nullptr;
  StreamUses uses;
};

// Waits until the work up to `point` is over.  Does not wait for work that is
// submitted later: it queries with pauses, because a wait of the driver would
// include later work.  If no query is possible (Timeline::IsOutOfReach), it
// waits for the device once.
//
// Gives up, and returns the reason, if another query may never help:
//   - the query of the stream, or of an event behind the work, failed
//   - that event cannot be made
//   - another library captures the stream (the caller may be the thread that
//     ends the capture)
//   - only a wait for the device would help, and a stream of it is captured
//   - the device accepts no calls
// The work then counts as running until a later look sees its end.
absl::Status WaitFor(const OrderPoint& point);

class PendingFrees {
 public:
  // Called with a block whose uses are over, with no lock held.
  using Settle = void (*)(void* block);
  explicit PendingFrees(Settle settle) : settle_(settle) {}
  PendingFrees(const PendingFrees&) = delete;
  PendingFrees& operator=(const PendingFrees&) = delete;

  // Removes uses that are complete, or that the stream of `home` comes after.
  // Returns true if none is left: the caller then settles the block.
  static bool IsOver(PendingFree* item);
  // Settles the block when its uses are over.  There is at least one (IsOver).
  void Add(PendingFree item) DEVRT_EXCLUDES(mutex_);

  // Polls at most `most` of the timelines that have a queue, beginning behind
  // the last one polled, and settles the blocks whose uses are over.  Returns
  // true if a block was settled.  `once`: asks about the oldest use of a
  // timeline first, and about the others only if that one is over.  Records the
  // checkpoints that frees have left to later calls (PollPace).  `answered`, if
  // not nullptr: set if an answer of the driver settled a block.
  bool Poll(size_t most, bool once = false, bool* answered = nullptr)
      DEVRT_EXCLUDES(mutex_);

  // Waits for all blocks that are here now (the step "wait" of
  // docs/reference/semantics.md 2.6), and until blocks that other threads took
  // out are settled.  Returns the first reason for which WaitFor gave up; the
  // block of such a wait stays here.
  absl::Status WaitForAll() DEVRT_EXCLUDES(mutex_);

  // Takes all blocks out without settling them: the device's memory is gone.
  std::vector<void*> TakeAll() DEVRT_EXCLUDES(mutex_);

  // For snapshots: the ids of the streams whose uses each block waits for.
  using Waits = absl::flat_hash_map<const void*, std::vector<uint64_t>>;
  Waits List() DEVRT_EXCLUDES(mutex_);

  // False also while a block that was taken out is not settled yet.
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }

 private:
  // A block, with the use that its queue is about, and the uses that it waits
  // for afterwards; nullptr: none.
  struct Entry {
    uint64_t epoch;
    uint64_t stream;
    void* block;
    BlockPool* home;
    std::unique_ptr<StreamUses> others;
  };
  struct Queue {
    std::vector<Entry> heap;  // the least epoch first
    uint64_t newest = 0;      // the greatest epoch so far
  };
  using Taken = absl::InlinedVector<Entry, 16>;

  // A timeline that Poll asks, and about which epochs.
  struct Turn {
    Timeline* timeline;
    uint64_t oldest;
    uint64_t newest;
  };
  absl::InlinedVector<Turn, 4> NextTurns(size_t most) DEVRT_EXCLUDES(mutex_);
  // Returns true if more work is known to be complete.
  static bool Query(const Turn& turn, bool once);
  // Takes out the blocks whose use on `timeline` is complete.
  Taken TakeComplete(Timeline* timeline) DEVRT_EXCLUDES(mutex_);
  // The points of all blocks here.  Waits until no other thread has a block
  // between TakeComplete and its next queue or pool.
  std::vector<OrderPoint> Points() DEVRT_EXCLUDES(mutex_);

  void AddToCount(ptrdiff_t change) DEVRT_REQUIRES(mutex_) {
    count_.store(
        count_.load(std::memory_order_relaxed) + static_cast<size_t>(change),
        std::memory_order_relaxed);
  }

  const Settle settle_;
  std::atomic<size_t> count_{0};  // changes under the lock
  Mutex mutex_;
  // Empty ones stay: the next block of the timeline needs no host memory.
  absl::flat_hash_map<Timeline*, Queue> queues_ DEVRT_GUARDED_BY(mutex_);
  // Those that are not empty, as Poll asks.
  std::vector<Timeline*> order_ DEVRT_GUARDED_BY(mutex_);
  size_t next_ DEVRT_GUARDED_BY(mutex_) = 0;
  size_t taken_ DEVRT_GUARDED_BY(mutex_) = 0;  // and not yet settled
  // The calling thread's part of `taken_`, over all objects of this class.
  static inline thread_local size_t t_taken_ = 0;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_PENDING_FREES_H_
