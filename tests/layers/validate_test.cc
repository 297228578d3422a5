// SPDX-License-Identifier: Apache-2.0
//
// The validate layer on programs with one mistake each, and on the mended
// programs.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/layers/validate_corpus.h"
#include "tests/layers/validate_findings.h"

namespace devrt::testing {
namespace {

using ::testing::Contains;

class ValidateCorpus : public ::testing::TestWithParam<Mistake> {};

TEST_P(ValidateCorpus, TheMistakeIsFound) {
  const FindingsFile file;
  const ProcessResult result = file.RunInChild([] {
    Program program(false);
    GetParam().body(program);
  });
  EXPECT_THAT(file.Kinds(), Contains(GetParam().kind)) << result;
}

TEST_P(ValidateCorpus, TheMendedProgramHasNoFinding) {
  const FindingsFile file;
  const ProcessResult result = file.RunInChild([] {
    Program program(true);
    GetParam().body(program);
  });
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(file.Text(), "");
}

INSTANTIATE_TEST_SUITE_P(Allocator, ValidateCorpus,
                         ::testing::ValuesIn(AllocatorMistakes()),
                         NameOf<Mistake>);
INSTANTIATE_TEST_SUITE_P(Array, ValidateCorpus,
                         ::testing::ValuesIn(ArrayMistakes()), NameOf<Mistake>);
INSTANTIATE_TEST_SUITE_P(Host, ValidateCorpus,
                         ::testing::ValuesIn(HostMistakes()), NameOf<Mistake>);
INSTANTIATE_TEST_SUITE_P(Memory, ValidateCorpus,
                         ::testing::ValuesIn(MemoryMistakes()),
                         NameOf<Mistake>);
INSTANTIATE_TEST_SUITE_P(Order, ValidateCorpus,
                         ::testing::ValuesIn(OrderMistakes()), NameOf<Mistake>);
INSTANTIATE_TEST_SUITE_P(Reports, ValidateCorpus,
                         ::testing::ValuesIn(ReportMistakes()),
                         NameOf<Mistake>);

}  // namespace
}  // namespace devrt::testing
