// SPDX-License-Identifier: Apache-2.0

#include "memory/common/ledger.h"

#include <sched.h>
#include <time.h>

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

int64_t Nanoseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec;
}

// Takes `need` and an equal share of the rest, or all if `need` is more.
int64_t TakeShare(std::atomic<int64_t>* spare, int64_t need, int64_t shards) {
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
  waiting_.reserve(accounts_.capacity());
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

bool Ledger::TakeSpare(LedgerShard* shard, Row row, const Change& change,
                       Needs* needs) {
  const int64_t shards =
      std::max<int64_t>(1, shards_.load(std::memory_order_relaxed));
  *needs = {{row, kAllRow}, {}};
  bool missing = false;
  for (size_t m = 0; m < kMetrics; ++m) {
    const int64_t net = change.up[m] - change.down[m];
    if (net <= 0) continue;
    for (size_t i = 0; i < 2; ++i) {
      const size_t r = needs->rows[i];
      const int64_t need = shard->current[r][m] + net - shard->lease[r][m];
      if (need <= 0) continue;
      const int64_t taken = TakeShare(&spare_[r][m], need, shards);
      shard->lease[r][m] += taken;
      needs->lanes[i][m] = need - taken;
      missing = missing || taken < need;
    }
  }
  return !missing;
}

void Ledger::Count(LedgerShard* shard, Row row, const Change& change) {
  bool meeting = false;
  if (!shard->IsStopped()) {
    Needs needs;
    // The bytes taken stay leased, also if the rest fails.
    if (!TakeSpare(shard, row, change, &needs)) {
      meeting = ++shard->loans > loans_.load(std::memory_order_relaxed) &&
                shard->loans > shards_.load(std::memory_order_relaxed);
      if (!meeting) Borrow(shard, &needs);
    }
    if (!meeting && shard->Apply(row, change)) return;
  }
  shard->waits_in = row;
  shard->waits_for = &change;
  shard->waits.store(true, std::memory_order_release);
  // Whoever holds the mutex may count this change, too.
  while (shard->waits.load(std::memory_order_acquire)) {
    if (!mutex_.TryLock()) {
      sched_yield();
      continue;
    }
    if (shard->waits.load(std::memory_order_acquire)) Serve(meeting);
    mutex_.Unlock();
  }
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

// ---- All shards at rest -----------------------------------------------------

Ledger::Exclusive::Exclusive(Ledger* ledger)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis)
    : ledger_(ledger) {
  ledger_->mutex_.Lock();
  ledger_->RestAll();
}

Ledger::Exclusive::~Exclusive()
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  ledger_->Resume();
  ledger_->mutex_.Unlock();
}

// A thread that waits goes on only when it is served, or when it gets `mutex_`.
void Ledger::Rest(Account* account)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  constexpr int kSpins = 64;
  for (int look = 0;; ++look) {
    account->locked = account->lock->TryLock();
    if (account->locked ||
        account->shard->waits.load(std::memory_order_acquire)) {
      return;
    }
    if (look > kSpins) sched_yield();
  }
}

void Ledger::RestAll() {
  for (Account& a : accounts_) Rest(&a);
}

void Ledger::Resume() DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  for (Account& a : accounts_) {
    if (std::exchange(a.locked, false)) a.lock->Unlock();
  }
}

void Ledger::Meet() DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  constexpr int64_t kQuiet = 500;  // nanoseconds without one more that waits
  for (Account& a : accounts_) {
    Rest(&a);
    if (a.locked) a.shard->StopCounting();
    if (std::exchange(a.locked, false)) a.lock->Unlock();
  }
  size_t most = 0;
  for (int64_t last = Nanoseconds(); Nanoseconds() - last < kQuiet;) {
    const auto waiting = static_cast<size_t>(
        std::count_if(accounts_.begin(), accounts_.end(), [](const Account& a) {
          return a.shard->waits.load(std::memory_order_relaxed);
        }));
    if (waiting == accounts_.size()) return;
    if (waiting <= most) continue;
    most = waiting;
    last = Nanoseconds();
  }
}

