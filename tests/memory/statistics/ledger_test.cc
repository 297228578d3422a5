// SPDX-License-Identifier: Apache-2.0
//
// The ledger against a model that counts in one place: after each step of
// serial programs every figure is the model's, the peaks too.

#include "memory/common/ledger.h"

#include <algorithm>
#include <memory>
#include <vector>

#include "gtest/gtest.h"
#include "tests/memory/statistics/ledger_program.h"

namespace devrt::internal {
namespace {

using testing::ChangeMaker;
using testing::TestShard;

struct Model {
  LedgerFigures figures;

  void Count(Row row, const Change& c) {
    for (const size_t r : {static_cast<size_t>(row), size_t{kAllRow}}) {
      for (size_t m = 0; m < kMetrics; ++m) {
        figures.allocated[r][m] += c.up[m];
        figures.current[r][m] += c.up[m] - c.down[m];
        figures.peak[r][m] =
            std::max(figures.peak[r][m], figures.current[r][m]);
      }
    }
  }
  void ResetPeak() {
    std::copy_n(&figures.current[0][0], kRows * kMetrics, &figures.peak[0][0]);
  }
  void ResetAccumulated() {
    std::copy_n(&figures.current[0][0], kRows * kMetrics,
                &figures.allocated[0][0]);
  }
};

void ExpectEqual(const LedgerFigures& got, const LedgerFigures& wanted,
                 uint64_t seed, int step) {
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t m = 0; m < kMetrics; ++m) {
      ASSERT_EQ(got.current[r][m], wanted.current[r][m])
          << "seed " << seed << " step " << step << " row " << r << " " << m;
      ASSERT_EQ(got.peak[r][m], wanted.peak[r][m])
          << "seed " << seed << " step " << step << " row " << r << " " << m;
      ASSERT_EQ(got.allocated[r][m], wanted.allocated[r][m])
          << "seed " << seed << " step " << step << " row " << r << " " << m;
    }
  }
}

// Figures() asserts both invariants of ledger.h each time.
TEST(LedgerTest, SerialProgramsHaveTruePeaksAtEveryStep) {
  uint64_t collections = 0;
  for (uint64_t seed = 1; seed <= 300; ++seed) {
    Ledger ledger;
    Model model;
    ChangeMaker maker(seed);
    std::vector<std::unique_ptr<TestShard>> shards;
    for (uint64_t i = 0, n = 1 + maker.Roll(6); i < n; ++i) {
      shards.push_back(std::make_unique<TestShard>());
      ledger.Add(&shards.back()->lock, &shards.back()->shard);
    }
    for (int step = 0; step < 200; ++step) {
      const uint64_t roll = maker.Roll(100);
      if (roll == 0) {
        ledger.ResetPeak();
        model.ResetPeak();
      } else if (roll == 1) {
        ledger.ResetAccumulated();
        model.ResetAccumulated();
      } else if (roll == 2) {  // a new stream in the middle
        shards.push_back(std::make_unique<TestShard>());
        ledger.Add(&shards.back()->lock, &shards.back()->shard);
      } else {
        TestShard& shard = *shards[maker.Roll(shards.size())];
        const Row row = maker.NextRow();
        const Change change = maker.Next(shard.shard.current[row]);
        shard.Count(&ledger, row, change);
        model.Count(row, change);
      }
      ASSERT_NO_FATAL_FAILURE(
          ExpectEqual(ledger.Figures(), model.figures, seed, step));
    }
    for (const auto& shard : shards) collections += shard->shard.collections;
  }
  EXPECT_GT(collections, 0u);
}

TEST(LedgerTest, APoolAloneAsksOnlyAtNewPeaks) {
  Ledger ledger;
  TestShard pool;
  ledger.Add(&pool.lock, &pool.shard);
  Change up, down;
  up.up[kAllocation] = down.down[kAllocation] = 1;
  for (int round = 0; round < 100; ++round) {
    for (int i = 0; i < 5; ++i) pool.Count(&ledger, kSmallRow, up);
    for (int i = 0; i < 5; ++i) pool.Count(&ledger, kSmallRow, down);
  }
  EXPECT_EQ(pool.shard.collections, 5u);
  const Stat stat = ledger.Read().allocation.small_pool;
  EXPECT_EQ(stat.peak, 5);
  EXPECT_EQ(stat.allocated, 500);
  EXPECT_EQ(stat.freed, 500);
  EXPECT_EQ(stat.current, 0);
}

