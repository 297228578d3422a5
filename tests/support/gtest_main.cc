// SPDX-License-Identifier: Apache-2.0
//
// The main function of every GoogleTest program here.
//
//   --file=NAME   run the tests of this source file alone, for example
//                 --file=streams/copy_test.cc.  It may be given several times.
//                 With --gtest_filter, run those of the file's tests that the
//                 filter selects.
//
// A program holds the tests of a folder, because one large program compiles and
// links in half of the time that many small ones take.  Meson runs each test of
// meson.build, mostly a file, in a process of its own.
//
// If every selected test skips, or a filter selects no test, the program exits
// with 77, which Meson counts as skipped: a program that tested nothing must
// not look like one that passed. A file without a test is an error.

#include <fnmatch.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

namespace {

constexpr int kNothingRan = 77;

// Returns true if a source file, as the compiler named it, is the file `name`.
bool IsFile(std::string_view path, std::string_view name) {
  if (path.size() < name.size()) return false;
  const size_t begin = path.size() - name.size();
  return path.substr(begin) == name && (begin == 0 || path[begin - 1] == '/');
}

// Returns the full names of the tests in a source file.
std::vector<std::string> TestsOf(std::string_view file) {
  std::vector<std::string> names;
  const testing::UnitTest& program = *testing::UnitTest::GetInstance();
  for (int i = 0; i < program.total_test_suite_count(); ++i) {
    const testing::TestSuite& suite = *program.GetTestSuite(i);
    for (int j = 0; j < suite.total_test_count(); ++j) {
      const testing::TestInfo& test = *suite.GetTestInfo(j);
      if (!IsFile(test.file(), file)) continue;
      names.push_back(std::string(suite.name()) + "." + test.name());
    }
  }
  return names;
}

// Returns true if one of the patterns, with ':' between them, matches.
bool Matches(const std::string& patterns, const std::string& name) {
  std::istringstream words(patterns);
  for (std::string word; std::getline(words, word, ':');) {
    if (fnmatch(word.c_str(), name.c_str(), 0) == 0) return true;
  }
  return false;
}

// Returns the filter for those of the tests that `filter` selects.  What it
// leaves out stands behind a '-'.
std::string Among(const std::vector<std::string>& tests,
                  const std::string& filter) {
  const size_t minus = std::min(filter.find('-'), filter.size());
  const std::string wanted =
      filter.substr(0, 1) == "-" ? "*" : filter.substr(0, minus);
  std::string chosen;
  for (const std::string& test : tests) {
    if (Matches(wanted, test)) chosen += test + ":";
  }
  return chosen.empty() ? "-*" : chosen + filter.substr(minus);
}

}  // namespace

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  constexpr std::string_view kFile = "--file=";
  std::vector<std::string> tests;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.substr(0, kFile.size()) != kFile) continue;
    const std::vector<std::string> found =
        TestsOf(argument.substr(kFile.size()));
    if (found.empty()) {
      std::fprintf(stderr, "%s: no test is in this file of %s\n", argv[i],
                   argv[0]);
      return 1;
    }
    tests.insert(tests.end(), found.begin(), found.end());
  }
  if (!tests.empty()) {
    GTEST_FLAG_SET(filter, Among(tests, GTEST_FLAG_GET(filter)));
  }
  const int result = RUN_ALL_TESTS();
  if (result != 0 || GTEST_FLAG_GET(list_tests)) return result;

  const testing::UnitTest& run = *testing::UnitTest::GetInstance();
  if (run.test_to_run_count() > run.skipped_test_count()) return 0;
  std::fprintf(stderr, "no test ran: %d selected, %d skipped\n",
               run.test_to_run_count(), run.skipped_test_count());
  return kNothingRan;
}
