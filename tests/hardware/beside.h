// SPDX-License-Identifier: Apache-2.0
//
// Runs programs that lie in the folder of the test, wherever that folder is.

#ifndef DEVRT_TESTS_HARDWARE_BESIDE_H_
#define DEVRT_TESTS_HARDWARE_BESIDE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "tests/support/subprocess.h"

namespace devrt::hardware {

inline testing::ProcessResult StartBeside(
    const std::string& program, const std::vector<std::string>& arguments,
    const std::map<std::string, std::string>& environment = {}) {
  constexpr int kSeconds = 60;
  std::vector<std::string> command = {
      std::filesystem::read_symlink("/proc/self/exe").parent_path() / program};
  command.insert(command.end(), arguments.begin(), arguments.end());
  // Memory of a lost device is not freed.
  std::map<std::string, std::string> variables = environment;
  variables.emplace("ASAN_OPTIONS", "detect_leaks=0");
  return testing::RunProgram(command, variables, kSeconds);
}

// Runs a program.  Its exit code decides the test: 0 passes, 77 skips, and any
// other code fails with the program's output.
inline void RunBeside(const std::string& program,
                      const std::vector<std::string>& arguments) {
  constexpr int kNothingThere = 77;
  const testing::ProcessResult result = StartBeside(program, arguments);
  if (result.exit_code == kNothingThere) GTEST_SKIP() << result.output;
  EXPECT_EQ(result.exit_code, 0) << result;
}

}  // namespace devrt::hardware

#endif  // DEVRT_TESTS_HARDWARE_BESIDE_H_