// After a collection, a pool uses the lease that another pool returned. The
// peak is that of the sum, not a sum of peaks.
TEST(LedgerTest, PeakIsOfTheSum) {
  Ledger ledger;
  TestShard a, b;
  ledger.Add(&a.lock, &a.shard);
  ledger.Add(&b.lock, &b.shard);
  Change up, down;
  up.up[kAllocatedBytes] = down.down[kAllocatedBytes] = 1000;
  a.Count(&ledger, kLargeRow, up);
  a.Count(&ledger, kLargeRow, down);
  b.Count(&ledger, kLargeRow, up);
  b.Count(&ledger, kLargeRow, down);
  const MemoryStatistics s = ledger.Read();
  EXPECT_EQ(s.allocated_bytes.all.peak, 1000);
  EXPECT_EQ(s.allocated_bytes.large_pool.peak, 1000);
  EXPECT_EQ(s.allocated_bytes.small_pool.peak, 0);
  EXPECT_EQ(s.allocated_bytes.all.allocated, 2000);
}

// An unused lease passes to a pool that needs it. No collection runs, and the
// peak stays.
TEST(LedgerTest, UnusedLeasePassesToAnotherPool) {
  Ledger ledger;
  TestShard a, b;
  ledger.Add(&a.lock, &a.shard);
  ledger.Add(&b.lock, &b.shard);
  Change ten_up, ten_down, four_up;
  ten_up.up[kActive] = ten_down.down[kActive] = 10;
  four_up.up[kActive] = 4;
  a.Count(&ledger, kSmallRow, ten_up);
  EXPECT_EQ(a.shard.collections, 1u);  // a new peak
  a.Count(&ledger, kSmallRow, ten_down);
  b.Count(&ledger, kSmallRow, four_up);
  EXPECT_EQ(b.shard.collections, 0u);
  EXPECT_EQ(b.shard.lease[kSmallRow][kActive], 4);
  EXPECT_EQ(a.shard.lease[kSmallRow][kActive], 6);
  a.Count(&ledger, kSmallRow, ten_up);  // b uses what is missing
  EXPECT_EQ(a.shard.collections, 2u);
  EXPECT_EQ(ledger.Read().active.small_pool.peak, 14);
  EXPECT_EQ(ledger.Read().active.all.peak, 14);
}

// A pool that another thread works in lends nothing, and is not waited for as
// long as others lend.
TEST(LedgerTest, ALenderAtWorkIsLeftAlone) {
  Ledger ledger;
  TestShard a, b, c;
  for (TestShard* shard : {&a, &b, &c}) {
    ledger.Add(&shard->lock, &shard->shard);
  }
  Change up, down;
  up.up[kActive] = down.down[kActive] = 1;
  for (TestShard* shard : {&a, &b}) shard->Count(&ledger, kSmallRow, up);
  for (TestShard* shard : {&a, &b}) shard->Count(&ledger, kSmallRow, down);
  {
    SpinLockHolder a_at_work(&a.lock);
    c.Count(&ledger, kSmallRow, up);
  }
  EXPECT_EQ(c.shard.collections, 0u);
  EXPECT_EQ(a.shard.lease[kSmallRow][kActive], 1);
  EXPECT_EQ(b.shard.lease[kSmallRow][kActive], 0);
}

