// SPDX-License-Identifier: Apache-2.0
//
// Explore, Replay and Shrink of devrt/sim/explore.h.
#include "devrt/sim/explore.h"

#include <algorithm>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "backends/text/replay_token.h"
#include "devrt/sim/explore_gtest.h"
#include "tests/sim/bodies.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using Verdict = sim::Result::Verdict;

sim::Options Seeded() {
  sim::Options options;
  options.seed = 1;
  return options;
}

int64_t NonDefault(const sim::Run& run) {
  return std::count_if(
      run.decisions.begin(), run.decisions.end(),
      [](const SimulatedDecision& made) { return made.choice != 0; });
}

TEST(Explore, ARightBodyPassesInEachSchedule) {
  const sim::Result result =
      sim::Explore(Seeded(), [] { return TwoUpdates(true); });
  EXPECT_TRUE(result.ok()) << result.text();
  EXPECT_EQ(result.schedules, 100u);
  // Whatever runs in between, the two updates have one order.
  EXPECT_EQ(result.distinct, 1u);
  EXPECT_EQ(result.text(), "passed: 100 schedules, 1 distinct\n");
  EXPECT_EQ(result.token(), "");
  EXPECT_EQ(result.svg(), "");
}

// The text that says that a token does not fit `body`.
std::string MisfitOf(const sim::Options& options, const std::string& token,
                     const sim::Body& body) {
  const sim::Result result = sim::Replay(options, token, body);
  EXPECT_EQ(result.verdict, Verdict::kUncertain) << result.text();
  EXPECT_EQ(result.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(result.text(), StartsWith("no verdict: "));
  return std::string(result.status.message());
}

TEST(Explore, ATokenOfAnotherProgramIsNamed) {
  sim::Options options = Seeded();
  const auto body = [] { return TwoUpdates(false); };
  const sim::Result result = sim::Explore(options, body);
  ASSERT_EQ(result.verdict, Verdict::kFailed);
  EXPECT_THAT(MisfitOf(options, result.token(), [] {}),
              HasSubstr("the replay token is of another program, or of an "
                        "earlier state of this one: the run ended before 1 "
                        "decision of it; explore this program anew"));
  internal::ReplayToken parts;
  std::string error;
  ASSERT_TRUE(internal::ParseReplayToken(result.token(), &parts, &error));
  parts.runs = {{0, 9, 1}};
  const std::string other = internal::FormatReplayToken(parts);
  EXPECT_THAT(MisfitOf(options, other, [] { return TwoUpdates(true); }),
              ::testing::ContainsRegex(
                  "its decision 1 takes way 10, and this run has [23] there"));
  // A failure stays one, and the token of the run is its own.
  const sim::Result failed = sim::Replay(options, other, [] {
    static_cast<void>(TwoUpdates(true));
    return absl::InternalError("always");
  });
  EXPECT_EQ(failed.verdict, Verdict::kFailed);
  EXPECT_THAT(failed.note, HasSubstr("its decision 1 takes way 10"));
  EXPECT_NE(failed.token(), other);
  // What the search itself makes of a token is told to nobody.
  EXPECT_TRUE(sim::Explore(options, [] { return TwoUpdates(true); }).ok());
  EXPECT_OK(Must(Simulator::Get()).CheckReplay());
}

TEST(Explore, AFailureHasATokenWithFewDecisions) {
  sim::Options options = Seeded();
  options.strategies = {"random"};
  const auto body = [] { return TwoUpdates(false); };
  const sim::Result result = sim::Explore(options, body);
  EXPECT_EQ(result.verdict, Verdict::kFailed);
  EXPECT_STATUS(result.status, kInternal, "expected 5");
  EXPECT_LE(NonDefault(result.failing), 2) << result.text();
  EXPECT_OK(result.passing.status);
  EXPECT_FALSE(result.passing.operations.empty());

  const sim::Result again = sim::Replay(options, result.token(), body);
  EXPECT_EQ(again.verdict, Verdict::kFailed);
  EXPECT_EQ(again.failing.trace.hash, result.failing.trace.hash);
  EXPECT_EQ(again.token(), result.token());
}

TEST(Explore, AReportShowsBothRunsAndHowToRepeat) {
  sim::Options options = Seeded();
  options.strategies = {"random"};
  const sim::Result result =
      sim::Explore(options, [] { return TwoUpdates(false); });
  const std::string text = result.text();
  EXPECT_THAT(text, StartsWith("failed: INTERNAL: the value is "));
  EXPECT_THAT(text, HasSubstr("seed: 1\n"));
  EXPECT_THAT(text, HasSubstr("repeat it: DEVRT_SIM_REPLAY=" + result.token() +
                              " PROGRAM\n"));
  EXPECT_THAT(text, HasSubstr("decisions that are not the default: "));
  EXPECT_THAT(text, HasSubstr("\"double\" (bodies.h:"));
  EXPECT_THAT(text, HasSubstr("failing run "));
  EXPECT_THAT(text, HasSubstr(" | "));
  EXPECT_THAT(text, HasSubstr("unordered pairs of operations on one memory: "));
  const std::string svg = result.svg();
  EXPECT_THAT(svg, StartsWith("<svg"));
  EXPECT_THAT(svg, HasSubstr("failing, mtia:0"));
  EXPECT_THAT(svg, HasSubstr("passing, mtia:0"));
}

TEST(Explore, StrategiesThatNeverVaryRunOnce) {
  sim::Options options = Seeded();
  options.runs = 7;
  options.check_every = 0;
  options.strategies = {"random", "alap", "hw", "lifo"};
  std::vector<std::string> seen;
  const sim::Result result = sim::Explore(options, [&] {
    const std::string config = Must(Must(Simulator::Get()).Config());
    const size_t strategy = config.find("strategy=") + 9;
    const size_t seed = config.find("seed=") + 5;
    seen.push_back(
        config.substr(strategy, config.find(',', strategy) - strategy) +
        config.substr(seed, config.find(',', seed) - seed));
  });
  EXPECT_TRUE(result.ok()) << result.text();
  EXPECT_THAT(seen, ::testing::ElementsAre("alap1", "lifo2", "random3", "hw4",
                                           "random5", "hw6", "random7"));
  options.strategies = {"alap"};
  EXPECT_EQ(sim::Explore(options, [] {}).schedules, 1u);
}

// Threads that wait for each other by devrt's calls and by std::thread.
TEST(Explore, ABodyMayStartThreads) {
  sim::Options options = Seeded();
  options.runs = 20;
  const sim::Result result = sim::Explore(options, [] {
    const Scene scene;
    std::thread other([&] { scene.Update(1, 1, 3); });
    other.join();
    scene.Order(1, 0);
    scene.Update(0, 2, 0);
    return ExpectValue(scene.Value(), 8);
  });
  EXPECT_TRUE(result.ok()) << result.text();
}

TEST(Explore, OptionsWithAMistake) {
  const auto expect = [](sim::Options options, const char* text) {
    bool ran = false;
    const sim::Result result = sim::Explore(options, [&] { ran = true; });
    EXPECT_EQ(result.verdict, Verdict::kNotStarted);
    EXPECT_THAT(result.text(), StartsWith("not explored: "));
    EXPECT_THAT(result.text(), HasSubstr(text));
    EXPECT_FALSE(ran);
  };
  sim::Options options = Seeded();
  options.config = "seed=3";
  expect(options, "has the key \"seed\", which changes from run to run");
  options.config = "strategy=hw";
  expect(options, "has the key \"strategy\"");
  options.config = "mode=threaded";
  expect(options, "leave the mode out");
  options.config = "memroy=64MiB";
  expect(options, "memroy");
  options.config = "";
  options.strategies = {"nope"};
  expect(options, "nope");
}

TEST(Explore, ATokenOfAnotherMachineSaysWhatDiffers) {
  sim::Options options = Seeded();
  options.strategies = {"alap"};
  const sim::Result result =
      sim::Explore(options, [] { return absl::InternalError("on purpose"); });
  options.config = "memory=32MiB";
  bool ran = false;
  const auto body = [&] { ran = true; };
  EXPECT_STATUS(sim::Replay(options, result.token(), body).status,
                kFailedPrecondition, "another configuration");
  EXPECT_STATUS(sim::Replay(options, "dvs2:0:0:hw:", body).status,
                kInvalidArgument, "version");
  EXPECT_FALSE(ran);
}

TEST(Explore, ExceptionsFailTheRun) {
  const sim::Result known =
      sim::Explore(Seeded(), [] { throw std::out_of_range("too far"); });
  EXPECT_STATUS(known.status, kUnknown,
                "the body threw std::out_of_range: too far");
  const sim::Result unknown = sim::Explore(Seeded(), [] { throw 3; });
  EXPECT_STATUS(unknown.status, kUnknown, "the body threw int");
  EXPECT_EQ(unknown.verdict, Verdict::kFailed);
}

TEST(Explore, CancelledEndsTheExploration) {
  int runs = 0;
  const sim::Result result = sim::Explore(Seeded(), [&] {
    return ++runs == 3 ? absl::CancelledError("enough") : absl::OkStatus();
  });
  EXPECT_EQ(runs, 3);
  EXPECT_EQ(result.verdict, Verdict::kNotStarted);
  EXPECT_STATUS(result.status, kCancelled, "enough");
}

TEST(Explore, FailedAssertionsOfCheckedFailTheRun) {
  sim::Options options = Seeded();
  options.strategies = {"random"};
  const sim::Result result = sim::Explore(options, sim::Checked([] {
                                            const Scene scene;
                                            scene.Update(0, 2, 0);
                                            scene.Update(1, 1, 3);
                                            EXPECT_EQ(scene.Value(), 5);
                                          }));
  EXPECT_EQ(result.verdict, Verdict::kFailed);
  EXPECT_STATUS(result.status, kInternal, "explore_test.cc:");
  EXPECT_LE(NonDefault(result.failing), 2);
}

TEST(Explore, ObjectsThatOutliveARunAreNamed) {
  std::vector<Stream> kept;
  sim::Options options = Seeded();
  options.check_every = 0;
  const auto body = [&] {
    kept.push_back(Must(Stream::Create(Must(GetDevice("mtia:0")))));
  };
  const sim::Result result = sim::Explore(options, body);
  EXPECT_EQ(result.verdict, Verdict::kNotStarted);
  EXPECT_STATUS(result.status, kFailedPrecondition,
                "after 1 run: simulator reset is refused while objects are "
                "alive: mtia:0 has 1 stream");
  options.before_run = [&] {
    kept.clear();
    return absl::OkStatus();
  };
  EXPECT_TRUE(sim::Explore(options, body).ok());
  kept.clear();
  options.before_run = [] { return absl::DataLossError("no file"); };
  EXPECT_STATUS(sim::Explore(options, body).status, kDataLoss, "no file");
}

TEST(Explore, ABodyThatDependsOnMoreThanTheScheduleHasNoVerdict) {
  int runs = 0;  // stands for real time
  const sim::Result result = sim::Explore(Seeded(), [&] {
    const Scene scene;
    if (++runs % 2 == 0) scene.Update(0, 1, 0, "every second time");
    scene.Update(1, 1, 0);
    scene.Value();
  });
  EXPECT_EQ(result.verdict, Verdict::kUncertain);
  EXPECT_EQ(runs, 2);
  EXPECT_THAT(result.text(), StartsWith("no verdict: "));
  EXPECT_THAT(result.text(), HasSubstr("such as real time"));
  EXPECT_THAT(result.text(), HasSubstr("step 1 was: host: \"update\""));
  EXPECT_THAT(result.text(),
              HasSubstr("in the repetition: host: \"every second time\""));
}

TEST(Explore, AFailureThatDoesNotRepeatHasNoVerdict) {
  int runs = 0;
  const sim::Result result = sim::Explore(Seeded(), [&] {
    return ++runs == 5 ? absl::InternalError("once") : absl::OkStatus();
  });
  EXPECT_EQ(result.verdict, Verdict::kUncertain);
  EXPECT_STATUS(result.status, kInternal, "once");
  EXPECT_EQ(runs, 6);
}

TEST(Explore, ABodyWithoutEndFailsByItsSteps) {
  sim::Options options = Seeded();
  options.config = "step_limit=2000";
  options.shrink_runs = 0;
  const sim::Result result = sim::Explore(options, []() -> absl::Status {
    const Scene scene;
    for (;;) {
      scene.Nothing(0);
      DEVRT_RETURN_IF_ERROR(scene.stream(0).Synchronize());
    }
  });
  EXPECT_EQ(result.verdict, Verdict::kFailed);
  EXPECT_STATUS(result.status, kFailedPrecondition,
                "the step limit was reached");
}

TEST(Explore, ABodyThatPollsForeverFails) {
  sim::Options options = Seeded();
  options.shrink_runs = 0;
  const sim::Result result = sim::Explore(options, []() -> absl::Status {
    const Scene scene;
    const Flag flag = Must(Flag::Create(scene.device()));
    Must(flag.WaitOn(scene.stream(0), 0));
    absl::StatusOr<bool> done = false;
    while (done.ok() && !*done) done = scene.stream(0).Query();
    Must(flag.Set());
    return done.status();
  });
  EXPECT_EQ(result.verdict, Verdict::kFailed) << result.text();
}

TEST(Shrink, AScheduleKeepsItsFailure) {
  sim::Options options = Seeded();
  options.strategies = {"random"};
  options.shrink_runs = 0;
  const auto body = [] {
    const Scene scene(4);
    for (int i = 0; i < 4; ++i) scene.Nothing(i);
    scene.Update(0, 2, 0);
    scene.Update(1, 1, 3);
    for (int i = 0; i < 4; ++i) scene.Nothing(i);
    return ExpectValue(scene.Value(), 5);
  };
  const sim::Result large = sim::Explore(options, body);
  ASSERT_EQ(large.verdict, Verdict::kFailed);
  EXPECT_GT(NonDefault(large.failing), 4);
  options.shrink_runs = 500;
  const sim::Result small = sim::Shrink(options, large.token(), body);
  EXPECT_EQ(small.verdict, Verdict::kFailed);
  EXPECT_LE(NonDefault(small.failing), 2) << small.text();
  EXPECT_GT(small.shrinking, 0u);
  EXPECT_LE(small.shrinking, 500u);
}

TEST(Shrink, AScheduleThatPassesStays) {
  sim::Options options = Seeded();
  options.strategies = {"alap"};
  const sim::Result failed =
      sim::Explore(options, [] { return absl::InternalError("on purpose"); });
  const sim::Result result = sim::Shrink(options, failed.token(), [] {});
  EXPECT_TRUE(result.ok());
  EXPECT_EQ(result.token(), "");
}

TEST(Enumerate, FindsAllOutcomesOfATinyBody) {
  std::set<int64_t> values;
  const sim::Result result = sim::Enumerate({}, [&] {
    const Scene scene;
    scene.Update(0, 2, 0);
    scene.Update(1, 1, 3);
    values.insert(scene.Value());
  });
  EXPECT_TRUE(result.ok()) << result.text();
  EXPECT_TRUE(result.exhaustive);
  // Both orders, and each of the two updates lost.
  EXPECT_THAT(values, ::testing::ElementsAre(2, 4, 5, 8));
  EXPECT_EQ(result.distinct, 4u) << result.text();
  EXPECT_EQ(result.pairs_in_both_orders, 1u);
  EXPECT_EQ(result.text(), "all " + std::to_string(result.schedules) +
                               " schedules pass, 4 distinct\n");
}

TEST(Enumerate, StopsAfterTheGivenRuns) {
  sim::Options options;
  options.runs = 10;
  const sim::Result result =
      sim::Enumerate(options, [] { return TwoUpdates(true); });
  EXPECT_TRUE(result.ok());
  EXPECT_FALSE(result.exhaustive);
  EXPECT_EQ(result.schedules, 10u);
}

TEST(Enumerate, AFailureIsMadeSmaller) {
  const sim::Result result =
      sim::Enumerate({}, [] { return TwoUpdates(false); });
  EXPECT_EQ(result.verdict, Verdict::kFailed);
  EXPECT_LE(NonDefault(result.failing), 2) << result.text();
}

TEST(Enumerate, ABodyWithoutOperationsHasOneSchedule) {
  const sim::Result result = sim::Enumerate({}, [] {});
  EXPECT_EQ(result.text(), "the only schedule passes\n");
}

}  // namespace
}  // namespace devrt::testing
