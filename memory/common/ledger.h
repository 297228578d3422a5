// SPDX-License-Identifier: Apache-2.0
//
// Ledger: the statistics of one allocator.  Many threads count in it without
// waiting for each other, and its peaks are true maxima all the same.
//
// Each BlockPool has a shard under its own lock.  A shard's `current` may not
// exceed its `lease`.  The leases of all shards and `spare` together are
// exactly the peak:
//
//   (1) current[m] <= lease[m] in every shard
//   (2) sum over shards of lease[m] + spare[m] == peak[m], spare[m] >= 0
//
// While every shard keeps to its lease, no new peak is possible, and no shard
// needs to look at another.  A pool whose shard needs a longer lease:
//
//   1. takes from `spare`, one atomic word for each metric, under its own lock:
//      what it needs and an equal share of the rest.  A pool that took all
//      would be collected from by the next one (decision 12 has the figures).
//   2. if that is not enough, borrows, under both locks, what another shard has
//      leased and does not use: the need and half of what is left, so that
//      neither asks again soon.  The lock of the other shard is tried and not
//      waited for.
//   3. if no shard has enough, collects: with all shards at rest it calls in
//      unused leases.  If the true total exceeds the peak, it is the new peak
//      at the moment at which it is reached.
//
//   if (!shard.Apply(row, change)) ledger.Count(&shard, row, change);
//
// A shard is at rest while its lock is held by the collector, or by a thread
// that waits in Count.  The collector counts the changes of all threads that
// wait, growth first ("flat combining"): their calls overlap, so this is one of
// the orders in which they may have happened.
//
// Threads that need their leases at different moments would borrow them from
// each other for ever: whoever borrows holds no block meanwhile, so the total
// that would give each thread a lease of its own is never reached.  So after
// kLoans loans a shard meets the others: for a moment no shard counts by
// itself, and the collector counts what all threads do at that moment.  The
// peak then has room for all of them, and each keeps what it needs (decision
// 41 has the figures).
//
// A shard keeps its lease until another one collects.  A pool whose total rises
// and falls alone does not ask again.
//
// Peaks do not depend on the order of calls, as long as each shard's changes
// are in the order of its lock: between two collections no order can exceed the
// peak, and the peak rises only while all shards are at rest.
//
// Segments, reserved bytes and oversize figures change only with calls of the
// driver, and are counted centrally under `mutex_`.  A segment is counted
// before its pool gets it and until the pool has lost it, so memory that is not
// counted as reserved is never allocated.
//
// A read takes all locks, so the figures belong to one moment.  `freed` is not
// stored: it is always allocated - current (docs/reference/semantics.md 3.3).
//
// Locks: `mutex_` before the shards' locks, those in the order of Add.  A
// thread that waits in Count holds its shard's lock and only tries `mutex_`;
// whoever holds that takes the shard to be at rest.

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
#include "devrt/memory/memory_statistics.h"
#include "devrt/runtime/mutex.h"
#include "memory/common/history_ring.h"
#include "memory/common/spin_lock.h"

namespace devrt::internal {

// The columns of a row, its lanes.  There are eight, so that a row fills one
// cache line.
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
inline Row RowOf(bool small) { return small ? kSmallRow : kLargeRow; }

// The change of one call, in one of the first two rows.  Growth and shrinkage
// are kept apart: cutting a free part is one part less and one part more.
struct Change {
  int64_t up[kMetrics] = {};
  int64_t down[kMetrics] = {};
};

struct alignas(64) LedgerShard {
  int64_t current[kRows][kMetrics] = {};
  int64_t lease[kRows][kMetrics] = {};
  int64_t allocated[kRows - 1][kMetrics] = {};  // kAllRow is their sum
  uint32_t lender = 0;                          // the shard of the last loan
  uint32_t loans = 0;                           // since the last meeting
  uint64_t collections = 0;                     // that counted a change of this

  // The change that a thread waits for in Ledger::Count, while `waits`.
  std::atomic<bool> waits{false};
  Row waits_in = kSmallRow;
  const Change* waits_for = nullptr;

  // Returns false, and changes nothing, if a lease is too short.  Works on two
  // lanes at a time and inline, so that the change stays in registers.
  ABSL_ATTRIBUTE_ALWAYS_INLINE bool Apply(Row row, const Change& c) {
    return ApplyPairs(row, c, std::make_index_sequence<kMetrics / 2>());
  }

  // While a meeting begins, no change fits the leases: the unused lane, whose
  // figure is always 0, has the lease -1.
  void StopCounting() { lease[kAllRow][kUnusedMetric] = -1; }
  void GoOnCounting() { lease[kAllRow][kUnusedMetric] = 0; }
  bool IsStopped() const { return lease[kAllRow][kUnusedMetric] < 0; }
  // What the change adds to the figure of a row.
  int64_t Net(size_t of, size_t metric) const {
    if (of != waits_in && of != kAllRow) return 0;
    return waits_for->up[metric] - waits_for->down[metric];
  }

 private:
  typedef int64_t Pair __attribute__((vector_size(16), may_alias));
  // The lanes 2 * p and 2 * p + 1.  A row begins at a cache line.
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

// Sums over all shards at one moment.
struct LedgerFigures {
  int64_t current[kRows][kMetrics] = {};
  int64_t peak[kRows][kMetrics] = {};
  int64_t allocated[kRows][kMetrics] = {};
};

class Ledger {
 public:
  // Adds a shard whose figures are 0.  Both objects outlive the ledger's use.
  void Add(SpinLock* lock, LedgerShard* shard) DEVRT_EXCLUDES(mutex_);

