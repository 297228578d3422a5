// SPDX-License-Identifier: Apache-2.0

#include "memory/common/ledger.h"

#include <sched.h>

#include <algorithm>
#include <cassert>

namespace devrt::internal {

namespace {

// A metric of the figures, and its member of MemoryStatistics.
struct Lane {
  Metric metric;
  PoolStat MemoryStatistics::*stat;
};
constexpr Lane kLanes[] = {
    {kAllocation, &MemoryStatistics::allocation},
    {kActive, &MemoryStatistics::active},
    {kAllocatedBytes, &MemoryStatistics::allocated_bytes},
    {kActiveBytes, &MemoryStatistics::active_bytes},
    {kRequestedBytes, &MemoryStatistics::requested_bytes},
    {kSplits, &MemoryStatistics::inactive_split},
    {kSplitBytes, &MemoryStatistics::inactive_split_bytes},
};

Stat StatOf(const LedgerFigures& figures, Row row, Metric m) {
  return {figures.current[row][m], figures.peak[row][m],
          figures.allocated[row][m],
          figures.allocated[row][m] - figures.current[row][m]};
}

void CountIn(Stat* stat, int64_t change) {
  stat->current += change;
  stat->peak = std::max(stat->peak, stat->current);
  (change > 0 ? stat->allocated : stat->freed) += change > 0 ? change : -change;
}

void CountIn(PoolStat* stat, Row row, int64_t change) {
  CountIn(&stat->all, change);
  CountIn(row == kSmallRow ? &stat->small_pool : &stat->large_pool, change);
}

template <typename Function>
void ForEachCentral(MemoryStatistics* s, Function function) {
  for (PoolStat* p : {&s->segment, &s->reserved_bytes}) {
    for (Stat* stat : {&p->all, &p->small_pool, &p->large_pool}) function(stat);
  }
  function(&s->oversize_allocations);
  function(&s->oversize_segments);
}

// An equal share of `rest`, rounded down to a multiple of `need`: for blocks of
// one size a smaller part is of no use.
int64_t ShareOf(int64_t rest, int64_t need, int64_t among) {
  const int64_t share = rest / among;
  return share - share % need;
}

// Takes `need` and an equal share of the rest, or all if `need` is more.
int64_t TakeSpare(std::atomic<int64_t>* spare, int64_t need, int64_t shards) {
  int64_t left = spare->load(std::memory_order_relaxed);
  int64_t taken;
  do {
    if (left <= 0) return 0;
    taken = left < need ? left : need + ShareOf(left - need, need, shards);
  } while (!spare->compare_exchange_weak(left, left - taken,
                                         std::memory_order_relaxed));
  return taken;
}

}  // namespace

void Ledger::Add(SpinLock* lock, LedgerShard* shard) {
  MutexLock hold(&mutex_);
  accounts_.push_back({lock, shard});
  Publish();
}

void Ledger::Publish() {
  const size_t count = accounts_.size();
  if (count > room_) {
    room_ = std::max<size_t>(16, 2 * room_);
    arrays_.push_back(std::make_unique<Account[]>(room_));
    std::copy(accounts_.begin(), accounts_.end(), arrays_.back().get());
    lenders_.store(arrays_.back().get(), std::memory_order_release);
  } else {
    arrays_.back()[count - 1] = accounts_.back();
  }
  shards_.store(static_cast<int64_t>(count), std::memory_order_release);
}

bool Ledger::Count(LedgerShard* shard, Row row, const Change& change) {
  const int64_t shards =
      std::max<int64_t>(1, shards_.load(std::memory_order_relaxed));
  Needs needs = {{row, kAllRow}, {}};
  bool missing = false;
  for (size_t i = 0; i < 2; ++i) {
    const size_t r = needs.rows[i];
    for (size_t m = 0; m < kMetrics; ++m) {
      const int64_t need = shard->current[r][m] + change.up[m] -
                           change.down[m] - shard->lease[r][m];
      if (need <= 0) continue;
      const int64_t taken = TakeSpare(&spare_[r][m], need, shards);
      shard->lease[r][m] += taken;
      needs.lanes[i][m] = need - taken;
      missing = missing || taken < need;
    }
  }
  // The bytes taken so far stay leased, also if the rest fails.
  if (missing) Borrow(shard, &needs);
  return shard->Apply(row, change);
}

bool Ledger::Lend(LedgerShard* from, LedgerShard* to, Needs* needs) {
  bool missing = false;
  for (size_t i = 0; i < 2; ++i) {
    const size_t r = needs->rows[i];
    for (size_t m = 0; m < kMetrics; ++m) {
      int64_t& need = needs->lanes[i][m];
      if (need <= 0) continue;
      const int64_t unused = from->lease[r][m] - from->current[r][m];
      const int64_t lent =
          unused <= need ? unused : need + ShareOf(unused - need, need, 2);
      from->lease[r][m] -= lent;
      to->lease[r][m] += lent;
      need -= lent;
      missing = missing || need > 0;
    }
  }
  return !missing;
}

// If two pools borrow from each other, both find a lock taken and go on.
void Ledger::Borrow(LedgerShard* shard, Needs* needs)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  const auto shards =
      static_cast<uint32_t>(shards_.load(std::memory_order_acquire));
  // Loaded behind the count, so that the array has at least as many entries.
  Account* const lenders = lenders_.load(std::memory_order_acquire);
  const uint32_t asked = std::min(shards, kMostLenders);
  bool busy = true;
  for (int round = 0; busy && round < kLenderRounds; ++round) {
    busy = false;
    for (uint32_t i = 0; i < asked; ++i) {
      const uint32_t at = (shard->lender + i) % shards;
      const Account& other = lenders[at];
      if (other.shard == shard) continue;
      if (!other.lock->TryLock()) {
        busy = true;
        continue;
      }
      const bool enough = Lend(other.shard, shard, needs);
      other.lock->Unlock();
      if (enough) {
        shard->lender = at + 1;  // `other` has just lent
        return;
      }
    }
  }
  shard->lender = (shard->lender + asked) % shards;  // ask others next time
}

