// SPDX-License-Identifier: Apache-2.0
//
// The caching allocator from many threads; meant for ThreadSanitizer.

#include <atomic>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "tests/memory/device/cache_fixture.h"

namespace devrt::testing {
namespace {

using internal::kMiB;

class MemoryThreads : public DeviceCacheTest {
 protected:
  void SetUp() override {
    DeviceCacheTest::SetUp();
    Reset("memory=512MiB,mode=threaded");
  }
};

// Each block carries its holder's number on the host's side of things: two that
// hold one place at a time would see each other's.
class Claims {
 public:
  explicit Claims(uint64_t bytes) : owners_(bytes / 512) {}
  void Take(uintptr_t granule, uint64_t granules, int who) {
    for (uint64_t i = 0; i < granules; ++i) {
      int nobody = 0;
      ASSERT_TRUE(
          owners_[(granule + i) % owners_.size()].compare_exchange_strong(
              nobody, who))
          << "two blocks overlap";
    }
  }
  void Give(uintptr_t granule, uint64_t granules) {
    for (uint64_t i = 0; i < granules; ++i) {
      owners_[(granule + i) % owners_.size()].store(0);
    }
  }

 private:
  std::vector<std::atomic<int>> owners_;
};

TEST_F(MemoryThreads, BlocksNeverOverlap) {
  constexpr int kThreads = 6;
  constexpr int kSteps = 3000;
  // Wide enough that the machine's addresses do not meet in it.
  Claims claims(uint64_t{2} << 30);
  Stream shared = NewStream();
  std::mutex mutex;
  std::vector<std::pair<char*, uint64_t>> passed;  // between threads
  InThreads(kThreads, [&](int thread) {
    std::mt19937 random(static_cast<uint32_t>(thread) + 1);
    Stream own = NewStream();
    Stream other = NewStream();
    struct Held {
      char* pointer;
      uint64_t bytes;
    };
    std::vector<Held> live;
    const auto free = [&](Held held) {
      claims.Give(reinterpret_cast<uintptr_t>(held.pointer) / 512,
                  (held.bytes + 511) / 512);
      if (random() % 4 == 0) {
        EXPECT_OK(RecordStream(held.pointer, other));
      }
      EXPECT_OK(FreeMemory(held.pointer));
    };
    for (int step = 0; step < kSteps; ++step) {
      if (live.size() < 20 && random() % 2 == 0) {
        const uint64_t bytes = random() % 20 == 0 ? kMiB + random() % (3 * kMiB)
                                                  : 1 + random() % 20000;
        const StreamRef s = random() % 2 == 0 ? own.ref() : shared.ref();
        absl::StatusOr<void*> made = AllocateMemory(s, bytes);
        ASSERT_OK(made.status());
        claims.Take(reinterpret_cast<uintptr_t>(*made) / 512,
                    (bytes + 511) / 512, thread + 1);
        live.push_back({static_cast<char*>(*made), bytes});
      } else if (!live.empty()) {
        const size_t i = random() % live.size();
        const Held held = live[i];
        live[i] = live.back();
        live.pop_back();
        if (random() % 3 != 0) {
          free(held);
          continue;
        }
        std::lock_guard lock(mutex);
        passed.emplace_back(held.pointer, held.bytes);
      }
      if (step % 16 == 0) {
        std::pair<char*, uint64_t> other_thread{nullptr, 0};
        {
          std::lock_guard lock(mutex);
          if (!passed.empty()) {
            other_thread = passed.back();
            passed.pop_back();
          }
        }
        if (other_thread.first != nullptr) {
          free({other_thread.first, other_thread.second});
        }
      }
      if (step % 500 == 0) {
        EXPECT_OK(EmptyCache(dev()));
      }
      if (step % 100 == 0) {
        const MemoryStatistics s = Read();
        EXPECT_GE(s.allocated_bytes.all.peak, s.allocated_bytes.all.current);
        EXPECT_GE(
            s.reserved_bytes.all.current,
            s.active_bytes.all.current + s.inactive_split_bytes.all.current);
      }
    }
    for (const Held& held : live) free(held);
  });
  for (const auto& [pointer, bytes] : passed) EXPECT_OK(FreeMemory(pointer));
}

// Of threads that free one block at once exactly one succeeds.
TEST_F(MemoryThreads, ABlockIsFreedOnce) {
  Stream s = NewStream();
  for (int round = 0; round < 50; ++round) {
    char* x = New(s, 4096);
    std::atomic<int> freed{0};
    InThreads(4, [&](int) {
      if (FreeMemory(x).ok()) ++freed;
    });
    EXPECT_EQ(freed, 1);
  }
}

TEST_F(MemoryThreads, TheFractionHoldsForAllTogether) {
  EXPECT_OK(SetMemoryFraction(dev(), 0.25));
  const uint64_t total = dev().Properties()->total_memory;
  InThreads(4, [&](int) {
    Stream s = NewStream();
    std::vector<void*> live;
    for (int i = 0; i < 20; ++i) {
      absl::StatusOr<void*> made = AllocateMemory(s, 10 * kMiB);
      if (made.ok()) live.push_back(*made);
      EXPECT_LE(Read().reserved_bytes.all.current,
                static_cast<int64_t>(total / 4));
    }
    for (void* p : live) EXPECT_OK(FreeMemory(p));
  });
  EXPECT_LE(Read().reserved_bytes.all.peak, static_cast<int64_t>(total / 4));
}

}  // namespace
}  // namespace devrt::testing
