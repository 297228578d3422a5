// SPDX-License-Identifier: Apache-2.0
//
// Pinned memory: classes, the mode that each block remembers, and blocks that
// work still uses. tests/hardware/memory_pinned.cc has the cases that GPUs run
// as well.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <optional>
#include <thread>
#include <vector>

#include "memory/common/rounding.h"
#include "tests/support/mtia_fixture.h"

namespace devrt {
namespace {

using testing::InThreads;
using testing::IsOkAndHolds;
using testing::kLong;
using testing::MtiaTest;
using testing::Must;

using internal::kMiB;

class PinnedTest : public MtiaTest {
 protected:
  void TearDown() override {
    EXPECT_OK(SetAllocatorSettings(
        "pinned_use_cuda_host_register:False,pinned_num_register_threads:1,"
        "pinned_class_limit_mb:1"));
    EXPECT_OK(dev().Synchronize());
    EXPECT_OK(EmptyPinnedCache(backend()));
    const PinnedStatistics s = Stats();
    EXPECT_EQ(s.active_requests.current, 0);
    EXPECT_EQ(s.allocated_bytes.current, 0);
    ResetPeakPinnedStatistics(backend());
    ResetAccumulatedPinnedStatistics(backend());
    MtiaTest::TearDown();
  }

  static Backend backend() { return dev().backend(); }
  static PinnedStatistics Stats() { return GetPinnedStatistics(backend()); }
  static char* New(uint64_t bytes) {
    return static_cast<char*>(Must(AllocatePinned(dev(), bytes)));
  }
};

// ---- Sizes ------------------------------------------------------------------

TEST_F(PinnedTest, ClassesBelowTheLimitPagesAbove) {
  const auto size_of = [](uint64_t bytes) {
    const int64_t before = Stats().active_bytes.current;
    char* block = New(bytes);
    const int64_t size = Stats().active_bytes.current - before;
    EXPECT_OK(FreePinned(block));
    EXPECT_OK(EmptyPinnedCache(backend()));
    return size;
  };
  EXPECT_EQ(size_of(1), 512);
  EXPECT_EQ(size_of(513), 1024);
  EXPECT_EQ(size_of(40960), 65536);
  EXPECT_EQ(size_of(kMiB), 1 << 20);
  EXPECT_EQ(size_of(kMiB + 1), (1 << 20) + 4096);
  ASSERT_OK(SetAllocatorSettings("pinned_class_limit_mb:4"));
  EXPECT_EQ(size_of(kMiB + 1), 2 << 20);
}

TEST_F(PinnedTest, ALargeBlockServesSevenEighths) {
  char* block = New(4 * kMiB);
  ASSERT_OK(FreePinned(block));
  EXPECT_EQ(New(4 * kMiB - 300'000), block);
  ASSERT_OK(FreePinned(block));
  char* small = New(3 * kMiB);
  EXPECT_NE(small, block);
  ASSERT_OK(FreePinned(small));
  EXPECT_EQ(New(4 * kMiB), block);
  ASSERT_OK(FreePinned(block));
}

TEST_F(PinnedTest, BadSizesAndFrees) {
  EXPECT_THAT(AllocatePinned(dev(), 0), IsOkAndHolds(nullptr));
  EXPECT_OK(FreePinned(nullptr));
  for (const uint64_t bytes : {uint64_t{1} << 60, ~uint64_t{0}}) {
    EXPECT_STATUS(AllocatePinned(dev(), bytes), kResourceExhausted, "1EB");
  }
  EXPECT_STATUS(AllocatePinned(dev(), uint64_t{1} << 59), kResourceExhausted,
                "out of memory");
  char* block = New(1000);
  int local = 0;
  EXPECT_STATUS(FreePinned(&local), kInvalidArgument, "FreePinned needs");
  EXPECT_STATUS(FreePinned(block + 1), kInvalidArgument,
                "1 bytes into the block");
  EXPECT_STATUS(FreeHost(block), kInvalidArgument, "AllocatePinned");
  EXPECT_STATUS(FreeMemory(block), kInvalidArgument, "AllocatePinned");
  ASSERT_OK(FreePinned(block));
  EXPECT_STATUS(FreePinned(block), kInvalidArgument, "freed at");
}

// ---- Modes ------------------------------------------------------------------

// F9: released in the way in which it was obtained.
TEST_F(PinnedTest, EachBlockRemembersItsMode) {
  char* allocated = New(8192);
  ASSERT_OK(SetAllocatorSettings("pinned_use_cuda_host_register:True"));
  char* registered = New(8192);
  ASSERT_OK(FreePinned(allocated));
  ASSERT_OK(SetAllocatorSettings("pinned_use_cuda_host_register:False"));
  ASSERT_OK(FreePinned(registered));
  EXPECT_EQ(Stats().num_host_alloc, 2);
  ASSERT_OK(EmptyPinnedCache(backend()));
  EXPECT_EQ(Stats().num_host_free, 2);
  EXPECT_THAT(IsPinned(allocated), IsOkAndHolds(false));
}

// ---- Uses -------------------------------------------------------------------

TEST_F(PinnedTest, InteriorPointersAndEndsCount) {
  Stream s = NewStream();
  Flag flag = NewFlag();
  ASSERT_OK(flag.WaitOn(s));
  for (const uint64_t offset : {0, 1, 999, 1000}) {
    char* block = New(1000);
    EXPECT_EQ(Must(GetPointerInfo(block + 999)).base, block);
    ASSERT_OK(RecordPinnedUse(block + offset, s));
    ASSERT_OK(FreePinned(block));
    char* other = New(1000);
    EXPECT_NE(other, block) << offset;
    ASSERT_OK(RecordPinnedUse(other, s));
    ASSERT_OK(FreePinned(other));
  }
  int local = 0;
  EXPECT_STATUS(RecordPinnedUse(&local, s), kInvalidArgument,
                "RecordPinnedUse needs");
  EXPECT_STATUS(RecordPinnedUse(nullptr, s), kInvalidArgument, "needs");
  ASSERT_OK(flag.Set());
  ASSERT_OK(s.Synchronize());
}

// F9: one that is stuck holds back what it uses, and nothing else.
TEST_F(PinnedTest, StuckStreamHoldsBackItsBlocksOnly) {
  InVirtualSchedules([] {
    Stream stuck = NewStream();
    Stream runs = NewStream();
    Flag flag = NewFlag();
    ASSERT_OK(flag.WaitOn(stuck));
    char* held = New(4096);
    ASSERT_OK(RecordPinnedUse(held, stuck));
    ASSERT_OK(FreePinned(held));
    const int64_t natives = Stats().num_host_alloc;
    for (int i = 0; i < 10; ++i) {
      char* block = New(4096);
      EXPECT_NE(block, held);
      ASSERT_OK(RecordPinnedUse(block, runs));
      ASSERT_OK(Spin(runs, testing::kShort));
      ASSERT_OK(FreePinned(block));
      ASSERT_OK(runs.Synchronize());
    }
    EXPECT_EQ(Stats().num_host_alloc, natives + 1);
    ASSERT_OK(flag.Set());
    ASSERT_OK(stuck.Synchronize());
    ASSERT_OK(EmptyPinnedCache(backend()));
    EXPECT_EQ(Stats().active_requests.current, 0);
  });
}

// A mark covers what is submitted until the free (F15), a copy only itself.
TEST_F(PinnedTest, MarksAreClosedAtTheFree) {
  Stream s = NewStream();
  Flag flag = NewFlag();
  void* x = Must(Allocate(dev(), 64));
  char* marked = New(4096);
  char* copied = New(4096);
  ASSERT_OK(RecordPinnedUse(marked, s));
  ASSERT_OK(CopyAsync(s, x, copied, 64));
  Event over = NewEvent();
  ASSERT_OK(over.Record(s));
  ASSERT_OK(flag.WaitOn(s));
  ASSERT_OK(over.Synchronize());
  ASSERT_OK(FreePinned(marked));
  ASSERT_OK(FreePinned(copied));
  EXPECT_EQ(New(4096), copied) << "the copy is over, the rest is no use of it";
  char* next = New(4096);
  EXPECT_NE(next, marked);
  ASSERT_OK(FreePinned(next));
  ASSERT_OK(FreePinned(copied));
  ASSERT_OK(flag.Set());
  ASSERT_OK(s.Synchronize());
  ASSERT_OK(Free(dev(), x));
}

TEST_F(PinnedTest, StreamsMayEndBeforeTheFree) {
  std::optional<Stream> s = NewStream();
  Flag flag = NewFlag();
  char* block = New(4096);
  ASSERT_OK(RecordPinnedUse(block, *s));
  ASSERT_OK(flag.WaitOn(*s));
  s.reset();
  ASSERT_OK(FreePinned(block));
  char* other = New(4096);
  EXPECT_NE(other, block);
  ASSERT_OK(flag.Set());
  ASSERT_OK(dev().Synchronize());
  ASSERT_OK(FreePinned(other));
  EXPECT_EQ(New(4096), other);
  EXPECT_EQ(New(4096), block);
  ASSERT_OK(FreePinned(block));
  ASSERT_OK(FreePinned(other));
}

TEST_F(PinnedTest, NothingInsideHostFunctions) {
  char* block = New(64);
  absl::Status answers[4];
  StreamRef s = DefaultStream(dev());
  ASSERT_OK(LaunchHostFunc(s, [&](const absl::Status&) {
    answers[0] = AllocatePinned(dev(), 64).status();
    answers[1] = FreePinned(block);
    answers[2] = RecordPinnedUse(block, s);
    answers[3] = EmptyPinnedCache(backend());
  }));
  ASSERT_OK(s.Synchronize());
  for (const absl::Status& answer : answers) {
    EXPECT_EQ(answer.code(), absl::StatusCode::kFailedPrecondition) << answer;
  }
  ASSERT_OK(FreePinned(block));
}

// ---- Threads ----------------------------------------------------------------

// Blocks never overlap, and allocated - freed is current at every moment.
TEST_F(PinnedTest, ThreadsUseTheSameSizes) {
  InThreads(4, [](int thread) {
    std::vector<std::pair<char*, uint64_t>> held;
    for (uint64_t i = 0; i < 3000; ++i) {
      const uint64_t bytes = 1 + (i * 7919 + thread) % 5000;
      char* block = New(bytes);
      std::memset(block, thread, bytes);
      held.push_back({block, bytes});
      if (held.size() < 8) continue;
      const auto [oldest, size] = held.front();
      held.erase(held.begin());
      EXPECT_EQ(std::count(oldest, oldest + size, static_cast<char>(thread)),
                static_cast<ptrdiff_t>(size));
      EXPECT_OK(FreePinned(oldest));
      if (i % 100 == 0) {
        const PinnedStatistics s = Stats();
        EXPECT_EQ(s.active_bytes.allocated - s.active_bytes.freed,
                  s.active_bytes.current);
        EXPECT_LE(s.active_bytes.current, s.active_bytes.peak);
        EXPECT_LE(s.active_bytes.current, s.allocated_bytes.current);
      }
    }
    for (const auto& [block, size] : held) EXPECT_OK(FreePinned(block));
  });
}

// Each thread has a pool of its own.  A block goes back to the pool that it
// came from, whichever thread frees it, and moves to another pool before the
// driver is asked.
TEST_F(PinnedTest, BlocksGoBackToTheirPoolAndMoveOn) {
  Reset("mode=threaded");
  char* const x = New(4096);
  std::thread([x] { EXPECT_OK(FreePinned(x)); }).join();
  EXPECT_EQ(New(4096), x);
  ASSERT_OK(FreePinned(x));
  std::thread([x] {
    EXPECT_EQ(New(4096), x);
    char* const y = New(3 * kMiB);
    EXPECT_OK(FreePinned(x));
    EXPECT_OK(FreePinned(y));
  }).join();
  EXPECT_EQ(New(4096), x);
  EXPECT_EQ(Stats().num_host_alloc, 2);
  ASSERT_OK(FreePinned(x));
  ASSERT_OK(EmptyPinnedCache(backend()));
  EXPECT_EQ(Stats().num_host_free, 2);
}

// Two threads that need a block in turn soon have one each: a small one, that
// is.
TEST_F(PinnedTest, ThreadsDoNotTakeTheSameSmallBlockForEver) {
  Reset("mode=threaded");
  std::atomic<int> turn{0};
  const auto run = [&turn](int thread) {
    for (int i = thread; i < 200; i += 2) {
      while (turn != i) std::this_thread::yield();
      for (const uint64_t bytes : {uint64_t{512}, 2 * kMiB}) {
        EXPECT_OK(FreePinned(New(bytes)));
      }
      turn = i + 1;
    }
  };
  InThreads(2, run);
  EXPECT_EQ(Stats().num_host_alloc, 3);
}

// A pool whose block others take keeps one of a size, and gives away the rest.
TEST_F(PinnedTest, APoolKeepsOneSmallBlockOfASize) {
  Reset("mode=threaded");
  constexpr int kTurns = 40;
  constexpr int kBlocks = 20;
  std::atomic<int> turn{0};
  const auto wait = [&turn](int i) {
    while (turn != i) std::this_thread::yield();
  };
  const auto use = [] {
    std::vector<char*> held;
    for (int i = 0; i < kBlocks; ++i) held.push_back(New(kMiB / 8));
    for (char* block : held) EXPECT_OK(FreePinned(block));
  };
  InThreads(2, [&](int thread) {
    for (int i = thread; i < kTurns; i += 2) {
      wait(i);
      EXPECT_OK(FreePinned(New(512)));
      turn = i + 1;
    }
    wait(kTurns + thread);
    if (thread == 1) {
      EXPECT_EQ(Stats().num_host_alloc, 2 + kBlocks);
    }
    use();
    turn = kTurns + thread + 1;
  });
  EXPECT_EQ(Stats().num_host_alloc, 2 + kBlocks + 1);
}

// In a schedule a thread gets the block that it would get had no thread
// allocated before.
TEST_F(PinnedTest, ThreadsOfAScheduleShareBlocks) {
  Reset("mode=threaded");
  const auto use = [] { EXPECT_OK(FreePinned(New(512))); };
  use();
  std::thread(use).join();
  Reset("");
  ASSERT_OK(EmptyPinnedCache(backend()));
  ResetAccumulatedPinnedStatistics(backend());
  Stream s = NewStream();
  ASSERT_OK(s.Synchronize());
  for (int i = 0; i < 30; ++i) {
    use();
    std::thread(use).join();
  }
  EXPECT_EQ(Stats().num_host_alloc, 1);
}

// A record serves one block after another, of any class: a look-up that comes
// late reads nothing of the next block.  ThreadSanitizer sees it when it does.
TEST_F(PinnedTest, LookUpsWhileRecordsServeAgain) {
  Reset("mode=threaded");
  std::atomic<char*> last{nullptr};
  std::atomic<bool> done{false};
  std::thread other([&] {
    for (int i = 0; i < 4000; ++i) {
      char* const block = New(i % 2 == 0 ? 4096 : 65536);
      last = block;
      EXPECT_OK(FreePinned(block));
      EXPECT_OK(EmptyPinnedCache(backend()));
    }
    done = true;
  });
  while (!done) {
    char* const block = last;
    if (block == nullptr) continue;
    const PointerInfo info = Must(GetPointerInfo(block));
    if (info.kind == PointerKind::kPinned) {
      EXPECT_TRUE(info.size == 4096 || info.size == 65536) << info.size;
    }
    EXPECT_STATUS(FreePinned(block + 1), kInvalidArgument, "FreePinned needs");
  }
  other.join();
}

// A block that the driver does not take back serves on.
TEST_F(PinnedTest, BlockThatTheDriverKeepsStaysUsable) {
  char* x = New(3 * kMiB);
  ASSERT_OK(FreePinned(x));
  SimulatedFault fault;
  fault.kind = SimulatedFault::Kind::kApi;
  fault.native_code = 46;
  fault.where = "host_dealloc";
  ASSERT_OK(sim().InjectFault(fault));
  EXPECT_FALSE(EmptyPinnedCache(backend()).ok());
  EXPECT_EQ(New(3 * kMiB), x);
  ASSERT_OK(FreePinned(x));
  EXPECT_OK(EmptyPinnedCache(backend()));
  EXPECT_EQ(Must(sim().Stats()).live_pinned, 0u);
}

}  // namespace
}  // namespace devrt