  // Lengthens the leases of the shard, and counts the change.  The caller holds
  // the lock of the shard and no other one.  What this lock guards is as it was
  // before the call of the program: an Exclusive may read it meanwhile.
  void Count(LedgerShard* shard, Row row, const Change& change)
      DEVRT_EXCLUDES(mutex_);

  // All shards are at rest while it lives.  Before it is made, the thread may
  // hold no lock of memory/.
  class Exclusive {
   public:
    explicit Exclusive(Ledger* ledger);
    ~Exclusive();
    Exclusive(const Exclusive&) = delete;
    Exclusive& operator=(const Exclusive&) = delete;
    size_t shards() const;

   private:
    Ledger* const ledger_;
  };

  // Counts centrally.  `bytes` < 0: the segment goes back.
  void CountSegment(Row row, int64_t bytes, bool oversize)
      DEVRT_EXCLUDES(mutex_);
  // Counts the growth of an expandable segment, which changes bytes but not the
  // number of segments.
  void CountReserved(Row row, int64_t bytes) DEVRT_EXCLUDES(mutex_);
  // `count` is +1 or -1.
  void CountOversizeAllocation(int64_t count) DEVRT_EXCLUDES(mutex_);

  // The caller sets max_split_size.
  MemoryStatistics Read() DEVRT_EXCLUDES(mutex_);
  LedgerFigures Figures() DEVRT_EXCLUDES(mutex_);
  // For a caller that holds all locks (snapshots).
  MemoryStatistics Read(const Exclusive& held);
  void ResetPeak() DEVRT_EXCLUDES(mutex_);
  // Sets the counters below to 0, too.
  void ResetAccumulated() DEVRT_EXCLUDES(mutex_);

  // The history of events, nullptr while it is off.  An event is added under
  // the lock of the shard that it changes.
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
    bool locked = false;  // by the thread that holds `mutex_`
  };
  // What a shard lacks, in its row and in kAllRow; 0 or less: nothing.
  struct Needs {
    size_t rows[2];
    int64_t lanes[2][kMetrics];
  };
  // How many shards are asked for a loan at a time, and how often.
  static constexpr uint32_t kMostLenders = 64;
  static constexpr int kLenderRounds = 4;
  // A meeting comes after this many loans of one shard, and not before as many
  // as there are shards.  A meeting that brings no new peak doubles the number:
  // these threads need their leases at different moments.
  static constexpr uint32_t kLoans = 32;
  static constexpr uint32_t kMostLoans = 1 << 16;

  // Leaves in `needs` what the shard still lacks.
  void Borrow(LedgerShard* shard, Needs* needs);
  // Returns true if the shard lacks nothing any more.
  static bool Lend(LedgerShard* from, LedgerShard* to, Needs* needs);
  // Step 1.  Returns false if the shard lacks more, which `needs` then has.
  bool TakeSpare(LedgerShard* shard, Row row, const Change& change,
                 Needs* needs);
  void Publish() DEVRT_REQUIRES(mutex_);

  // Waits until the shard is at rest.
  static void Rest(Account* account);
  void RestAll() DEVRT_REQUIRES(mutex_);
  void Resume() DEVRT_REQUIRES(mutex_);
  // Stops all shards, and waits a moment for calls that count.
  void Meet() DEVRT_REQUIRES(mutex_);
  void EndMeeting(bool new_peak) DEVRT_REQUIRES(mutex_);
  // Counts the changes of all threads that wait.
  void Serve(bool meeting) DEVRT_REQUIRES(mutex_);
  // The next three are for a caller for whom all shards are at rest.  Returns
  // true if the lane has a new peak.
  bool ServeLane(size_t row, size_t metric, bool meeting)
      DEVRT_REQUIRES(mutex_);
  LedgerFigures Sum() DEVRT_REQUIRES(mutex_);
  MemoryStatistics Statistics() DEVRT_REQUIRES(mutex_);

  // Each allocation reads it: on a line that nobody writes to.
  std::atomic<HistoryRing*> history_{nullptr};
  alignas(64) Mutex mutex_;
  std::vector<Account> accounts_ DEVRT_GUARDED_BY(mutex_);
  std::vector<LedgerShard*> waiting_ DEVRT_GUARDED_BY(mutex_);  // for Serve
  // A copy for readers without the lock: the first `shards_` of `lenders_`.
  // Outgrown arrays are kept, because a thread may still read them.
  std::vector<std::unique_ptr<Account[]>> arrays_ DEVRT_GUARDED_BY(mutex_);
  size_t room_ DEVRT_GUARDED_BY(mutex_) = 0;  // in the newest array
  std::atomic<Account*> lenders_{nullptr};
  std::atomic<int64_t> shards_{0};
  std::atomic<uint32_t> loans_{kLoans};  // until the next meeting
  std::unique_ptr<HistoryRing> ring_ DEVRT_GUARDED_BY(mutex_);  // kept
  // Shrinks under the lock of any shard, grows while all are at rest.
  std::atomic<int64_t> spare_[kRows][kMetrics] = {};
  int64_t peak_[kRows][kMetrics] DEVRT_GUARDED_BY(mutex_) = {};
  MemoryStatistics central_ DEVRT_GUARDED_BY(mutex_);
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_COMMON_LEDGER_H_
