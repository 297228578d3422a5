// SPDX-License-Identifier: Apache-2.0
//
// The race detector on the programs of public reports: it finds the mistakes,
// and nothing in the mended programs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "devrt/sim/explore.h"
#include "devrt/streams/validate.h"
#include "tests/sim/reports/reports.h"

namespace devrt::testing {
namespace {

using ::testing::Contains;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::Not;

class ReportsRace : public ::testing::TestWithParam<Report> {
 protected:
  static void SetUpTestSuite() { Must(validate::Enable()); }

  static sim::Result Explore(bool mended) {
    sim::Options options;
    options.runs = 128;
    options.seed = 1;
    return sim::Explore(options, [=] { return GetParam().run(mended); });
  }
};

TEST_P(ReportsRace, TheMistakeIsAFinding) {
  const validate::Scope scope;
  if (GetParam().finding == nullptr) {
    Explore(false);
    EXPECT_THAT(scope.Findings(), Not(IsEmpty()));
    return;
  }
  // Each operation runs at once, so that nothing goes wrong.
  Must(Must(Simulator::Get()).Reset("strategy=asap"));
  EXPECT_OK(GetParam().run(false));
  EXPECT_THAT(scope.Findings(),
              Contains(Field(&validate::Finding::kind, GetParam().finding)));
}

TEST_P(ReportsRace, TheMendedProgramHasNoFindingInAnySchedule) {
  const sim::Result result = Explore(true);
  EXPECT_TRUE(result.ok()) << result.text();
}

INSTANTIATE_TEST_SUITE_P(All, ReportsRace, ::testing::ValuesIn(AllReports()),
                         NameOfReport);

}  // namespace
}  // namespace devrt::testing
