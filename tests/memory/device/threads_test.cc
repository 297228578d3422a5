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

struct Held {
  char* pointer;
  uint64_t bytes;
};

// The objects that all threads use.
struct Shared {
  // Wide enough that the machine's addresses do not meet in it.
  Claims claims{uint64_t{2} << 30};
  Stream stream = MtiaTest::NewStream();
  std::mutex mutex;
  std::vector<Held> passed;  // from thread to thread
};

// The random calls of one thread.
class Worker {
 public:
  Worker(Shared* shared, int thread)
      : shared_(*shared),
        thread_(thread),
        random_(static_cast<uint32_t>(thread) + 1) {}

  void Step() {
    if (live_.size() < 20 && random_() % 2 == 0) {
      Allocate();
    } else if (!live_.empty()) {
      const size_t i = random_() % live_.size();
      const Held held = live_[i];
      live_[i] = live_.back();
      live_.pop_back();
      if (random_() % 3 != 0) {
        Free(held);
      } else {
        std::lock_guard lock(shared_.mutex);
        shared_.passed.push_back(held);
      }
    }
  }
  void FreeBlockOfAnotherThread() {
    Held held = {};
    {
      std::lock_guard lock(shared_.mutex);
      if (shared_.passed.empty()) return;
      held = shared_.passed.back();
      shared_.passed.pop_back();
    }
    Free(held);
  }
  void FreeAll() {
    for (const Held& held : live_) Free(held);
  }

 private:
  void Allocate() {
    const uint64_t bytes = random_() % 20 == 0 ? kMiB + random_() % (3 * kMiB)
                                               : 1 + random_() % 20000;
    const StreamRef s = random_() % 2 == 0 ? own_.ref() : shared_.stream.ref();
    absl::StatusOr<void*> made = AllocateMemory(s, bytes);
    ASSERT_OK(made.status());
    shared_.claims.Take(reinterpret_cast<uintptr_t>(*made) / 512,
                        (bytes + 511) / 512, thread_ + 1);
    live_.push_back({static_cast<char*>(*made), bytes});
  }
  void Free(Held held) {
    shared_.claims.Give(reinterpret_cast<uintptr_t>(held.pointer) / 512,
                        (held.bytes + 511) / 512);
    if (random_() % 4 == 0) {
      EXPECT_OK(RecordStream(held.pointer, other_));
    }
    EXPECT_OK(FreeMemory(held.pointer));
  }

  Shared& shared_;
  const int thread_;
  std::mt19937 random_;
  Stream own_ = MtiaTest::NewStream();
  Stream other_ = MtiaTest::NewStream();
  std::vector<Held> live_;
};

TEST_F(MemoryThreads, BlocksNeverOverlap) {
  Shared shared;
  InThreads(6, [&](int thread) {
    Worker worker(&shared, thread);
    for (int step = 0; step < 3000; ++step) {
      worker.Step();
      if (step % 16 == 0) worker.FreeBlockOfAnotherThread();
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
    worker.FreeAll();
  });
  for (const Held& held : shared.passed) EXPECT_OK(FreeMemory(held.pointer));
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
