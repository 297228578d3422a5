// SPDX-License-Identifier: Apache-2.0
//
// The main function of every GoogleTest program here. If every selected test
// skips, or no test is selected, it exits with 77, which Meson counts as
// skipped. A program that tested nothing must not look like one that passed.

#include <gtest/gtest.h>

#include <cstdio>

namespace {

constexpr int kNothingRan = 77;

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  const int result = RUN_ALL_TESTS();
  if (result != 0 || GTEST_FLAG_GET(list_tests)) return result;

  const testing::UnitTest& run = *testing::UnitTest::GetInstance();
  if (run.test_to_run_count() > run.skipped_test_count()) return 0;
  std::fprintf(stderr, "no test ran: %d selected, %d skipped\n",
               run.test_to_run_count(), run.skipped_test_count());
  return kNothingRan;
}
