// SPDX-License-Identifier: Apache-2.0
//
// PendingFrees: blocks that were freed while work still uses them.
//
// A block waits for one of its uses at a time, in the queue of that use's
// timeline; when that is complete it goes to the queue of the next, or back to
// its pool.  A stream that is stuck therefore holds back what it uses and
// nothing else (F9), and a poll costs one query for each stream that somebody
// waits for, however many blocks there are.
//
// A queue is a heap by epoch: a block freed later may wait for an earlier use
// (uses are versioned at their submission, F15).
//
// Device and pinned blocks have one of these each; Item says what to do.
//
// Order: a block comes here after the events of its uses were recorded (F18).
// Lock: `mutex_`, a leaf; neither timelines nor pools are called under it.

#ifndef DEVRT_MEMORY_COMMON_PENDING_FREES_H_
#define DEVRT_MEMORY_COMMON_PENDING_FREES_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "devrt/runtime/mutex.h"
#include "memory/device/block_uses.h"
#include "streams/internal/timeline.h"

namespace devrt::internal {

class BlockPool;

struct PendingFree {
  void* block = nullptr;  // Block or PinnedBlock
  // Not needed are uses that this is past (BlockPool::IsPast); may be null.
  BlockPool* home = nullptr;
  StreamUses uses;
};

// Waits until the work is over, and for no work that is submitted after the
// wait has begun.  Asks again and again and sleeps between the questions,
// because every wait of the driver's would cover younger work too.
// Where no question is left (Timeline::IsOutOfReach), waits for the device
// once.
//
// Gives up, with the reason, where asking again need not ever help: the query
// of the stream or of an event behind the work failed, that event cannot be
// made, another library captures the stream (the caller may be
// the thread that ends the capture), the device would have to be waited for
// while one of its streams is captured, or the device takes no calls.  The work
// then counts as running until a later look sees its end.
absl::Status WaitFor(const OrderPoint& point);

class PendingFrees {
 public:
  // What is done with a block whose uses are over; no lock held.
  using Settle = void (*)(void* block);
  explicit PendingFrees(Settle settle) : settle_(settle) {}
  PendingFrees(const PendingFrees&) = delete;
  PendingFrees& operator=(const PendingFrees&) = delete;

  // Drops uses that are complete, or that `home` is past.  True if none is
  // left: the block is the caller's to settle.
  static bool IsOver(PendingFree* item);
  // Settles the block at once, or when its uses are over.
  void Add(PendingFree item) DEVRT_EXCLUDES(mutex_);

  // Settles what has become free: asks each timeline that has a queue once, at
  // most `most` of them, beginning behind the last one that was asked.  True if
  // anything was settled.
  bool Poll(size_t most) DEVRT_EXCLUDES(mutex_);

  // Waits for everything that is here now: the step "wait" of
  // docs/semantics.md 2.6.  What other threads took out is settled by then,
  // too.  The first reason why WaitFor gave up on a block, which stays here
  // then; OK if none did.
  absl::Status WaitForAll() DEVRT_EXCLUDES(mutex_);

  // Takes everything out without settling it: a device whose memory goes.
  std::vector<void*> TakeAll() DEVRT_EXCLUDES(mutex_);

  // For snapshots: the streams whose uses each block waits for, by their ids.
  using Waits = absl::flat_hash_map<const void*, std::vector<uint64_t>>;
  Waits List() DEVRT_EXCLUDES(mutex_);

  // Not while a block that was taken out has yet to be settled.
  bool empty() const { return count_.load(std::memory_order_relaxed) == 0; }

 private:
  struct Entry {
    uint64_t epoch;
    uint64_t stream;
    PendingFree item;
  };
  using Queue = std::vector<Entry>;  // a heap, the least epoch first

  // The timelines to ask, at most `most`.
  std::vector<Timeline*> NextTimelines(size_t most) DEVRT_EXCLUDES(mutex_);
  // Takes out what waits for no more than what is complete on `timeline`.
  std::vector<PendingFree> TakeComplete(Timeline* timeline)
      DEVRT_EXCLUDES(mutex_);
  // All points of what is here, when no other thread has anything between
  // TakeComplete and its queue or pool.
  std::vector<OrderPoint> Points() DEVRT_EXCLUDES(mutex_);

  const Settle settle_;
  std::atomic<size_t> count_{0};
  Mutex mutex_;
  absl::flat_hash_map<Timeline*, Queue> queues_ DEVRT_GUARDED_BY(mutex_);
  std::vector<Timeline*> order_ DEVRT_GUARDED_BY(mutex_);  // of Poll
  size_t next_ DEVRT_GUARDED_BY(mutex_) = 0;
  size_t taken_ DEVRT_GUARDED_BY(mutex_) = 0;  // and not yet settled
  // The calling thread's part of it, of all objects of this class.
  static inline thread_local size_t t_taken_ = 0;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_COMMON_PENDING_FREES_H_
