// SPDX-License-Identifier: Apache-2.0
//
// 64 threads on 16 streams: blocks are filled, passed from thread to thread,
// marked on other streams and freed there; none is two threads' at a time.
// For ThreadSanitizer.  For minutes, with .ci/run tsan's folder:
//
//   DEVRT_TEST_SECONDS=300 meson test -C build-tsan memory_threads
//       --verbose --timeout-multiplier 8
//
// and --wrapper "setarch $(uname -m) -R" where .ci/run needs it; it prints how
// much it did.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <random>
#include <set>
#include <vector>

#include "devrt/memory/device_memory.h"
#include "devrt/memory/history.h"
#include "devrt/memory/statistics.h"
#include "devrt/streams/copy.h"
#include "gtest/gtest.h"
#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

constexpr int kThreads = 64;
constexpr size_t kSharedStreams = 16;

std::chrono::milliseconds Length() {
  const char* seconds = std::getenv("DEVRT_TEST_SECONDS");
  return std::chrono::milliseconds(
      seconds == nullptr ? 1500 : 1000 * std::atoi(seconds));
}

// The addresses that threads hold, each once at a time.  Many parts have a lock
// each: a single lock would order all calls of the threads and hide races.
class Holders {
 public:
  bool Take(void* pointer) {
    Part& part = PartOf(pointer);
    std::lock_guard<std::mutex> hold(part.mutex);
    return part.held.insert(pointer).second;
  }
  void Give(void* pointer) {
    Part& part = PartOf(pointer);
    std::lock_guard<std::mutex> hold(part.mutex);
    part.held.erase(pointer);
  }

 private:
  struct Part {
    std::mutex mutex;
    std::set<void*> held;
  };
  Part& PartOf(void* pointer) {
    return parts_[reinterpret_cast<uintptr_t>(pointer) / 512 %
                  std::size(parts_)];
  }

  Part parts_[1021];
};

class MemoryThreadsTest : public MtiaTest {
 protected:
  void SetUp() override {
    MtiaTest::SetUp();
    Reset("mode=threaded,memory=4GiB");
  }
};

// The blocks that the threads share, and what the threads count.
struct SharedWork {
  std::vector<Stream> streams;
  Holders holders;
  std::atomic<void*> exchange[32] = {};  // a thread leaves blocks for others
  std::atomic<int> failures{0};
  std::atomic<int64_t> allocations{0};
};

bool FiguresHold(const MemoryStatistics& s) {
  for (const PoolStat* stat : {&s.allocation, &s.active_bytes}) {
    if (stat->all.allocated - stat->all.freed != stat->all.current ||
        stat->all.peak < stat->all.current) {
      return false;
    }
  }
  return s.active_bytes.all.current <= s.reserved_bytes.all.current;
}

// Makes one of the calls for the whole device, for 4 of 400 numbers. Returns
// false if the call fails or its figures contradict each other.
bool CallForTheDevice(Device device, uint64_t number) {
  switch (number % 400) {
    case 0:
      return EmptyCache(device).ok();
    case 1:
      ResetPeakMemoryStatistics(device);
      return true;
    case 2: {
      const absl::StatusOr<MemorySnapshot> s = TakeMemorySnapshot(device);
      return s.ok() && s->statistics.allocation.all.current <= 2000;
    }
    case 3:
      return FiguresHold(GetMemoryStatistics(device));
    default:
      return true;
  }
}

class WorkThread {
 public:
  WorkThread(SharedWork* work, int thread)
      : work_(*work),
        home_(work->streams[static_cast<size_t>(thread) % kSharedStreams]),
        random_(static_cast<uint64_t>(thread) + 1) {}

  void Step() {
    const uint64_t bytes =
        1 + random_() % (random_() % 8 == 0 ? 3u << 20 : 6000u);
    const absl::StatusOr<void*> got = AllocateMemory(home_, bytes);
    Count(got.ok());
    if (!got.ok()) return;
    ++work_.allocations;
    Count(work_.holders.Take(*got));
    if (random_() % 8 == 0) {
      Count(FillAsync(home_, *got, 1, std::min<uint64_t>(bytes, 512)).ok());
    }
    if (random_() % 8 == 0) Count(RecordStream(*got, AnyStream()).ok());
    Free(work_.exchange[random_() % std::size(work_.exchange)].exchange(*got));
    Count(CallForTheDevice(MtiaTest::dev(), random_()));
  }

 private:
  void Count(bool succeeded) {
    if (!succeeded) ++work_.failures;
  }
  const Stream& AnyStream() {
    return work_.streams[random_() % kSharedStreams];
  }
  void Free(void* pointer) {
    if (pointer == nullptr) return;
    work_.holders.Give(pointer);
    const Stream& other = AnyStream();
    Count(
        (random_() % 4 == 0 ? FreeMemory(pointer, other) : FreeMemory(pointer))
            .ok());
  }

  SharedWork& work_;
  const Stream& home_;
  std::mt19937_64 random_;
};

TEST_F(MemoryThreadsTest, BlocksHaveOneHolderAndFiguresAgree) {
  SharedWork work;
  for (size_t i = 0; i < kSharedStreams; ++i)
    work.streams.push_back(NewStream());
  ASSERT_TRUE(RecordMemoryHistory(dev(), HistoryOptions{1000, false}).ok());

  InThreads(kThreads, [&](int thread) {
    // From here: sanitizers may take longer than that to make the threads.
    const auto end = std::chrono::steady_clock::now() + Length();
    WorkThread worker(&work, thread);
    while (std::chrono::steady_clock::now() < end) worker.Step();
  });
  for (auto& slot : work.exchange) {
    ASSERT_TRUE(FreeMemory(slot.load()).ok());  // null too
  }
  EXPECT_EQ(work.failures, 0);
  EXPECT_GT(work.allocations, kThreads);
  std::printf("%lld blocks in %lld ms on %d threads\n",
              static_cast<long long>(work.allocations),
              static_cast<long long>(Length().count()), kThreads);
  for (const Stream& stream : work.streams) {
    ASSERT_TRUE(stream.Synchronize().ok());
  }
  ASSERT_TRUE(EmptyCache(dev()).ok());
  const MemoryStatistics s = GetMemoryStatistics(dev());
  EXPECT_EQ(s.allocation.all.current, 0);
  EXPECT_EQ(s.active_bytes.all.current, 0);
  EXPECT_EQ(s.reserved_bytes.all.current, 0);
  EXPECT_EQ(s.requested_bytes.all.current, 0);
  EXPECT_EQ(s.inactive_split_bytes.all.current, 0);
  ASSERT_TRUE(RecordMemoryHistory(dev(), std::nullopt).ok());
}

}  // namespace
}  // namespace devrt::testing
