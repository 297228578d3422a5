// SPDX-License-Identifier: Apache-2.0
//
// Random programs as they are made, and made small.
#include <gtest/gtest.h>

#include <set>
#include <string>

#include "cts/random/generator.h"
#include "cts/random/shrink.h"
#include "tests/cts/random_program.h"

namespace devrt::cts {
namespace {

constexpr int kPrograms = 300;

ProgramShape Wide() {
  ProgramShape shape;
  shape.limits = Everything();
  shape.max_devices = 2;
  shape.max_threads = 3;
  shape.concurrent = true;
  return shape;
}

TEST(RandomGenerator, TheSameSeedGivesTheSameProgram) {
  for (int i = 0; i < 20; ++i) {
    const uint64_t seed = ProgramSeed(5, i);
    EXPECT_EQ(ToText(Generate(seed, Wide())), ToText(Generate(seed, Wide())));
  }
}

TEST(RandomGenerator, SeedsAreAddresses) {
  std::set<uint64_t> seeds;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    EXPECT_EQ(ProgramSeed(seed, 0), seed);
    for (int i = 1; i < 200; ++i) {
      const uint64_t of_program = ProgramSeed(seed, i);
      EXPECT_LT(of_program, uint64_t{1} << 63);  // --seed takes no more
      seeds.insert(of_program);
    }
  }
  EXPECT_EQ(seeds.size(), 20u * 199u);
}

TEST(RandomGenerator, ProgramsAreLegalAndUseEverything) {
  std::set<Act> acts;
  std::set<Truth> truths;
  int concurrent = 0, conditional_reads = 0;
  for (int i = 0; i < kPrograms; ++i) {
    const Program program = Generate(ProgramSeed(1, i), Wide());
    EXPECT_EQ(ToText(Repaired(program, Everything())), ToText(program));
    concurrent += program.concurrent ? 1 : 0;
    for (const Step& step : program.steps) {
      acts.insert(step.act);
      const bool query =
          step.act == Act::kQueryEvent || step.act == Act::kQueryStream;
      if (query) truths.insert(step.truth);
      if (query && step.truth == Truth::kAny && step.src.block >= 0) {
        ++conditional_reads;
      }
    }
  }
  EXPECT_EQ(acts.size(), static_cast<size_t>(Act::kBarrier) + 1);
  EXPECT_EQ(truths.size(), 4u);
  EXPECT_GT(concurrent, kPrograms / 4);
  EXPECT_LT(concurrent, kPrograms * 3 / 4);
  EXPECT_GT(conditional_reads, kPrograms / 10);
}

TEST(RandomGenerator, UnofferedCapabilitiesAreNotUsed) {
  ProgramShape shape = Wide();
  shape.limits = Limits();
  size_t steps = 0;
  for (int i = 0; i < kPrograms; ++i) {
    const Program program = Generate(ProgramSeed(1, i), shape);
    steps += program.steps.size();
    for (const Step& step : program.steps) {
      EXPECT_NE(step.act, Act::kHostFunc);
      EXPECT_NE(step.act, Act::kHold);
      EXPECT_NE(step.act, Act::kSpin);
      EXPECT_NE(step.act, Act::kElapsed);
      if (step.act != Act::kNewBlock) continue;
      const auto block = static_cast<size_t>(step.dst.block);
      EXPECT_NE(program.blocks[block].space, Space::kPinned);
    }
  }
  EXPECT_GT(steps, static_cast<size_t>(kPrograms) * 10);
}

// ---- Made small

size_t Count(const Program& program, Act act) {
  size_t count = 0;
  for (const Step& step : program.steps) count += step.act == act ? 1 : 0;
  return count;
}

bool HasAWait(const Program& program) {
  return Count(program, Act::kRecord) > 0 && Count(program, Act::kWait) > 0;
}

TEST(RandomShrink, KeepsOnlyTheFailingSteps) {
  int shrunk = 0;
  for (int i = 0; i < 60; ++i) {
    const Program program = Generate(ProgramSeed(3, i), Wide());
    if (!HasAWait(program)) continue;
    ++shrunk;
    const Program small =
        Shrink(program, Everything(), &HasAWait, [] { return false; });
    EXPECT_TRUE(HasAWait(small)) << ToText(small);
    EXPECT_EQ(small.threads, 1);
    EXPECT_EQ(Count(small, Act::kRecord), 1u) << ToText(small);
    EXPECT_EQ(Count(small, Act::kWait), 1u);
    // With the two events and the two streams that they may need.
    EXPECT_LE(small.steps.size(), 6u) << ToText(small);
    EXPECT_EQ(ToText(Repaired(small, Everything())), ToText(small));
  }
  EXPECT_GT(shrunk, 20);
}

TEST(RandomShrink, ThreadsRemainWhereTheyMatter) {
  const auto fails = [](const Program& p) {
    bool other = false;
    for (const Step& step : p.steps) {
      other = other || (step.thread != 0 && step.act == Act::kCopy);
    }
    return other;
  };
  int shrunk = 0;
  for (int i = 0; i < 60; ++i) {
    const Program program = Generate(ProgramSeed(4, i), Wide());
    if (!fails(program)) continue;
    ++shrunk;
    const Program small =
        Shrink(program, Everything(), fails, [] { return false; });
    EXPECT_TRUE(fails(small));
    // A second copy may have brought the data that the first one copies.
    EXPECT_LE(Count(small, Act::kCopy), 2u) << ToText(small);
  }
  EXPECT_GT(shrunk, 20);
}

// Of a failure that does not repeat: the smaller program that failed is not
// lost, and what is told of it is told in its own numbers.
TEST(RandomShrink, TheLastProgramThatFailedIsTheResult) {
  const Program program = Generate(7, Wide());
  for (int failures = 0; failures < 4; ++failures) {
    Program last = program;
    int left = failures;
    const Program small = Shrink(
        program, Everything(),
        [&](const Program& p) {
          EXPECT_EQ(ToText(Compact(p, Everything())), ToText(p));
          if (left == 0) return false;
          --left;
          last = p;
          return true;
        },
        [] { return false; });
    EXPECT_EQ(ToText(small), ToText(last));
  }
}

TEST(RandomShrink, KeepsTheProgramWhenTimeIsOver) {
  const Program program = Generate(7, Wide());
  const Program small = Shrink(
      program, Everything(), [](const Program&) { return true; },
      [] { return true; });
  EXPECT_EQ(small.steps.size(), program.steps.size());
}

}  // namespace
}  // namespace devrt::cts
