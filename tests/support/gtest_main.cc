// SPDX-License-Identifier: Apache-2.0
//
// The main function of every GoogleTest program here.
//
//   --file=NAME   run the tests of this source file alone, for example
//                 --file=streams/copy_test.cc; may be given several times.  A
//                 program holds the tests of a folder, because one large
//                 program compiles and links in a third of the time that many
//                 small ones take.  Meson runs each file in a process of its
//                 own.  With --gtest_filter the filter alone chooses the tests.
//
// If every selected test skips, or a filter selects no test, the program exits
// with 77, which Meson counts as skipped: a program that tested nothing must
// not look like one that passed. A file without a test is an error.

#include <gtest/gtest.h>

#include <cstdio>
#include <string>
#include <string_view>

namespace {

constexpr int kNothingRan = 77;

// Returns true if a source file, as the compiler named it, is the file `name`.
bool IsFile(std::string_view path, std::string_view name) {
  if (path.size() < name.size()) return false;
  const size_t begin = path.size() - name.size();
  return path.substr(begin) == name && (begin == 0 || path[begin - 1] == '/');
}

// Returns the filter that selects the tests of a source file, "" if the program
// has none.
std::string FilterOf(std::string_view file) {
  std::string filter;
  const testing::UnitTest& program = *testing::UnitTest::GetInstance();
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *program.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (!IsFile(test.file(), file)) continue;
      filter += std::string(suite.name()) + "." + test.name() + ":";
    }
  }
  return filter;
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kFile = "--file=";
  std::string of_files;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, kFile.size()) != kFile) continue;
    const std::string filter = FilterOf(argument.substr(kFile.size()));
    if (filter.empty()) {
      std::fprintf(stderr, "%s: no test is in this file of %s\n", argv[i],
                   argv[0]);
      return 1;
    }
    of_files += filter;
  }
  if (!of_files.empty() && GTEST_FLAG_GET(filter) == "*") {
    GTEST_FLAG_SET(filter, of_files);
  }
  const int result = RUN_ALL_TESTS();
  if (result != 0 || GTEST_FLAG_GET(list_tests)) return result;

  const testing::UnitTest& run = *testing::UnitTest::GetInstance();
  if (run.test_to_run_count() > run.skipped_test_count()) return 0;
  std::fprintf(stderr, "no test ran: %d selected, %d skipped\n",
               run.test_to_run_count(), run.skipped_test_count());
  return kNothingRan;
}