// More pools than the first table holds, and than are asked.
TEST(LedgerTest, LendersAreFoundAmongMany) {
  Ledger ledger;
  std::vector<std::unique_ptr<TestShard>> pools;
  for (int i = 0; i < 200; ++i) {
    pools.push_back(std::make_unique<TestShard>());
    ledger.Add(&pools.back()->lock, &pools.back()->shard);
  }
  Change up, down;
  up.up[kActive] = down.down[kActive] = 1;
  pools[60]->Count(&ledger, kSmallRow, up);
  pools[60]->Count(&ledger, kSmallRow, down);
  pools[150]->Count(&ledger, kSmallRow, up);
  EXPECT_EQ(pools[150]->shard.collections, 0u);
  EXPECT_EQ(pools[60]->shard.lease[kSmallRow][kActive], 0);
  EXPECT_EQ(ledger.Read().active.all.peak, 1);
}

// A segment that passes from pool to pool may leave less than nothing in one.
TEST(LedgerTest, ShardMayBeNegative) {
  Ledger ledger;
  TestShard a, b;
  ledger.Add(&a.lock, &a.shard);
  ledger.Add(&b.lock, &b.shard);
  Change up, down;
  up.up[kActive] = down.down[kActive] = 3;
  a.Count(&ledger, kSmallRow, up);
  b.Count(&ledger, kSmallRow, down);
  EXPECT_EQ(ledger.Read().active.all.current, 0);
  EXPECT_EQ(ledger.Read().active.all.peak, 3);
  ledger.ResetAccumulated();
  EXPECT_EQ(ledger.Read().active.all.freed, 0);
  a.Count(&ledger, kSmallRow, up);
  EXPECT_EQ(ledger.Read().active.all.peak, 3);
}

// Pools that always borrow from each other meet; alone in the meeting, a pool
// changes no peak.
TEST(LedgerTest, AMeetingOfOneThreadChangesNoPeak) {
  Ledger ledger;
  TestShard pools[3];
  for (TestShard& pool : pools) ledger.Add(&pool.lock, &pool.shard);
  Change up, down;
  up.up[kActive] = down.down[kActive] = 1;
  for (int i = 0; i < 1000; ++i) {
    pools[i % 3].Count(&ledger, kSmallRow, up);
    pools[i % 3].Count(&ledger, kSmallRow, down);
  }
  uint64_t meetings = 0;
  for (TestShard& pool : pools) {
    meetings += pool.shard.collections;
    EXPECT_FALSE(pool.shard.IsStopped());
  }
  EXPECT_GT(meetings, 2u);
  EXPECT_LT(meetings, 20u);
  EXPECT_EQ(ledger.Read().active.all.peak, 1);
}

TEST(LedgerTest, CentralFigures) {
  Ledger ledger;
  ledger.CountSegment(kSmallRow, 2 << 20, false);
  ledger.CountSegment(kLargeRow, 20 << 20, true);
  ledger.CountReserved(kLargeRow, 2 << 20);
  ledger.CountSegment(kSmallRow, -(2 << 20), false);
  ledger.CountOversizeAllocation(1);
  MemoryStatistics s = ledger.Read();
  EXPECT_EQ(s.segment.all.current, 1);
  EXPECT_EQ(s.segment.all.peak, 2);
  EXPECT_EQ(s.segment.small_pool.freed, 1);
  EXPECT_EQ(s.reserved_bytes.all.current, 22 << 20);
  EXPECT_EQ(s.reserved_bytes.all.peak, 24 << 20);
  EXPECT_EQ(s.oversize_segments.current, 1);
  EXPECT_EQ(s.oversize_allocations.peak, 1);
  ledger.CountOversizeAllocation(-1);
  ledger.num_ooms.store(3);
  ledger.ResetPeak();
  ledger.ResetAccumulated();
  s = ledger.Read();
  EXPECT_EQ(s.reserved_bytes.all.peak, 22 << 20);
  EXPECT_EQ(s.reserved_bytes.all.allocated, 22 << 20);
  EXPECT_EQ(s.reserved_bytes.all.freed, 0);
  EXPECT_EQ(s.segment.small_pool.allocated, 0);
  EXPECT_EQ(s.oversize_allocations.peak, 0);
  EXPECT_EQ(s.num_ooms, 0);
}

}  // namespace
}  // namespace devrt::internal
