// SPDX-License-Identifier: Apache-2.0
//
// Many threads at once.  Each change takes a number under its shard's lock; the
// peak is to be exactly the largest total in the order of the numbers, and what
// is read meanwhile consistent.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "memory/common/ledger.h"
#include "tests/memory/statistics/ledger_program.h"

namespace devrt::internal {
namespace {

using testing::ChangeMaker;
using testing::TestShard;

struct Step {
  uint64_t number;
  Row row;
  Change change;
};

// Changes of the threads of one shard; each only takes back its own.
void RunThread(Ledger* ledger, TestShard* shard, uint64_t seed, int steps,
               std::atomic<uint64_t>* next, std::vector<Step>* log) {
  ChangeMaker maker(seed);
  int64_t mine[kRows][kMetrics] = {};
  for (int i = 0; i < steps; ++i) {
    const Row row = maker.NextRow();
    const Change change = maker.Next(mine[row]);
    for (size_t m = 0; m < kMetrics; ++m) {
      mine[row][m] += change.up[m] - change.down[m];
    }
    shard->Count(ledger, row, change, [&] {
      log->push_back({next->fetch_add(1), row, change});
    });
  }
}

LedgerFigures Replay(std::vector<Step> steps) {
  std::sort(steps.begin(), steps.end(),
            [](const Step& a, const Step& b) { return a.number < b.number; });
  LedgerFigures f;
  for (const Step& step : steps) {
    for (const size_t r : {static_cast<size_t>(step.row), size_t{kAllRow}}) {
      for (size_t m = 0; m < kMetrics; ++m) {
        f.allocated[r][m] += step.change.up[m];
        f.current[r][m] += step.change.up[m] - step.change.down[m];
        f.peak[r][m] = std::max(f.peak[r][m], f.current[r][m]);
      }
    }
  }
  return f;
}

void ExpectSound(const LedgerFigures& f) {
  for (size_t m = 0; m < kMetrics; ++m) {
    for (size_t r = 0; r < kRows; ++r) {
      ASSERT_LE(f.current[r][m], f.peak[r][m]);
      ASSERT_GE(f.current[r][m], 0);
      ASSERT_GE(f.allocated[r][m], f.current[r][m]);
    }
    ASSERT_EQ(f.current[kAllRow][m],
              f.current[kSmallRow][m] + f.current[kLargeRow][m]);
  }
}

class LedgerThreadsTest : public ::testing::TestWithParam<std::pair<int, int>> {
};

TEST_P(LedgerThreadsTest, PeakIsThatOfTheOrderUnderTheLocks) {
  const auto [shards_wanted, threads_wanted] = GetParam();
  Ledger ledger;
  std::vector<std::unique_ptr<TestShard>> shards;
  for (int i = 0; i < shards_wanted; ++i) {
    shards.push_back(std::make_unique<TestShard>());
    ledger.Add(&shards.back()->lock, &shards.back()->shard);
  }
  std::atomic<uint64_t> next{0};
  std::atomic<bool> stop{false};
  std::vector<std::vector<Step>> logs(static_cast<size_t>(threads_wanted));
  std::vector<std::thread> threads;
  for (size_t i = 0; i < logs.size(); ++i) {
    threads.emplace_back(RunThread, &ledger, shards[i % shards.size()].get(),
                         i + 1, 3000, &next, &logs[i]);
  }
  std::thread reader([&] {
    while (!stop) {
      ASSERT_NO_FATAL_FAILURE(ExpectSound(ledger.Figures()));
      std::this_thread::yield();
    }
  });
  for (std::thread& t : threads) t.join();
  stop = true;
  reader.join();

  std::vector<Step> all;
  for (const auto& log : logs) all.insert(all.end(), log.begin(), log.end());
  const LedgerFigures wanted = Replay(std::move(all));
  const LedgerFigures got = ledger.Figures();
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t m = 0; m < kMetrics; ++m) {
      EXPECT_EQ(got.current[r][m], wanted.current[r][m]);
      EXPECT_EQ(got.allocated[r][m], wanted.allocated[r][m]);
      EXPECT_EQ(got.peak[r][m], wanted.peak[r][m]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, LedgerThreadsTest,
                         ::testing::Values(std::pair(1, 4), std::pair(4, 4),
                                           std::pair(3, 12),
                                           std::pair(16, 16)));

// Resets beside the others: the peak is never below what is there.
TEST(LedgerThreadsTest, ResetsInTheMiddle) {
  Ledger ledger;
  TestShard shards[4];
  for (TestShard& s : shards) ledger.Add(&s.lock, &s.shard);
  std::atomic<uint64_t> next{0};
  std::vector<Step> logs[4];
  std::vector<std::thread> threads;
  for (size_t i = 0; i < 4; ++i) {
    threads.emplace_back(RunThread, &ledger, &shards[i], i + 1, 3000, &next,
                         &logs[i]);
  }
  for (int i = 0; i < 300; ++i) {
    ledger.ResetPeak();
    ASSERT_NO_FATAL_FAILURE(ExpectSound(ledger.Figures()));
    ledger.ResetAccumulated();
    ASSERT_NO_FATAL_FAILURE(ExpectSound(ledger.Figures()));
  }
  for (std::thread& t : threads) t.join();
  ExpectSound(ledger.Figures());
}

}  // namespace
}  // namespace devrt::internal