void Ledger::Serve(bool meeting) {
  if (meeting) Meet();
  RestAll();
  waiting_.clear();
  for (const Account& a : accounts_) {
    if (!a.locked) waiting_.push_back(a.shard);
  }
  // Growth first: all that is in use now is in use at one moment.
  std::sort(waiting_.begin(), waiting_.end(),
            [](const LedgerShard* a, const LedgerShard* b) {
              return a->Net(kAllRow, kActive) > b->Net(kAllRow, kActive);
            });
  bool new_peak = false;
  for (size_t r = 0; r < kRows; ++r) {
    const auto is_in_row = [r](const LedgerShard* s) {
      return r == kAllRow || s->waits_in == r;
    };
    if (!meeting && std::none_of(waiting_.begin(), waiting_.end(), is_in_row)) {
      continue;
    }
    for (size_t m = 0; m < kUnusedMetric; ++m) {
      new_peak |= ServeLane(r, m, meeting);
    }
  }
  if (meeting) EndMeeting(new_peak);
  for (LedgerShard* shard : waiting_) {
    for (size_t m = 0; m < kMetrics; ++m) {
      shard->allocated[shard->waits_in][m] += shard->waits_for->up[m];
    }
    ++shard->collections;
    shard->waits.store(false, std::memory_order_release);
  }
  Resume();
}

void Ledger::EndMeeting(bool new_peak) {
  for (const Account& a : accounts_) {
    a.shard->GoOnCounting();
    a.shard->loans = 0;
  }
  const uint32_t loans = loans_.load(std::memory_order_relaxed);
  loans_.store(new_peak ? kLoans : std::min(2 * loans, kMostLoans),
               std::memory_order_relaxed);
}

bool Ledger::ServeLane(size_t row, size_t metric, bool meeting) {
  const auto current = [=](LedgerShard* s) -> int64_t& {
    return s->current[row][metric];
  };
  const auto lease = [=](LedgerShard* s) -> int64_t& {
    return s->lease[row][metric];
  };
  const auto net = [=](const LedgerShard* s) { return s->Net(row, metric); };
  if (!meeting && std::none_of(waiting_.begin(), waiting_.end(), [=](auto* s) {
        return current(s) + net(s) > lease(s);
      })) {
    for (LedgerShard* s : waiting_) current(s) += net(s);
    return false;
  }
  const int64_t peak = peak_[row][metric];
  int64_t spare = spare_[row][metric].load(std::memory_order_relaxed);
  for (const Account& a : accounts_) {
    spare += lease(a.shard) - current(a.shard);
    if (!meeting) lease(a.shard) = current(a.shard);
  }
  for (LedgerShard* s : waiting_) {
    current(s) += net(s);
    spare -= net(s);
    lease(s) = meeting ? std::max(lease(s), current(s)) : current(s);
    if (spare < 0) peak_[row][metric] -= std::exchange(spare, 0);
  }
  if (meeting) {  // each keeps what it had or needed, as far as there is enough
    for (const Account& a : accounts_) {
      int64_t& kept = lease(a.shard);
      kept = std::min(kept, current(a.shard) + spare);
      spare -= kept - current(a.shard);
    }
  } else {
    for (LedgerShard* s : waiting_) {
      if (net(s) <= 0) continue;
      const int64_t share =
          ShareOf(spare, net(s), static_cast<int64_t>(accounts_.size()));
      lease(s) += share;
      spare -= share;
    }
  }
  spare_[row][metric].store(spare, std::memory_order_relaxed);
  return peak_[row][metric] > peak;
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
      spare_[r][m].store(0, std::memory_order_relaxed);
      peak_[r][m] = 0;
      for (const Account& a : accounts_) {
        a.shard->lease[r][m] = a.shard->current[r][m];
        peak_[r][m] += a.shard->current[r][m];
      }
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
