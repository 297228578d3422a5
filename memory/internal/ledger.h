// SPDX-License-Identifier: Apache-2.0
//
// The statistics of a device, kept by many threads that do not meet, with peaks
// that are true all the same.
//
// Each BlockPool has a shard under its own lock.  A shard's `current` may not
// pass its `lease`; what the shards have leased, together with `spare`, is
// exactly the peak:
//
//   L1. current[m] <= lease[m] in every shard
//   L2. sum over shards of lease[m] + spare[m] == peak[m], spare[m] >= 0
//
// So as long as every shard keeps to its lease no new peak is possible, and
// nobody needs to look.  A pool that needs more, before it does anything:
//
//   1. gives up its lock and takes from `spare` (one atomic word a metric);
//   2. if that is not enough, Collect: takes the locks of all shards, in order
//      of their numbers, and calls in what they have leased and do not use;
//   3. if the true total and the need pass the peak, they are the new peak.
//
// Then it tries again.  Extend takes the need and an equal share of what is
// spare, never more: a pool that took all would be collected from by the next
// (decision 12 has the figures).  A shard keeps what it has until somebody
// collects.  A pool whose total goes up and down alone never asks again.
//
// Peaks of segments, reserved bytes and oversize figures change with calls to
// the driver only; they are counted centrally under `mutex_`.
//
// Reading takes all locks as Collect does, so that the figures are of one
// moment.  `freed` is not stored: it is allocated - current, always (3.3).
//
// Locks: `mutex_` before the pools' locks, those in order of their numbers.

#ifndef DEVRT_MEMORY_INTERNAL_LEDGER_H_
#define DEVRT_MEMORY_INTERNAL_LEDGER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "devrt/memory/statistics.h"
#include "devrt/runtime/mutex.h"

namespace devrt::internal {

class BlockPool;

// Lanes of a row.  Eight, so that a row is a line of the cache.
enum Metric : size_t {
  kAllocation,
  kActive,
  kAllocatedBytes,
  kActiveBytes,
  kRequestedBytes,
  kSplits,
  kSplitBytes,
  kUnusedMetric,
  kMetrics,
};
enum Row : size_t { kSmallRow, kLargeRow, kAllRow, kRows };

// What one call changes, in one of the first two rows.  `up` is what grew,
// apart from what shrank: a cut is one free part less and one more.
struct Change {
  int64_t up[kMetrics] = {};
  int64_t down[kMetrics] = {};
};

struct alignas(64) LedgerShard {
  int64_t current[kRows][kMetrics] = {};
  int64_t lease[kRows][kMetrics] = {};
  int64_t allocated[kRows - 1][kMetrics] = {};  // kAllRow is their sum

  // False, and nothing done, when a lease is too short.  Without branches:
  // eight lanes, two rows.
  bool Apply(Row row, const Change& c) {
    int64_t missing = 0;
    for (size_t m = 0; m < kMetrics; ++m) {
      const int64_t net = c.up[m] - c.down[m];
      missing |= lease[row][m] - (current[row][m] + net);
      missing |= lease[kAllRow][m] - (current[kAllRow][m] + net);
    }
    if (missing < 0) return false;
    for (size_t m = 0; m < kMetrics; ++m) {
      const int64_t net = c.up[m] - c.down[m];
      current[row][m] += net;
      current[kAllRow][m] += net;
      allocated[row][m] += c.up[m];
    }
    return true;
  }
};

class Ledger {
 public:
  // Numbers the pool; pools are never taken out.
  void Add(BlockPool* pool) DEVRT_EXCLUDES(mutex_);
  // Lengthens the leases of `pool` so that `change` fits.  The caller holds no
  // lock.
  void Extend(BlockPool* pool, Row row, const Change& change)
      DEVRT_EXCLUDES(mutex_);

  // Central figures; `bytes` < 0 for what goes back.
  void CountSegment(Row row, int64_t bytes, bool oversize)
      DEVRT_EXCLUDES(mutex_);
  void CountOversizeAllocation(int64_t count) DEVRT_EXCLUDES(mutex_);

  MemoryStatistics Read() const DEVRT_EXCLUDES(mutex_);
  void ResetPeak() DEVRT_EXCLUDES(mutex_);
  void ResetAccumulated() DEVRT_EXCLUDES(mutex_);

  std::atomic<int64_t> num_alloc_retries{0};
  std::atomic<int64_t> num_ooms{0};
  std::atomic<int64_t> num_sync_all_streams{0};
  std::atomic<int64_t> num_device_alloc{0};
  std::atomic<int64_t> num_device_free{0};

 private:
  void Collect() DEVRT_REQUIRES(mutex_);

  mutable Mutex mutex_;
  std::vector<BlockPool*> pools_ DEVRT_GUARDED_BY(mutex_);
  std::atomic<int64_t> spare_[kRows][kMetrics] = {};
  int64_t peak_[kRows][kMetrics] DEVRT_GUARDED_BY(mutex_) = {};
  MemoryStatistics central_ DEVRT_GUARDED_BY(mutex_);
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_INTERNAL_LEDGER_H_
