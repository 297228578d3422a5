// SPDX-License-Identifier: Apache-2.0
//
// The shadow intervals of the validation layer: each kind of conflict, and
// random accesses against a list of all uses of each byte.
#include <gtest/gtest.h>

#include <array>
#include <random>
#include <vector>

#include "layers/validate/shadow.h"

namespace devrt::race {
namespace {

constexpr uint64_t kBytes = 64;

// A shadow with actors that know only themselves until they join.
struct Block {
  std::array<VectorClock, 4> actor = {VectorClock(0), VectorClock(1),
                                      VectorClock(2), VectorClock(3)};
  Shadow shadow;
  uint64_t operations = 0;

  std::vector<Conflict> Access(Actor by, Range range, Mode mode,
                               uint32_t reduction = 0) {
    std::vector<Conflict> conflicts;
    const Operation operation = {actor[by].Tick(), ++operations};
    shadow.Access(range, mode, operation, actor[by], &conflicts, reduction);
    return conflicts;
  }
};

TEST(ValidateShadow, AccessesOfOneActorDoNotConflict) {
  Block b;
  EXPECT_TRUE(b.Access(0, {0, kBytes}, Mode::kWrite).empty());
  EXPECT_TRUE(b.Access(0, {8, 24}, Mode::kRead).empty());
  EXPECT_TRUE(b.Access(0, {0, kBytes}, Mode::kReadWrite).empty());
}

TEST(ValidateShadow, AReadConflictsWithAnUnorderedWriteWhereTheyOverlap) {
  Block b;
  b.Access(0, {0, 16}, Mode::kWrite);
  const auto conflicts = b.Access(1, {8, kBytes}, Mode::kRead);
  ASSERT_EQ(conflicts.size(), 1u);
  EXPECT_EQ(conflicts[0].range.begin, 8u);
  EXPECT_EQ(conflicts[0].range.end, 16u);
  EXPECT_EQ(conflicts[0].earlier.number, 1u);
  EXPECT_EQ(conflicts[0].earlier_mode, Mode::kWrite);
}

TEST(ValidateShadow, AWriteConflictsWithEveryUnorderedRead) {
  Block b;
  b.Access(0, {0, 16}, Mode::kRead);
  b.Access(1, {0, 16}, Mode::kRead);
  b.actor[2].Join(b.actor[1]);
  const auto conflicts = b.Access(2, {0, 16}, Mode::kWrite);
  ASSERT_EQ(conflicts.size(), 1u);
  EXPECT_EQ(conflicts[0].earlier.number, 1u);
  EXPECT_EQ(conflicts[0].earlier_mode, Mode::kRead);
}

TEST(ValidateShadow, ReadsDoNotConflictWithReads) {
  Block b;
  b.Access(0, {0, kBytes}, Mode::kRead);
  EXPECT_TRUE(b.Access(1, {0, kBytes}, Mode::kRead).empty());
}

TEST(ValidateShadow, AWaitOrdersAccesses) {
  Block b;
  b.Access(0, {0, kBytes}, Mode::kWrite);
  b.actor[1].Join(b.actor[0]);
  EXPECT_TRUE(b.Access(1, {0, kBytes}, Mode::kWrite).empty());
}

TEST(ValidateShadow, ReductionsConflictWithReadsWritesAndOtherOperators) {
  Block b;
  b.Access(0, {0, 8}, Mode::kReduce, 1);
  EXPECT_TRUE(b.Access(1, {0, 8}, Mode::kReduce, 1).empty());
  EXPECT_EQ(b.Access(2, {0, 8}, Mode::kReduce, 2).size(), 2u);
  EXPECT_EQ(b.Access(3, {0, 8}, Mode::kRead).size(), 3u);
  EXPECT_EQ(b.Access(3, {0, 8}, Mode::kWrite).size(), 3u);
}

TEST(ValidateShadow, AReadBetweenReductionsIsNotForgotten) {
  Block b;
  b.Access(0, {0, 8}, Mode::kRead);
  b.actor[1].Join(b.actor[0]);
  b.Access(1, {0, 8}, Mode::kReduce);
  const auto conflicts = b.Access(2, {0, 8}, Mode::kReduce);
  ASSERT_EQ(conflicts.size(), 1u);
  EXPECT_EQ(conflicts[0].earlier_mode, Mode::kRead);
}

TEST(ValidateShadow, NeighbouringBytesMakeOneConflict) {
  Block b;
  b.Access(0, {0, kBytes}, Mode::kWrite);
  b.actor[1].Join(b.actor[0]);
  b.Access(1, {16, 24}, Mode::kRead);
  const auto conflicts = b.Access(2, {0, kBytes}, Mode::kRead);
  ASSERT_EQ(conflicts.size(), 1u);
  EXPECT_EQ(conflicts[0].range.end, kBytes);
}

TEST(ValidateShadow, AWriteMergesIntervalsAndForgetRemovesThem) {
  Block b;
  for (uint64_t i = 0; i < kBytes; i += 8) {
    b.Access(0, {i, i + 4}, Mode::kWrite);
  }
  EXPECT_EQ(b.shadow.intervals(), kBytes / 8);
  b.Access(0, {0, kBytes}, Mode::kWrite);
  EXPECT_EQ(b.shadow.intervals(), 1u);
  b.Access(1, {0, 8}, Mode::kRead);
  b.shadow.Forget(b.actor[0]);
  EXPECT_EQ(b.shadow.intervals(), 1u);
  b.shadow.Forget(b.actor[1]);
  EXPECT_EQ(b.shadow.intervals(), 0u);
}

// ---- Random accesses --------------------------------------------------------

struct Past {
  Operation by;
  Mode mode;
  uint32_t reduction;
};

bool Conflicts(Mode a, uint32_t of_a, Mode b, uint32_t of_b) {
  if (a == Mode::kRead && b == Mode::kRead) return false;
  return a != Mode::kReduce || b != Mode::kReduce || of_a != of_b;
}

TEST(ValidateShadow, RandomAccessesAgreeWithAListOfAllUses) {
  std::mt19937 random(7);
  const auto pick = [&](uint64_t n) { return random() % n; };
  uint64_t found = 0;
  for (int program = 0; program < 400; ++program) {
    Block b;
    std::array<std::vector<Past>, kBytes> past;
    std::array<bool, kBytes> reported = {};
    for (int step = 0; step < 80; ++step) {
      const auto by = static_cast<Actor>(pick(4));
      if (pick(3) == 0) b.actor[by].Join(b.actor[pick(4)]);
      const uint64_t begin = pick(kBytes);
      const Range range = {begin, begin + 1 + pick(kBytes - begin)};
      const auto mode = static_cast<Mode>(pick(4));
      const auto reduction = static_cast<uint32_t>(pick(2));
      const auto conflicts = b.Access(by, range, mode, reduction);
      std::array<bool, kBytes> now = {};
      for (const Conflict& c : conflicts) {
        ++found;
        for (uint64_t byte = c.range.begin; byte < c.range.end; ++byte) {
          now[byte] = true;
          // The use that is reported did use the byte, and is unordered.
          bool real = false;
          for (const Past& p : past[byte]) {
            real |= p.by.number == c.earlier.number &&
                    p.mode == c.earlier_mode &&
                    Conflicts(p.mode, p.reduction, mode, reduction);
          }
          ASSERT_TRUE(real) << "byte " << byte << " of step " << step;
          ASSERT_FALSE(b.actor[by].Knows(c.earlier.epoch));
        }
      }
      for (uint64_t byte = range.begin; byte < range.end; ++byte) {
        bool expected = false;
        for (const Past& p : past[byte]) {
          expected |= !b.actor[by].Knows(p.by.epoch) &&
                      Conflicts(p.mode, p.reduction, mode, reduction);
        }
        if (expected && !reported[byte]) {
          ASSERT_TRUE(now[byte]) << "byte " << byte << " of step " << step;
        }
        reported[byte] |= now[byte];
        past[byte].push_back(
            {{b.actor[by].now(), b.operations}, mode, reduction});
      }
    }
  }
  EXPECT_GT(found, 1000u);
}

}  // namespace
}  // namespace devrt::race