Ledger::Exclusive::Exclusive(Ledger* ledger)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis)
    : ledger_(ledger) {
  ledger_->mutex_.Lock();
  ledger_->LockShards();
}

Ledger::Exclusive::Exclusive(Ledger* ledger, int* turn)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis)
    : ledger_(ledger) {
  // Yield instead of waiting for the mutex: a sleep takes longer than a
  // collection.
  if (++*turn > kTurns) {
    ledger_->mutex_.Lock();
  } else if (!ledger_->mutex_.TryLock()) {
    sched_yield();
    held_ = false;
    return;
  }
  ledger_->LockShards();
}

Ledger::Exclusive::~Exclusive()
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  if (!held_) return;
  for (const Account& a : ledger_->accounts_) a.lock->Unlock();
  ledger_->mutex_.Unlock();
}

void Ledger::Exclusive::Count(LedgerShard* shard, Row row, const Change& change)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  for (size_t m = 0; m < kMetrics; ++m) {
    const int64_t net = change.up[m] - change.down[m];
    ledger_->Cover(shard, row, m, net);
    ledger_->Cover(shard, kAllRow, m, net);
  }
  const bool applied = shard->Apply(row, change);
  assert(applied);
  static_cast<void>(applied);
}

void Ledger::LockShards() DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  for (const Account& a : accounts_) a.lock->Lock();
}

void Ledger::Collect(size_t row, size_t metric) {
  int64_t back = 0;
  for (const Account& a : accounts_) {
    back += a.shard->lease[row][metric] - a.shard->current[row][metric];
    a.shard->lease[row][metric] = a.shard->current[row][metric];
  }
  spare_[row][metric].fetch_add(back, std::memory_order_relaxed);
}

void Ledger::Cover(LedgerShard* shard, size_t row, size_t metric, int64_t net) {
  int64_t& lease = shard->lease[row][metric];
  if (shard->current[row][metric] + net <= lease) return;
  Collect(row, metric);
  const int64_t spare = spare_[row][metric].load(std::memory_order_relaxed);
  const int64_t rest = std::max<int64_t>(0, spare - net);
  if (spare < net) peak_[row][metric] += net - spare;
  const int64_t share =
      ShareOf(rest, net, static_cast<int64_t>(accounts_.size()));
  lease += net + share;
  spare_[row][metric].store(rest - share, std::memory_order_relaxed);
}

size_t Ledger::Exclusive::shards() const
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  return ledger_->accounts_.size();
}

