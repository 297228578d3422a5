// SPDX-License-Identifier: Apache-2.0
//
// What the report of a FaultSweep says about a failure repeats it.
#include <regex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/text/replay_token.h"
#include "tests/sim/sweeps.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

// What the report of a sweep with one failure says about repeating it.
std::pair<std::string, std::string> RepeatsOf(const sim::SweepResult& result) {
  static const std::regex kRepeat(
      "repeat it: sweep with the rule (\\S+)\n"
      "  in this schedule: with the token (dvs1:\\S+)\n");
  std::smatch found;
  const std::string text = result.text();
  if (!std::regex_search(text, found, kRepeat)) return {};
  return {found[1], found[2]};
}

// Two fills in an order that the schedule chooses.  The mistake: an error of
// the wait is none if the first fill came last.
absl::Status BodyOfOneSchedule() {
  DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
  DEVRT_ASSIGN_OR_RETURN(const Simulator simulator, Simulator::Get());
  DEVRT_ASSIGN_OR_RETURN(const Stream a, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(const Stream b, Stream::Create(device));
  DEVRT_ASSIGN_OR_RETURN(const Memory memory, Memory::Create(device, 1));
  DEVRT_RETURN_IF_ERROR(FillAsync(a, memory.ptr(), 1, 1));
  DEVRT_RETURN_IF_ERROR(FillAsync(b, memory.ptr(), 2, 1));
  const absl::Status waited = device.Synchronize();
  device.Synchronize().IgnoreError();
  char last = 0;
  DEVRT_RETURN_IF_ERROR(simulator.Peek(memory.ptr(), &last, 1));
  if (waited.ok() || last != 1) return waited;
  return absl::DataLossError("the mistake");
}

TEST(FaultSweepRepeat, AFailureIsRepeatedFromItsText) {
  InSweep([] {
    sim::SweepOptions options;
    options.config = "strategy=random,seed=1";
    options.classes = {"late"};
    options.rule = "api_error:call=device_sync:nth=1:code=UNAVAILABLE:late=yes";
    sim::SweepResult result = sim::FaultSweep(options, BodyOfOneSchedule);
    int passed = 0;
    while (result.failures.empty() && passed < 50) {
      options.config = absl::StrCat("strategy=random,seed=", ++passed + 1);
      result = sim::FaultSweep(options, BodyOfOneSchedule);
    }
    ASSERT_THAT(result.failures, SizeIs(1)) << result.text();
    const auto [rule, token] = RepeatsOf(result);
    EXPECT_EQ(rule, options.rule);
    EXPECT_EQ(token, result.failures[0].token);
    EXPECT_THAT(token, HasSubstr(":random:"));
    EXPECT_THAT(token, HasSubstr(":api_error:call=device_sync:"));
    // Where the configuration chooses a schedule that passes.
    options.config = "strategy=asap";
    EXPECT_TRUE(sim::FaultSweep(options, BodyOfOneSchedule).ok());
    options.token = token;
    const sim::SweepResult again = sim::FaultSweep(options, BodyOfOneSchedule);
    EXPECT_EQ(again.faults, 1u);
    ASSERT_THAT(again.failures, SizeIs(1)) << again.text();
    EXPECT_EQ(again.failures[0].token, token);
    EXPECT_EQ(again.failures[0].status, result.failures[0].status);
  });
}

TEST(FaultSweepRepeat, ATokenOfAnotherRuleIsRefused) {
  InSweep([] {
    const auto swallows = []() -> absl::Status {
      DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
      DEVRT_ASSIGN_OR_RETURN(const Stream stream, Stream::Create(device));
      for (int i = 0; i < 2; ++i) Spin(stream, 1).IgnoreError();
      stream.Synchronize().IgnoreError();
      return absl::OkStatus();
    };
    sim::SweepOptions options;
    options.classes = {"kernel_fault", "late"};
    const sim::SweepResult result = sim::FaultSweep(options, swallows);
    ASSERT_THAT(result.failures, SizeIs(2)) << result.text();
    options.rule = result.failures[0].rule;
    options.token = result.failures[0].token;
    EXPECT_THAT(sim::FaultSweep(options, swallows).failures, SizeIs(1));
    // Of the simulator: the configuration has the rule.
    options.token = result.failures[1].token;
    EXPECT_STATUS(sim::FaultSweep(options, swallows).status, kInvalidArgument,
                  "under another configuration");
    // Of the layer: the token itself has it.
    options.rule = "api_error:call=stream_sync:nth=1:code=UNAVAILABLE:late=yes";
    EXPECT_STATUS(sim::FaultSweep(options, swallows).status, kInvalidArgument,
                  "without a rule of the layer faults, and the layer is with "
                  "the rules api_error:call=stream_sync");
    options.rule = "";
    EXPECT_STATUS(sim::FaultSweep(options, swallows).status, kInvalidArgument,
                  "set SweepOptions::rule to that of the same failure");
    // Of another body.
    options.rule = result.failures[0].rule;
    options.token = result.failures[0].token;
    internal::ReplayToken parts;
    std::string error;
    ASSERT_TRUE(internal::ParseReplayToken(options.token, &parts, &error));
    parts.runs = {{0, 99, 1}};
    options.token = internal::FormatReplayToken(parts);
    EXPECT_STATUS(sim::FaultSweep(options, swallows).status,
                  kFailedPrecondition,
                  "the replay token is of another program");
    // A token that was refused leaves nothing armed.
    EXPECT_TRUE(sim::FaultSweep({}, RightBody).ok());
  });
}

}  // namespace
}  // namespace devrt::testing
