// SPDX-License-Identifier: Apache-2.0
//
// The table of live blocks.

#include "runtime/raw_memory/allocation_table.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

#include "tests/support/test_seed.h"

namespace devrt::internal {
namespace {

void* At(uintptr_t address) { return reinterpret_cast<void*>(address); }

class AllocationTableTest : public ::testing::Test {
 protected:
  AllocationTableTest() {
    for (BackendRecord* backend : {&a_, &b_}) {
      backend->devices.push_back(new DeviceRecord);
      backend->devices[0]->backend = backend;
    }
  }
  ~AllocationTableTest() override {
    for (BackendRecord* backend : {&a_, &b_}) delete backend->devices[0];
  }

  static AllocationRange Range(const BackendRecord& backend, uintptr_t address,
                               uint64_t size, bool registered = false) {
    AllocationRange range;
    range.device = backend.devices[0];
    range.kind = registered ? PointerKind::kPinned : PointerKind::kDevice;
    range.registered = registered;
    range.base = At(address);
    range.size = size;
    return range;
  }

  AllocationTable table_;
  BackendRecord a_, b_;
};

TEST_F(AllocationTableTest, FindsInteriorPointers) {
  AllocationRange range = Range(a_, 1000, 24);
  ASSERT_FALSE(table_.Insert(&range).has_value());
  EXPECT_NE(range.id, 0u);
  EXPECT_FALSE(table_.Find(At(999)).has_value());
  EXPECT_EQ(table_.Find(At(1000))->id, range.id);
  EXPECT_EQ(table_.Find(At(1023))->base, At(1000));
  EXPECT_FALSE(table_.Find(At(1024)).has_value());
  EXPECT_FALSE(table_.Find(nullptr).has_value());
}

TEST_F(AllocationTableTest, RefusesOverlap) {
  AllocationRange range = Range(a_, 1000, 24);
  ASSERT_FALSE(table_.Insert(&range).has_value());
  const std::vector<std::pair<uintptr_t, uint64_t>> overlapping = {
      {1000, 24}, {999, 2}, {1023, 1}, {1010, 1}, {900, 1000}, {1, UINT64_MAX}};
  for (const auto& [address, size] : overlapping) {
    AllocationRange other = Range(b_, address, size);
    const auto in_the_way = table_.Insert(&other);
    ASSERT_TRUE(in_the_way.has_value()) << address << " + " << size;
    EXPECT_EQ(in_the_way->id, range.id);
  }
  for (uintptr_t address : {999, 1024}) {
    AllocationRange other = Range(b_, address, 1);
    EXPECT_FALSE(table_.Insert(&other).has_value());
  }
}

TEST_F(AllocationTableTest, IdsAreNeverReused) {
  AllocationRange range = Range(a_, 1000, 24);
  table_.Insert(&range);
  const AllocationRange first = range;
  EXPECT_TRUE(table_.Remove(first, CallSite()));
  EXPECT_FALSE(table_.Remove(first, CallSite()));
  table_.Insert(&range);
  EXPECT_GT(range.id, first.id);
  EXPECT_FALSE(
      table_.Remove(first, CallSite()));  // another block at that address
  EXPECT_TRUE(table_.Find(At(1000)).has_value());
}

TEST_F(AllocationTableTest, RestoreKeepsTheId) {
  AllocationRange range = Range(a_, 1000, 24);
  table_.Insert(&range);
  table_.Remove(range, CallSite());
  table_.Restore(range);
  EXPECT_EQ(table_.Find(At(1000))->id, range.id);
}

TEST_F(AllocationTableTest, BackendsRegisterTheSameRange) {
  AllocationRange by_a = Range(a_, 1000, 24, true);
  AllocationRange by_b = Range(b_, 1008, 4, true);
  AllocationRange again = Range(b_, 1000, 9, true);
  EXPECT_FALSE(table_.Insert(&by_a).has_value());
  EXPECT_FALSE(table_.Insert(&by_b).has_value());
  EXPECT_TRUE(table_.Insert(&again).has_value());
  EXPECT_EQ(table_.FindRegistered(&a_, At(1008))->base, At(1000));
  EXPECT_EQ(table_.FindRegistered(&b_, At(1008))->base, At(1008));
  EXPECT_FALSE(table_.FindRegistered(&b_, At(1000)).has_value());
  EXPECT_TRUE(table_.Remove(by_b, CallSite()));
  EXPECT_FALSE(table_.FindRegistered(&b_, At(1008)).has_value());
  EXPECT_TRUE(table_.Find(At(1008))->registered);
}

TEST_F(AllocationTableTest, RegisteredRangesAvoidBlocks) {
  AllocationRange block = Range(a_, 1000, 24);
  AllocationRange registered = Range(b_, 1020, 24, true);
  table_.Insert(&block);
  EXPECT_EQ(table_.Insert(&registered)->id, block.id);
}

TEST_F(AllocationTableTest, SegmentsOfAllocatorsAreNoOthers) {
  AllocationRange segment = Range(a_, 1 << 21, 1 << 21);
  segment.cached = true;
  AllocationRange block = Range(a_, 1000, 24);
  AllocationRange registered = Range(a_, 2000, 24, true);
  AllocationRange pinned = Range(a_, 3000, 24);
  pinned.kind = PointerKind::kPinned;
  pinned.cached = true;
  EXPECT_FALSE(table_.Insert(&segment).has_value());
  EXPECT_FALSE(table_.HasOthers());
  for (AllocationRange* range : {&block, &registered, &pinned}) {
    EXPECT_FALSE(table_.Insert(range).has_value());
    EXPECT_TRUE(table_.Insert(range).has_value());  // changes nothing
    EXPECT_TRUE(table_.HasOthers());
    EXPECT_TRUE(table_.Remove(*range, CallSite()));
    EXPECT_FALSE(table_.Remove(*range, CallSite()));
    EXPECT_FALSE(table_.HasOthers());
    table_.Restore(*range);
    EXPECT_TRUE(table_.HasOthers());
    EXPECT_TRUE(table_.Remove(*range, CallSite()));
  }
  // By address and number alone, as allocators do it.
  AllocationRange bare;
  bare.device = segment.device;
  bare.base = segment.base;
  bare.id = segment.id;
  EXPECT_TRUE(table_.Remove(bare, CallSite()));
  EXPECT_FALSE(table_.HasOthers());
}

TEST_F(AllocationTableTest, AgreesWithAModel) {
  SCOPED_TRACE(testing::SeedTrace());
  std::mt19937 random(testing::TestSeed());
  std::map<uintptr_t, AllocationRange> model;
  for (int step = 0; step < 20000; ++step) {
    const uintptr_t address = 1 + random() % 4096;
    const uint64_t size = 1 + random() % 64;
    if (random() % 2 == 0) {
      bool free = true;
      for (const auto& [base, range] : model) {
        free = free && (base + range.size <= address || address + size <= base);
      }
      AllocationRange range = Range(a_, address, size);
      ASSERT_EQ(table_.Insert(&range).has_value(), !free);
      if (free) model[address] = range;
    } else if (const auto found = table_.Find(At(address))) {
      const uintptr_t base = reinterpret_cast<uintptr_t>(found->base);
      ASSERT_EQ(model.count(base), 1u);
      ASSERT_TRUE(address - base < model[base].size);
      ASSERT_TRUE(table_.Remove(*found, CallSite()));
      model.erase(base);
    } else {
      for (const auto& [base, range] : model) {
        ASSERT_FALSE(base <= address && address < base + range.size);
      }
    }
  }
}

TEST_F(AllocationTableTest, ManyThreads) {
  constexpr int kThreads = 4, kRounds = 2000;
  std::atomic<bool> end{false};
  std::vector<std::thread> threads;
  for (uintptr_t t = 1; t <= kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < kRounds; ++i) {
        AllocationRange range = Range(a_, t << 20, 64);
        EXPECT_FALSE(table_.Insert(&range).has_value());
        EXPECT_EQ(table_.Find(At((t << 20) + 63))->id, range.id);
        EXPECT_TRUE(table_.Remove(range, CallSite()));
      }
    });
  }
  std::thread reader([&] {
    while (!end) table_.Find(At(1 << 20));
  });
  for (std::thread& thread : threads) thread.join();
  end = true;
  reader.join();
}

}  // namespace
}  // namespace devrt::internal