absl::Status Ledger::StartHistory(const HistoryOptions& options) {
  MutexLock hold(&mutex_);
  if (ring_ == nullptr) ring_ = std::make_unique<HistoryRing>();
  const absl::Status status = ring_->Start(options);
  if (status.ok()) history_.store(ring_.get(), std::memory_order_release);
  return status;
}

void Ledger::StopHistory() {
  MutexLock hold(&mutex_);
  history_.store(nullptr, std::memory_order_release);
  if (ring_ != nullptr) ring_->Stop();
}

void Ledger::CountSegment(Row row, int64_t bytes, bool oversize) {
  MutexLock hold(&mutex_);
  const int64_t one = bytes < 0 ? -1 : 1;
  CountIn(&central_.segment, row, one);
  CountIn(&central_.reserved_bytes, row, bytes);
  if (oversize) CountIn(&central_.oversize_segments, one);
}

void Ledger::CountReserved(Row row, int64_t bytes) {
  MutexLock hold(&mutex_);
  CountIn(&central_.reserved_bytes, row, bytes);
}

void Ledger::CountOversizeAllocation(int64_t count) {
  MutexLock hold(&mutex_);
  CountIn(&central_.oversize_allocations, count);
}

LedgerFigures Ledger::Sum() {
  LedgerFigures sum;
  int64_t leased[kRows][kMetrics] = {};
  for (const Account& a : accounts_) {
    for (size_t m = 0; m < kMetrics; ++m) {
      for (size_t r = 0; r < kRows; ++r) {
        assert(a.shard->current[r][m] <= a.shard->lease[r][m]);  // (1)
        sum.current[r][m] += a.shard->current[r][m];
        leased[r][m] += a.shard->lease[r][m];
        if (r == kAllRow) continue;
        sum.allocated[r][m] += a.shard->allocated[r][m];
        sum.allocated[kAllRow][m] += a.shard->allocated[r][m];
      }
    }
  }
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t m = 0; m < kMetrics; ++m) {
      assert(leased[r][m] + spare_[r][m].load() == peak_[r][m]);  // (2)
      assert(spare_[r][m].load() >= 0);
      sum.peak[r][m] = peak_[r][m];
    }
  }
  static_cast<void>(leased);
  return sum;
}

MemoryStatistics Ledger::Statistics() {
  const LedgerFigures sum = Sum();
  MemoryStatistics s = central_;
  for (const Lane& lane : kLanes) {
    PoolStat& stat = s.*lane.stat;
    stat.all = StatOf(sum, kAllRow, lane.metric);
    stat.small_pool = StatOf(sum, kSmallRow, lane.metric);
    stat.large_pool = StatOf(sum, kLargeRow, lane.metric);
  }
  s.num_alloc_retries = num_alloc_retries.load();
  s.num_ooms = num_ooms.load();
  s.num_sync_all_streams = num_sync_all_streams.load();
  s.num_device_alloc = num_device_alloc.load();
  s.num_device_free = num_device_free.load();
  return s;
}

MemoryStatistics Ledger::Read() {
  const Exclusive all(this);
  return Read(all);
}

MemoryStatistics Ledger::Read(const Exclusive&)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  return Statistics();
}

LedgerFigures Ledger::Figures()
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  const Exclusive all(this);
  return Sum();
}

void Ledger::ResetPeak() DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  const Exclusive all(this);
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t m = 0; m < kMetrics; ++m) {
      Collect(r, m);
      peak_[r][m] -= spare_[r][m].exchange(0);
    }
  }
  ForEachCentral(&central_, [](Stat* stat) { stat->peak = stat->current; });
}

void Ledger::ResetAccumulated()
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  const Exclusive all(this);
  for (const Account& a : accounts_) {
    for (size_t r = 0; r < kAllRow; ++r) {
      for (size_t m = 0; m < kMetrics; ++m) {
        a.shard->allocated[r][m] = a.shard->current[r][m];
      }
    }
  }
  ForEachCentral(&central_, [](Stat* stat) {
    stat->freed = 0;
    stat->allocated = stat->current;
  });
  for (std::atomic<int64_t>* count :
       {&num_alloc_retries, &num_ooms, &num_sync_all_streams, &num_device_alloc,
        &num_device_free}) {
    count->store(0);
  }
}

}  // namespace devrt::internal
