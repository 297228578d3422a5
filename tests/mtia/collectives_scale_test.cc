// SPDX-License-Identifier: Apache-2.0
//
// devrt.collectives/0 on mtia with many ranks, and with ranks as threads.
#include <string>
#include <thread>
#include <vector>

#include "tests/mtia/collectives_fixture.h"

namespace devrt::test {
namespace {

class CollectiveScale : public CollectivesTest {};

// 4 KiB a rank.
constexpr uint64_t kCount = 1024;

TEST_F(CollectiveScale, ManyRanksOfOneThread) {
  constexpr uint32_t kRanks = 256;
  constexpr int kRounds = 20;
  Reset("memory=64MiB");
  const TestRanks ranks = Make(kRanks, 600'000'000'000);
  std::vector<void*> buffers;
  const std::string zeros(kCount * 4, 0);
  for (uint32_t r = 0; r < kRanks; ++r) {
    buffers.push_back(NewBuffer(r % 2, zeros));
    OK(sim().poke(self(), buffers[r], &r, sizeof r));
  }
  for (int round = 0; round < kRounds; ++round) {
    for (uint32_t r = 0; r < kRanks; ++r) {
      Submit(ranks[r], {Op(DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_INT32, kCount,
                           buffers[r], buffers[r], DEVRT_COLLECTIVE_MAX)});
    }
    SyncAll(ranks);
  }
  int32_t first = 0;
  OK(sim().peek(self(), buffers[0], &first, sizeof first));
  EXPECT_EQ(first, static_cast<int32_t>(kRanks - 1));
}

// K-C2.  By hand, since it needs 10 GiB of memory:
//   --gtest_also_run_disabled_tests --gtest_filter=*31Bits
TEST_F(CollectiveScale, DISABLED_MoreElementsThan31Bits) {
  constexpr uint64_t kElements = (uint64_t{1} << 31) + 1;
  Reset("memory=3GiB");
  const TestRanks ranks = Make(2);
  char* buffers[2];
  for (uint32_t r = 0; r < 2; ++r) {
    void* ptr = nullptr;
    OK(ops().alloc(self(), r, kElements, 0, &ptr));
    buffers[r] = static_cast<char*>(ptr);
    const char last = static_cast<char>(5 + r);
    OK(sim().poke(self(), buffers[r] + kElements - 1, &last, 1));
    Submit(ranks[r], {Op(DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_INT8, kElements,
                         buffers[r], buffers[r], DEVRT_COLLECTIVE_SUM)});
  }
  SyncAll(ranks);
  for (char* const buffer : buffers) {
    char last = 0;
    OK(sim().peek(self(), buffer + kElements - 1, &last, 1));
    EXPECT_EQ(last, 11);
  }
}

TEST_F(CollectiveScale, RanksAsThreads) {
  constexpr uint32_t kRanks = 64;
  const std::string id = NewId();
  std::vector<int64_t*> cells;
  for (uint32_t r = 0; r < kRanks; ++r) cells.push_back(NewCell(r % 2, r));
  std::vector<std::thread> threads;
  for (uint32_t r = 0; r < kRanks; ++r) {
    threads.emplace_back([&, r] {
      const TestRank rank = {r % 2, Begin(id, kRanks, r, Options()),
                             NewStream(r % 2)};
      while (Poll(rank.comm) == DEVRT_COMM_PENDING) {
      }
      for (int i = 0; i < 5; ++i) {
        Submit(rank, {Op(DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_INT64, 1, cells[r],
                         cells[r], DEVRT_COLLECTIVE_MAX)});
        Sync(rank.stream);
      }
    });
  }
  for (std::thread& t : threads) t.join();
  for (const int64_t* const cell : cells) {
    EXPECT_EQ(Peek(cell), static_cast<int64_t>(kRanks - 1));
  }
}

}  // namespace
}  // namespace devrt::test
