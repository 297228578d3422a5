// SPDX-License-Identifier: Apache-2.0
//
// FreeBlocks beside an ordered set that is searched from its beginning.

#include "memory/device/free_blocks.h"

#include <gtest/gtest.h>

#include <random>
#include <set>
#include <vector>

namespace devrt::internal {
namespace {

// The best fit (docs/reference/semantics.md 3.3): least size, then least
// address.
struct Naive {
  struct Less {
    bool operator()(const Block* a, const Block* b) const {
      if (a->size != b->size) return a->size < b->size;
      return a->address() < b->address();
    }
  };
  std::set<Block*, Less> blocks;

  Block* Best(uint32_t granules) const {
    for (Block* b : blocks) {
      if (b->size >= granules) return b;
    }
    return nullptr;
  }
};

class Segments {
 public:
  explicit Segments(bool small) : small_(small) {}
  ~Segments() {
    for (Segment* s : all_) Segment::Recycle(s);
  }
  Segment* New(uintptr_t base, uint64_t bytes) {
    all_.push_back(
        Segment::Make(nullptr, reinterpret_cast<void*>(base), bytes, small_));
    return all_.back();
  }

 private:
  const bool small_;
  std::vector<Segment*> all_;
};

// Blocks of random sizes at random places, in a few segments whose order in
// memory is not that of their making.
std::vector<Block*> MakeBlocks(Segments* segments, std::mt19937* random,
                               uint32_t sizes) {
  std::vector<Block*> blocks;
  for (uintptr_t base :
       {uintptr_t{9} << 30, uintptr_t{3} << 30, uintptr_t{5} << 30}) {
    Segment* segment = segments->New(base, kSmallSegment);
    for (uint32_t at = 0; at < 4000; at += 8) {
      Block* block = segment->Begin(at);
      block->use = BlockUse::kFree;
      block->size = 1 + (*random)() % sizes;
      blocks.push_back(block);
    }
  }
  return blocks;
}

TEST(SmallFreeBlocksTest, AgreesWithALinearSearch) {
  for (uint32_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    // Few sizes: long heaps; all sizes: all groups, the last bin too.
    const uint32_t sizes = seed % 2 == 0 ? 3 : 4096;
    Segments segments(true);
    std::vector<Block*> blocks = MakeBlocks(&segments, &random, sizes);
    SmallFreeBlocks free;
    Naive naive;
    for (int step = 0; step < 4000; ++step) {
      Block* block = blocks[random() % blocks.size()];
      if (naive.blocks.count(block) != 0) {
        free.Remove(block);
        naive.blocks.erase(block);
      } else {
        free.Insert(block);
        naive.blocks.insert(block);
      }
      const uint32_t wanted = 1 + random() % 4096;
      ASSERT_EQ(free.Best(wanted), naive.Best(wanted));
      ASSERT_EQ(free.Best(1 + wanted % 3), naive.Best(1 + wanted % 3));
    }
  }
}

TEST(SmallFreeBlocksTest, AfterVisitsAllOnceBySize) {
  std::mt19937 random(7);
  Segments segments(true);
  SmallFreeBlocks free;
  std::set<Block*> all;
  for (Block* block : MakeBlocks(&segments, &random, 300)) {
    free.Insert(block);
    all.insert(block);
  }
  // Leaves the heaps in shapes that insertions alone do not give.
  for (int i = 0; i < 500; ++i) {
    Block* best = free.Best(1 + random() % 300);
    if (best == nullptr) continue;
    free.Remove(best);
    all.erase(best);
  }
  uint32_t before = 0;
  for (Block* b = free.Best(1); b != nullptr; b = free.After(b)) {
    EXPECT_GE(b->size, before);
    before = b->size;
    ASSERT_EQ(all.erase(b), 1u);
  }
  EXPECT_TRUE(all.empty());
}

TEST(SmallFreeBlocksTest, BlocksAboveTwoMiBShareTheLastBin) {
  Segments segments(true);
  Segment* segment = segments.New(uintptr_t{4} << 30, 8 * kSmallSegment);
  SmallFreeBlocks free;
  Block* large = segment->Begin(0);
  large->size = 9000;
  Block* larger = segment->Begin(9000);
  larger->size = 10000;
  free.Insert(larger);
  free.Insert(large);
  EXPECT_EQ(free.Best(4096), large);
  EXPECT_EQ(free.After(large), larger);
  EXPECT_EQ(free.After(larger), nullptr);
  free.Remove(large);
  EXPECT_EQ(free.Best(1), larger);
  free.Remove(larger);
  EXPECT_EQ(free.Best(1), nullptr);
  EXPECT_EQ(free.Best(4096), nullptr);
}

TEST(LargeFreeBlocksTest, KeepsToTheLimit) {
  Segments segments(false);
  LargeFreeBlocks free;
  std::vector<Block*> blocks;
  for (uint64_t mib : {8, 2, 8, 40}) {
    Segment* s = segments.New(uintptr_t{1 + blocks.size()} << 32, mib * kMiB);
    Block* b = s->Begin(0);
    b->size = static_cast<uint32_t>(mib * kMiB / kGranule);
    free.Insert(b);
    blocks.push_back(b);
  }
  EXPECT_EQ(free.Best(3 * kMiB, UINT64_MAX), blocks[0]);
  // The last one, which is kept apart, has its place among the others.
  EXPECT_EQ(free.Best(1, UINT64_MAX), blocks[1]);
  EXPECT_EQ(free.After(blocks[1]), blocks[0]);
  EXPECT_EQ(free.After(blocks[0]), blocks[2]);
  EXPECT_EQ(free.After(blocks[2]), blocks[3]);
  EXPECT_EQ(free.After(blocks[3]), nullptr);
  EXPECT_EQ(free.Best(9 * kMiB, UINT64_MAX), blocks[3]);
  EXPECT_EQ(free.Best(9 * kMiB, 40 * kMiB), nullptr);
  EXPECT_EQ(free.Best(9 * kMiB, 40 * kMiB + 1), blocks[3]);
  free.Remove(blocks[0]);
  EXPECT_EQ(free.Best(3 * kMiB, UINT64_MAX), blocks[2]);
  free.Remove(blocks[3]);
  EXPECT_EQ(free.Best(9 * kMiB, UINT64_MAX), nullptr);
  free.Insert(blocks[0]);
  EXPECT_EQ(free.Best(3 * kMiB, UINT64_MAX), blocks[0]);
  free.Insert(blocks[3]);
  EXPECT_EQ(free.Best(3 * kMiB, UINT64_MAX), blocks[0]);
  EXPECT_EQ(free.After(blocks[2]), blocks[3]);
}

}  // namespace
}  // namespace devrt::internal
