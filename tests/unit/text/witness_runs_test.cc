// SPDX-License-Identifier: Apache-2.0
//
// The configurations of a witness's runs.
#include "backends/text/witness_runs.h"

#include <gtest/gtest.h>

namespace devrt::internal {
namespace {

TEST(WitnessRuns, TheReferenceCompletesEachOperationAtOnce) {
  EXPECT_EQ(ReferenceRun(""), "strategy=asap,outcome=on");
  EXPECT_EQ(ReferenceRun(" memory = 1GiB ,, seed=7,strategy=random"),
            "memory=1GiB,strategy=asap,outcome=on");
}

TEST(WitnessRuns, ADirectedRunHoldsOneOperation) {
  EXPECT_EQ(DirectedRun("devices=4,hold=9.9,until=8.8,outcome=off,changes=3", 5,
                        1, "0.1", "0.2"),
            "devices=4,strategy=directed,seed=5,hold=0.1,until=0.2,outcome=on");
}

TEST(WitnessRuns, TheModeIsTheVirtualOne) {
  EXPECT_EQ(ReferenceRun("mode=threaded,memory=1GiB"),
            "memory=1GiB,strategy=asap,outcome=on");
  EXPECT_EQ(DirectedRun("mode=threaded", 5, 1, "0.1", "0.2"),
            "strategy=directed,seed=5,hold=0.1,until=0.2,outcome=on");
  EXPECT_EQ(ReplayedMachine("memory=1GiB,mode=threaded,seed=3"),
            "memory=1GiB,seed=3");
  EXPECT_EQ(ReplayedMachine("mode=threaded"), "");
}

TEST(WitnessRuns, EveryFourthRunHoldsTheOtherOne) {
  EXPECT_EQ(DirectedRun("", 8, 4, "0.1", "1.2"),
            "strategy=directed,seed=8,hold=1.2,until=0.1,outcome=on");
  EXPECT_EQ(DirectedRun("", 9, 5, "0.1", "1.2"),
            "strategy=directed,seed=9,hold=0.1,until=1.2,outcome=on");
}

TEST(WitnessRuns, AMistakeStaysForTheSimulatorToReport) {
  EXPECT_EQ(ReferenceRun("memory"), "memory,strategy=asap,outcome=on");
}

}  // namespace
}  // namespace devrt::internal
