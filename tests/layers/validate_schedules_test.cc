// SPDX-License-Identifier: Apache-2.0
//
// The corpus in many schedules: each mistake is found in one of the first four
// runs, and no schedule of a mended or right program has a finding.
//
// DEVRT_TEST_SCHEDULES is the number of schedules of each such program, 30 if
// it is not set.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>

#include "tests/layers/validate_corpus.h"
#include "tests/layers/validate_findings.h"

namespace devrt::testing {
namespace {

using ::testing::Contains;

constexpr int kMostRuns = 4;       // that a mistake may need
constexpr int kMostSeconds = 600;  // for all schedules of a program

int Schedules() {
  const char* const given = std::getenv("DEVRT_TEST_SCHEDULES");
  return given == nullptr ? 30 : std::atoi(given);
}

using Body = std::function<void(Program&)>;

// Runs the program in the schedule of this number.
void RunInSchedule(const Body& body, bool mended, int number) {
  const Simulator simulator = Must(Simulator::Get());
  EXPECT_OK(simulator.Reset("devices=2,pageable=explore,strategy=random,seed=" +
                            std::to_string(number)));
  {
    Program program(mended);
    body(program);
  }
  for (const char* const name : {"mtia:0", "mtia:1"}) {
    EXPECT_OK(EmptyCache(Must(GetDevice(name))));
  }
  EXPECT_OK(EmptyPinnedCache(simulator.backend()));
}

void ExpectNoFinding(const Body& body) {
  const FindingsFile file;
  const int schedules = Schedules();
  const auto run_all = [&] {
    for (int run = 1; run <= schedules; ++run) {
      RunInSchedule(body, true, run);
      ASSERT_EQ(file.Count(), 0U) << "in schedule " << run;
      ASSERT_FALSE(::testing::Test::HasFailure()) << "in schedule " << run;
    }
  };
  const ProcessResult result = file.RunInChild(run_all, kMostSeconds);
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(file.Text(), "");
}

class Mistakes : public ::testing::TestWithParam<Mistake> {};

TEST_P(Mistakes, FourRunsShowTheMistake) {
  const FindingsFile file;
  const ProcessResult result = file.RunInChild([&] {
    for (int run = 1; run <= kMostRuns && file.Count() == 0; ++run) {
      RunInSchedule(GetParam().body, false, run);
    }
  });
  EXPECT_THAT(file.Kinds(), Contains(GetParam().kind)) << result;
}

TEST_P(Mistakes, NoScheduleOfTheMendedProgramHasAFinding) {
  ExpectNoFinding(GetParam().body);
}

class NoMistakes : public ::testing::TestWithParam<RightProgram> {};

TEST_P(NoMistakes, NoScheduleHasAFinding) { ExpectNoFinding(GetParam().body); }

INSTANTIATE_TEST_SUITE_P(Corpus, Mistakes, ::testing::ValuesIn(AllMistakes()),
                         NameOf<Mistake>);
INSTANTIATE_TEST_SUITE_P(Corpus, NoMistakes,
                         ::testing::ValuesIn(RightPrograms()),
                         NameOf<RightProgram>);

}  // namespace
}  // namespace devrt::testing
