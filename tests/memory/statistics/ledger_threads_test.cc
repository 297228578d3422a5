// SPDX-License-Identifier: Apache-2.0
//
// Many threads at once.  Each change takes a number before its call and one
// after it.  The peak is to be one that an order of the calls has: those that
// overlap may have happened in either order.  What is read meanwhile is to be
// consistent.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
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
  uint64_t begun;
  uint64_t ended;
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
    const uint64_t begun = next->fetch_add(1);
    shard->Count(ledger, row, change);
    log->push_back({begun, next->fetch_add(1), row, change});
  }
}

// The figures at the end.  The peaks are those of the order in which growth
// comes as late as possible and shrinkage as early, or the other way round.
LedgerFigures Replay(const std::vector<Step>& steps, bool early_growth) {
  struct Event {
    uint64_t number;
    size_t row, metric;
    int64_t net;
  };
  std::vector<Event> events;
  LedgerFigures f;
  for (const Step& step : steps) {
    for (const size_t r : {static_cast<size_t>(step.row), size_t{kAllRow}}) {
      for (size_t m = 0; m < kMetrics; ++m) {
        f.allocated[r][m] += step.change.up[m];
        const int64_t net = step.change.up[m] - step.change.down[m];
        const bool early = (net > 0) == early_growth;
        events.push_back({early ? step.begun : step.ended, r, m, net});
      }
    }
  }
  std::sort(events.begin(), events.end(),
            [](const Event& a, const Event& b) { return a.number < b.number; });
  for (const Event& event : events) {
    int64_t& current = f.current[event.row][event.metric];
    int64_t& peak = f.peak[event.row][event.metric];
    current += event.net;
    peak = std::max(peak, current);
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

TEST_P(LedgerThreadsTest, PeakIsThatOfAnOrderOfTheCalls) {
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
  const LedgerFigures wanted = Replay(all, false);
  const LedgerFigures most = Replay(all, true);
  const LedgerFigures got = ledger.Figures();
  for (size_t r = 0; r < kRows; ++r) {
    for (size_t m = 0; m < kMetrics; ++m) {
      EXPECT_EQ(got.current[r][m], wanted.current[r][m]);
      EXPECT_EQ(got.allocated[r][m], wanted.allocated[r][m]);
      EXPECT_GE(got.peak[r][m], wanted.peak[r][m]);
      EXPECT_LE(got.peak[r][m], most.peak[r][m]);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Sizes, LedgerThreadsTest,
                         ::testing::Values(std::pair(1, 4), std::pair(4, 4),
                                           std::pair(3, 12),
                                           std::pair(16, 16)));

// Threads that use what they have one after another: each borrows from the one
// before, and they meet all the time.  The peak stays what one of them has.
TEST(LedgerThreadsTest, ThreadsInTurnsHaveThePeakOfOne) {
  constexpr uint64_t kThreads = 4;
  Ledger ledger;
  TestShard shards[kThreads];
  for (TestShard& s : shards) ledger.Add(&s.lock, &s.shard);
  Change up, down;
  up.up[kActive] = down.down[kActive] = 1;
  std::mutex mutex;
  std::condition_variable comes[kThreads];
  uint64_t turn = 0;  // guarded by mutex
  std::vector<std::thread> threads;
  for (uint64_t i = 0; i < kThreads; ++i) {
    threads.emplace_back([&, i] {
      for (uint64_t mine = i; mine < 4000; mine += kThreads) {
        std::unique_lock<std::mutex> lock(mutex);
        comes[i].wait(lock, [&] { return turn == mine; });
        shards[i].Count(&ledger, kSmallRow, up);
        shards[i].Count(&ledger, kSmallRow, down);
        turn = mine + 1;
        comes[turn % kThreads].notify_one();
      }
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(ledger.Read().active.all.peak, 1);
  EXPECT_EQ(ledger.Read().active.all.current, 0);
  uint64_t collections = 0;
  for (TestShard& s : shards) collections += s.shard.collections;
  EXPECT_GT(collections, 3u);
  EXPECT_LT(collections, 20u);
}

// Threads that use what they have at any moment come to a peak that has room
// for all of them; from then on none needs another.
TEST(LedgerThreadsTest, ThreadsAtOnceComeToALeaseEach) {
  constexpr int kThreads = 3;
  Ledger ledger;
  TestShard shards[kThreads];
  for (TestShard& s : shards) ledger.Add(&s.lock, &s.shard);
  Change up, down;
  up.up[kActive] = down.down[kActive] = 1;
  std::atomic<bool> stop{false};
  std::vector<std::thread> threads;
  for (TestShard& shard : shards) {
    threads.emplace_back([&] {
      while (!stop) {
        shard.Count(&ledger, kSmallRow, up);
        shard.Count(&ledger, kSmallRow, down);
      }
    });
  }
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (ledger.Read().active.all.peak < kThreads &&
         std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  stop = true;
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(ledger.Read().active.all.peak, kThreads);
  for (TestShard& s : shards) {
    EXPECT_EQ(s.shard.lease[kSmallRow][kActive], 1);
  }
}

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
