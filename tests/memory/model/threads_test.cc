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
constexpr size_t kStreams = 16;

std::chrono::milliseconds Length() {
  const char* seconds = std::getenv("DEVRT_TEST_SECONDS");
  return std::chrono::milliseconds(
      seconds == nullptr ? 1500 : 1000 * std::atoi(seconds));
}

// Who holds what: each address once at a time.  In many parts: one lock would
// order all calls of the threads, and hide their races.
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

// A place where threads leave blocks for others.
struct Exchange {
  std::atomic<void*> slots[32] = {};
};

TEST_F(MemoryThreadsTest, NoBlockTwiceAndFiguresHold) {
  std::vector<Stream> streams;
  for (size_t i = 0; i < kStreams; ++i) streams.push_back(NewStream());
  Holders holders;
  Exchange exchange;
  std::atomic<int> failures{0};
  std::atomic<int64_t> allocations{0};
  ASSERT_TRUE(RecordMemoryHistory(dev(), HistoryOptions{1000, false}).ok());

  InThreads(kThreads, [&](int thread) {
    // From here: sanitizers may take longer than that to make the threads.
    const auto end = std::chrono::steady_clock::now() + Length();
    std::mt19937_64 random(static_cast<uint64_t>(thread) + 1);
    const Stream& home = streams[static_cast<size_t>(thread) % kStreams];
    const auto give = [&](void* pointer) {
      if (pointer == nullptr) return;
      holders.Give(pointer);
      const Stream& other = streams[random() % kStreams];
      const absl::Status freed =
          random() % 4 == 0 ? FreeMemory(pointer, other) : FreeMemory(pointer);
      if (!freed.ok()) ++failures;
    };
    while (std::chrono::steady_clock::now() < end) {
      const uint64_t bytes =
          1 + random() % (random() % 8 == 0 ? 3u << 20 : 6000u);
      const absl::StatusOr<void*> got = AllocateMemory(home, bytes);
      if (!got.ok()) {
        ++failures;
        continue;
      }
      ++allocations;
      if (!holders.Take(*got)) ++failures;
      if (random() % 8 == 0 &&
          !FillAsync(home, *got, 1, std::min<uint64_t>(bytes, 512)).ok()) {
        ++failures;
      }
      if (random() % 8 == 0 &&
          !RecordStream(*got, streams[random() % kStreams]).ok()) {
        ++failures;
      }
      give(exchange.slots[random() % std::size(exchange.slots)].exchange(*got));
      switch (random() % 400) {
        case 0:
          if (!EmptyCache(dev()).ok()) ++failures;
          break;
        case 1:
          ResetPeakMemoryStatistics(dev());
          break;
        case 2: {
          const absl::StatusOr<MemorySnapshot> s = TakeMemorySnapshot(dev());
          if (!s.ok() || s->statistics.allocation.all.current > 2000) {
            ++failures;
          }
          break;
        }
        case 3: {
          const MemoryStatistics s = GetMemoryStatistics(dev());
          for (const PoolStat* stat : {&s.allocation, &s.active_bytes}) {
            if (stat->all.allocated - stat->all.freed != stat->all.current ||
                stat->all.peak < stat->all.current) {
              ++failures;
            }
          }
          if (s.active_bytes.all.current > s.reserved_bytes.all.current) {
            ++failures;
          }
          break;
        }
        default:
          break;
      }
    }
  });
  for (auto& slot : exchange.slots) {
    ASSERT_TRUE(FreeMemory(slot.load()).ok());  // null too
  }
  EXPECT_EQ(failures, 0);
  EXPECT_GT(allocations, kThreads);
  std::printf("%lld blocks in %lld ms on %d threads\n",
              static_cast<long long>(allocations),
              static_cast<long long>(Length().count()), kThreads);
  for (const Stream& stream : streams) ASSERT_TRUE(stream.Synchronize().ok());
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
