// SPDX-License-Identifier: Apache-2.0
//
// The statistics of a device, kept by many threads that do not meet, with peaks
// that are true all the same.
//
// Each BlockPool has a shard under its own lock.  A shard's `current` may not
// pass its `lease`; what the shards have leased, together with `spare`, is
// exactly the peak:
//
//   (1) current[m] <= lease[m] in every shard
//   (2) sum over shards of lease[m] + spare[m] == peak[m], spare[m] >= 0
//
// So as long as every shard keeps to its lease no new peak is possible, and
// nobody needs to look.  A pool that needs more:
//
//   1. takes from `spare`, one atomic word a metric, under its own lock: the
//      need and an equal share of the rest, never more: a pool that took all
//      would be collected from by the next (decision 12 has the figures);
//   2. if that is not enough, borrows: what another shard has leased and does
//      not use passes over under both locks, the need and half of what is left,
//      so that neither asks again soon. The other's lock is tried, never waited
//      for. Threads whose totals rise and fall against each other pass on what
//      one of them needs at a time and stop nobody;
//   3. if nobody has it, gives up its lock, takes those of all shards
//      (Exclusive) and does the whole of its work again: what others have
//      leased and do not use is called in, and if the true total passes the
//      peak it is the new one, at the moment at which it is reached.
//
//   if (!shard.Apply(row, change) && !ledger.Count(&shard, row, change)) {
//     // undo nothing, unlock, then
//     Ledger::Exclusive all(&ledger);
//     ... look for the block anew ...
//     all.Count(&shard, row, change);
//   }
//
// A shard keeps what it has until somebody collects.  A pool whose total goes
// up and down alone never asks again.
//
// Order of the calls, for peaks: any in which each shard's changes are in the
// order of its lock.  The peak is the same for all of them: between two
// collections no order can pass it, and it rises while nothing else can move.
//
// Segments, reserved bytes and oversize figures change with calls to the driver
// only; they are counted centrally under `mutex_`.  A segment is counted before
// its pool has it, and no more after the pool has it no more, so that nothing
// is ever allocated out of memory that is not reserved.
//
// Reading takes all locks, so that the figures are of one moment.  `freed` is
// not stored: it is allocated - current, always (docs/semantics.md 3.3).
//
// Locks: `mutex_` before the shards' locks, those in the order of Add.

#ifndef DEVRT_MEMORY_COMMON_LEDGER_H_
#define DEVRT_MEMORY_COMMON_LEDGER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "devrt/memory/statistics.h"
#include "devrt/runtime/mutex.h"
#include "memory/common/spin_lock.h"
#include "memory/snapshot/history_ring.h"

namespace devrt::internal {

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
  uint32_t lender = 0;                          // where the last loan came from

  // False, and nothing done, when a lease is too short.  Two lanes at a time
  // and inline: the change itself stays out of memory.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Apply(Row row, const Change& c) {
    return ApplyPairs(row, c, std::make_index_sequence<kMetrics / 2>());
  }

 private:
  typedef int64_t Pair __attribute__((vector_size(16), may_alias));
  // Of lanes 2 * p and 2 * p + 1; rows begin at a line of the cache.
  static Pair* At(int64_t* row, size_t p) {
    return reinterpret_cast<Pair*>(row) + p;
  }
  static Pair PairOf(const int64_t* lanes, size_t p) {
    return Pair{lanes[2 * p], lanes[2 * p + 1]};
  }

  template <size_t... p>
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool ApplyPairs(Row row, const Change& c,
                                               std::index_sequence<p...>) {
    const Pair up[] = {PairOf(c.up, p)...};
    const Pair net[] = {up[p] - PairOf(c.down, p)...};
    const Pair own[] = {*At(current[row], p) + net[p]...};
    const Pair all[] = {*At(current[kAllRow], p) + net[p]...};
    Pair missing = {0, 0};
    ((missing |= *At(lease[row], p) - own[p],
      missing |= *At(lease[kAllRow], p) - all[p]),
     ...);
    if (ABSL_PREDICT_FALSE((missing[0] | missing[1]) < 0)) return false;
    ((*At(current[row], p) = own[p], *At(current[kAllRow], p) = all[p],
      *At(allocated[row], p) += up[p]),
     ...);
    return true;
  }
};

// Sums over the shards, of one moment.
struct LedgerFigures {
  int64_t current[kRows][kMetrics] = {};
  int64_t peak[kRows][kMetrics] = {};
  int64_t allocated[kRows][kMetrics] = {};
};

class Ledger {
 public:
  // A new shard, all 0; both pointers stay valid as long as the ledger.
  void Add(SpinLock* lock, LedgerShard* shard) DEVRT_EXCLUDES(mutex_);

