// SPDX-License-Identifier: Apache-2.0
//
// Random programs on mtia: what is right passes, what is wrong is told with
// its step, and nothing is left behind either way.
#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "cts/random/generator.h"
#include "cts/random/runner.h"
#include "tests/cts/random_program.h"
#include "tests/support/status_matchers.h"

namespace devrt::cts {
namespace {

class RandomRunner : public ::testing::Test {
 protected:
  RandomRunner() : venue_{testing::Must(GetBackend("mtia")), {}, {}, 0} {
    venue_.devices = venue_.backend.devices();
    venue_.simulator = testing::Must(Simulator::Get(venue_.backend));
  }

  std::optional<Mismatch> Run(const Program& program) {
    const std::optional<Mismatch> found = RunProgram(program, venue_);
    const SimulatorStats stats = testing::Must(venue_.simulator->Stats());
    EXPECT_EQ(stats.live_blocks, 0u);
    EXPECT_EQ(stats.live_pinned, 0u);
    EXPECT_EQ(stats.pending_ops, 0u);
    // Refused while a stream or an event is alive.
    EXPECT_TRUE(venue_.simulator->Reset("strategy=random").ok());
    return found;
  }

  // A program whose step `act` expects what is not so.
  static Program Altered(Act act) {
    ByHand p;
    const int s = p.Stream(StreamKind::kNonBlocking), e = p.Event();
    const int x = p.Block(Space::kDevice), out = p.Block(Space::kPinned);
    p.Fill(s, x, 7);
    p.Do(Act::kRecord, s, e);
    p.Copy(s, out, x);
    p.HostFunc(s, out, -1, 0);
    p.Do(Act::kSyncStream, s);
    p.AskEvent(e);
    p.Do(Act::kElapsed, -1, e, e);
    p.Read(out);
    Program program = p.program();
    for (Step& step : program.steps) {
      if (step.act != act) continue;
      for (Content& content : step.found) content.base ^= 1;
      step.truth = act == Act::kElapsed ? Truth::kError : Truth::kFalse;
    }
    return program;
  }

  Venue venue_;
};

// The programs have no races, so a schedule changes no result.
TEST_F(RandomRunner, AProgramHasOneOutcomeInEverySchedule) {
  ProgramShape shape;
  shape.limits = Everything();
  shape.max_devices = 2;
  for (int i = 0; i < 40; ++i) {
    const Program program = Generate(ProgramSeed(11, i), shape);
    std::set<uint64_t> outcomes, schedules;
    for (const std::string strategy :
         {"asap", "hw", "alap", "lifo", "random", "pos", "pct"}) {
      EXPECT_OK(
          venue_.simulator->Reset("outcome=on,seed=5,strategy=" + strategy));
      EXPECT_FALSE(RunProgram(program, venue_).has_value());
      outcomes.insert(testing::Must(venue_.simulator->Outcome()));
      schedules.insert(testing::Must(venue_.simulator->TraceHash()).hash);
    }
    EXPECT_EQ(outcomes.size(), 1u) << ToText(program);
    EXPECT_GT(schedules.size(), 1u);
  }
  EXPECT_OK(venue_.simulator->Reset("strategy=random"));
}

TEST_F(RandomRunner, RightProgramsPass) {
  // With all that there is, and with nothing that a backend may leave out.
  for (const Limits& limits : {Everything(), Limits()}) {
    for (const int threads : {1, 3}) {
      ProgramShape shape;
      shape.limits = limits;
      shape.max_devices = 2;
      shape.max_threads = threads;
      shape.concurrent = threads > 1;
      for (int i = 0; i < 60; ++i) {
        const Program program = Generate(ProgramSeed(9, i), shape);
        const std::optional<Mismatch> found = Run(program);
        EXPECT_FALSE(found.has_value())
            << "step " << found->step << ": " << found->what << "\n"
            << ToText(program);
      }
    }
  }
}

TEST_F(RandomRunner, MismatchNamesTheStep) {
  EXPECT_FALSE(Run(Altered(Act::kBarrier)).has_value());
  const struct {
    Act act;
    const char* text;
  } cases[] = {
      {Act::kHostRead, "byte 0 of the 64 read is 7, not 6"},
      {Act::kHostFunc, "in the host function: byte 0 of the 64 read is 7"},
      {Act::kQueryEvent, "true although a gate"},
      {Act::kElapsed, "an event behind a closed gate"},
  };
  for (const auto& c : cases) {
    const Program program = Altered(c.act);
    const std::optional<Mismatch> found = Run(program);
    ASSERT_TRUE(found.has_value()) << c.text;
    EXPECT_NE(found->what.find(c.text), std::string::npos) << found->what;
    ASSERT_GT(found->step, 0);
    EXPECT_EQ(program.steps[static_cast<size_t>(found->step) - 1].act, c.act);
  }
}

// Nothing after the first mismatch is done; gates do not stay closed.
TEST_F(RandomRunner, GatesAreOpenedAfterAMismatch) {
  ByHand p;
  const int s = p.Stream(StreamKind::kNonBlocking);
  const int in = p.Block(Space::kPinned), x = p.Block(Space::kDevice);
  p.Write(in, 1);
  p.Read(in);
  Program program = p.program();
  program.steps.back().found[0].base ^= 1;
  p.Hold(0, s);
  p.Copy(s, x, in);
  Step hold = p.program().steps[p.program().steps.size() - 2];
  program.steps.insert(program.steps.end() - 1, hold);
  const std::optional<Mismatch> found = Run(program);
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->step, static_cast<int>(program.steps.size()));
}

// The first step may be another thread's, which then starts by itself.
TEST_F(RandomRunner, AnyThreadMayBegin) {
  for (int i = 0; i < 20; ++i) {
    ByHand p;
    p.As(1);
    const int in = p.Block(Space::kPinned);
    p.Write(in, i);
    p.As(0);
    p.Read(in);
    EXPECT_FALSE(Run(p.program()).has_value());
  }
}

}  // namespace
}  // namespace devrt::cts
