// SPDX-License-Identifier: Apache-2.0
#include "cts/legal_outcomes.h"

#include <gtest/gtest.h>

namespace devrt::cts {
namespace {

const std::vector<std::string> kLegal = {"1", "2"};

// `late` in one schedule, else the legal ones in turn.
std::string ReachWith(const std::string& late, int when) {
  return Reach(kLegal, [&](int schedule) {
    return schedule == when ? late : kLegal[schedule % 2];
  });
}

TEST(Reach, AllOutcomes) {
  int runs = 0;
  EXPECT_EQ(Reach(kLegal, [&](int i) { return ++runs, kLegal[i % 2]; }), "");
  EXPECT_EQ(runs, kFewestSchedules);
}

TEST(Reach, RareOutcome) {
  int runs = 0;
  EXPECT_EQ(Reach(kLegal, [&](int i) { return ++runs, kLegal[i == 700]; }), "");
  EXPECT_EQ(runs, 701);
}

TEST(Reach, OutcomeThatNeverCame) {
  EXPECT_EQ(Reach(kLegal, [](int) { return "1"; }),
            "the outcome \"2\" never came in 1000 schedules");
}

// All legal outcomes came before.
TEST(Reach, IllegalOutcome) {
  EXPECT_EQ(ReachWith("3", 5),
            "the outcome \"3\" is none of: 1, 2 (schedule 5)");
  EXPECT_NE(ReachWith("3", kFewestSchedules - 1), "");
  EXPECT_EQ(ReachWith("3", kFewestSchedules), "");
}

TEST(Reach, LegalOutcomeInTheLastSchedule) {
  EXPECT_EQ(Reach(kLegal, [](int i) { return kLegal[i == 999]; }), "");
}

}  // namespace
}  // namespace devrt::cts
