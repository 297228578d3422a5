// SPDX-License-Identifier: Apache-2.0
//
// Explore makes a failure under several rules of the layer `faults` smaller: it
// leaves out the rules that the failure does not need.
#include <string>

#include "absl/strings/str_cat.h"
#include "backends/text/replay_token.h"
#include "devrt/sim/explore.h"
#include "tests/sim/bodies.h"
#include "tests/sim/sweeps.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Verdict = sim::Result::Verdict;

constexpr char kUnused[] = "oom:nth=90";
constexpr char kRecord[] = "api_error:call=event_record";
constexpr char kQuery[] = "api_error:call=stream_query";

sim::Options Seeded() {
  sim::Options options;
  options.seed = 1;
  options.runs = 20;
  options.race = false;
  return options;
}

std::string RulesOf(const sim::Result& result) {
  return std::string(internal::FaultsOfToken(result.token()));
}

// The run of the token fails too, and the next one has the program's rules.
void ExpectRepeats(const sim::Result& result, const sim::Body& body,
                   const std::string& rules) {
  const sim::Result again = sim::Replay(Seeded(), result.token(), body);
  EXPECT_EQ(again.verdict, Verdict::kFailed) << again.text();
  EXPECT_EQ(again.status, result.status);
  EXPECT_EQ(RulesOf(again), RulesOf(result));
  const Simulator simulator = Must(Simulator::Get());
  Must(simulator.Reset());
  EXPECT_EQ(internal::FaultsOfToken(Must(simulator.Token())), rules);
}

// Fails if the schedule puts the first update last and a record has failed.
absl::Status NeedsARuleAndADecision() {
  const Scene scene;
  scene.Update(0, 2, 0);
  const bool has_failed =
      !Must(Event::Create(scene.device())).Record(scene.stream(0)).ok();
  scene.stream(0).Query().status().IgnoreError();
  scene.Update(1, 1, 3);
  const int64_t value = scene.Value();
  return has_failed ? ExpectValue(value, 5) : absl::OkStatus();
}

TEST(FaultShrink, ARuleThatTheFailureNeedsStays) {
  InSweep([] {
    const std::string rules = absl::StrCat(kUnused, "+", kRecord, "+", kQuery);
    EXPECT_OK(sim::SetFaults(rules));
    const sim::Result result = sim::Explore(Seeded(), NeedsARuleAndADecision);
    ASSERT_EQ(result.verdict, Verdict::kFailed) << result.text();
    EXPECT_EQ(RulesOf(result), kRecord);
    EXPECT_THAT(result.text(),
                HasSubstr(absl::StrCat(
                    "rules of the layer faults that the failure needs: 1 of "
                    "3: ",
                    kRecord, "\ndecisions that are not the default: 1 of ")));
    ExpectRepeats(result, NeedsARuleAndADecision, rules);
  });
}

TEST(FaultShrink, RulesThatTheFailureNeedsTogetherStay) {
  InSweep([] {
    const std::string both = absl::StrCat(kRecord, "+", kQuery);
    const auto body = [] {
      const Scene scene;
      const Event event = Must(Event::Create(scene.device()));
      const bool is_recorded = event.Record(scene.stream(0)).ok();
      const bool is_queried = scene.stream(0).Query().ok();
      return is_recorded || is_queried ? absl::OkStatus()
                                       : absl::InternalError("both failed");
    };
    const std::string rules =
        absl::StrCat(kRecord, "+", kUnused, "+", kQuery, "+", kUnused);
    EXPECT_OK(sim::SetFaults(rules));
    const sim::Result result = sim::Explore(Seeded(), body);
    ASSERT_EQ(result.verdict, Verdict::kFailed) << result.text();
    EXPECT_EQ(RulesOf(result), both);
    EXPECT_THAT(result.text(), HasSubstr("failure needs: 2 of 4: api_error"));
    ExpectRepeats(result, body, rules);
  });
}

TEST(FaultShrink, AFailureWithoutARuleSaysSo) {
  InSweep([] {
    const std::string rules = absl::StrCat(kUnused, "+", kRecord);
    EXPECT_OK(sim::SetFaults(rules));
    const auto body = [] { return TwoUpdates(false); };
    const sim::Result result = sim::Explore(Seeded(), body);
    ASSERT_EQ(result.verdict, Verdict::kFailed) << result.text();
    EXPECT_EQ(RulesOf(result), "none");
    EXPECT_THAT(result.text(), HasSubstr("failure needs: 0 of 2\n"));
    ExpectRepeats(result, body, rules);
    // Also where the program has no rules any more.
    EXPECT_OK(sim::SetFaults(""));
    ExpectRepeats(
        [&] {
          sim::Result plain = result;
          plain.failing.token.resize(plain.failing.token.rfind(':'));
          return plain;
        }(),
        body, "");
    EXPECT_EQ(sim::Replay(Seeded(), result.token(), body).verdict,
              Verdict::kFailed);
  });
}

TEST(FaultShrink, RulesThatTheBodySetsStay) {
  InSweep([] {
    const auto body = []() -> absl::Status {
      Must(sim::SetFaults(absl::StrCat(kRecord, "+", kUnused)));
      const Scene scene;
      return Must(Event::Create(scene.device())).Record(scene.stream(0));
    };
    const sim::Result result = sim::Explore(Seeded(), body);
    ASSERT_EQ(result.verdict, Verdict::kFailed) << result.text();
    EXPECT_EQ(RulesOf(result), absl::StrCat(kRecord, "+", kUnused));
    EXPECT_THAT(result.text(), HasSubstr("failure needs: 2 of 2: "));
  });
}

TEST(FaultShrink, WithoutTheLayerNothingIsSaid) {
  InChild([] {
    const sim::Result result =
        sim::Explore(Seeded(), [] { return TwoUpdates(false); });
    EXPECT_EQ(RulesOf(result), "");
    EXPECT_THAT(result.text(), Not(HasSubstr("the layer faults")));
  });
}

}  // namespace
}  // namespace devrt::testing