  // Lengthens the leases by what is spare or borrowed, then Apply.  False, and
  // nothing counted, if that does not do: the way is an Exclusive.  The caller
  // holds the shard's lock and no other shard's.
  bool Count(LedgerShard* shard, Row row, const Change& change);

  // All shards' locks, for as long as it lives.  No lock of the layer may be
  // held before.
  class Exclusive {
   public:
    explicit Exclusive(Ledger* ledger);
    // Only tries, while `*turn`, 0 at first, which it counts, is small: where
    // somebody else collects, that may do for the caller, who looks again.
    Exclusive(Ledger* ledger, int* turn);
    ~Exclusive();
    Exclusive(const Exclusive&) = delete;
    Exclusive& operator=(const Exclusive&) = delete;
    void Count(LedgerShard* shard, Row row, const Change& change);
    size_t shards() const;
    bool held() const { return held_; }

   private:
    static constexpr int kTurns = 16;
    Ledger* const ledger_;
    bool held_ = true;
  };

  // Central figures; `bytes` < 0 for what goes back.
  void CountSegment(Row row, int64_t bytes, bool oversize)
      DEVRT_EXCLUDES(mutex_);
  // An expandable segment grew or shrank: bytes, but no segment.
  void CountReserved(Row row, int64_t bytes) DEVRT_EXCLUDES(mutex_);
  // +1 and -1.
  void CountOversizeAllocation(int64_t count) DEVRT_EXCLUDES(mutex_);

  // max_split_size is left to the caller.
  MemoryStatistics Read() DEVRT_EXCLUDES(mutex_);
  LedgerFigures Figures() DEVRT_EXCLUDES(mutex_);
  // The same, for those that hold all locks already (snapshots).
  MemoryStatistics Read(const Exclusive& held);
  void ResetPeak() DEVRT_EXCLUDES(mutex_);
  // Also the counters below, to 0.
  void ResetAccumulated() DEVRT_EXCLUDES(mutex_);

  // What happens, beside how much: its history, nullptr while it is off.
  // Events are told under the lock of the shard that they change.
  HistoryRing* history() const {
    return history_.load(std::memory_order_acquire);
  }
  absl::Status StartHistory(const HistoryOptions& options)
      DEVRT_EXCLUDES(mutex_);
  void StopHistory() DEVRT_EXCLUDES(mutex_);

  std::atomic<int64_t> num_alloc_retries{0};
  std::atomic<int64_t> num_ooms{0};
  std::atomic<int64_t> num_sync_all_streams{0};
  std::atomic<int64_t> num_device_alloc{0};
  std::atomic<int64_t> num_device_free{0};

 private:
  struct Account {
    SpinLock* lock;
    LedgerShard* shard;
  };
  // What a shard misses, in its row and in kAllRow.
  struct Needs {
    size_t rows[2];
    int64_t lanes[2][kMetrics];
  };
  // Of the shards asked for a loan at a time, and how often.
  static constexpr uint32_t kMostLenders = 64;
  static constexpr int kLenderRounds = 4;

  // What is still missing then is left in `needs`.
  void Borrow(LedgerShard* shard, Needs* needs);
  // True when nothing is missing any more.
  static bool Lend(LedgerShard* from, LedgerShard* to, Needs* needs);
  void Publish() DEVRT_REQUIRES(mutex_);

  void LockShards() DEVRT_REQUIRES(mutex_);
  // These under all locks.
  void Collect(size_t row, size_t metric) DEVRT_REQUIRES(mutex_);
  void Cover(LedgerShard* shard, size_t row, size_t metric, int64_t net)
      DEVRT_REQUIRES(mutex_);
  LedgerFigures Sum() DEVRT_REQUIRES(mutex_);
  MemoryStatistics Statistics() DEVRT_REQUIRES(mutex_);

  Mutex mutex_;
  std::vector<Account> accounts_ DEVRT_GUARDED_BY(mutex_);
  // The same for those without the lock: the first `shards_` of `lenders_`.
  // Arrays that were outgrown are kept, somebody may read them.
  std::vector<std::unique_ptr<Account[]>> arrays_ DEVRT_GUARDED_BY(mutex_);
  size_t room_ DEVRT_GUARDED_BY(mutex_) = 0;  // in the newest
  std::atomic<Account*> lenders_{nullptr};
  std::atomic<int64_t> shards_{0};
  std::atomic<HistoryRing*> history_{nullptr};
  std::unique_ptr<HistoryRing> ring_ DEVRT_GUARDED_BY(mutex_);  // kept for good
  // Becomes less under any shard's lock, more under all.
  std::atomic<int64_t> spare_[kRows][kMetrics] = {};
  int64_t peak_[kRows][kMetrics] DEVRT_GUARDED_BY(mutex_) = {};
  MemoryStatistics central_ DEVRT_GUARDED_BY(mutex_);
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_COMMON_LEDGER_H_
