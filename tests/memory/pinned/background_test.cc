// SPDX-License-Identifier: Apache-2.0
//
// Background mode: a process with it ends in its own way, at once, with blocks
// pending (C106); and the thread does its work.  And DEVRT_ALLOC_CONF.

#include <gtest/gtest.h>
#include <signal.h>

#include <cstdlib>
#include <string>
#include <tuple>

#include "tests/support/subprocess.h"

namespace devrt {
namespace {

using testing::ProcessResult;
using testing::RunProgram;

ProcessResult RunWay(const std::string& way, const std::string& mode,
                     const std::string& settings) {
  return RunProgram({std::getenv("DEVRT_TEST_BACKGROUND_PROGRAM"), way},
                    {{"DEVRT_MTIA", "devices=1,mode=" + mode},
                     {"DEVRT_ALLOC_CONF", settings}});
}

class BackgroundTest
    : public ::testing::TestWithParam<std::tuple<const char*, const char*>> {};

// C106
TEST_P(BackgroundTest, PinnedMemoryUseBackgroundThreads) {
  const auto& [way, mode] = GetParam();
  const ProcessResult result =
      RunWay(way, mode, "pinned_use_background_threads:True");
  const std::string name = way;
  if (name == "abort" || name == "exception") {
    EXPECT_EQ(result.signal, SIGABRT) << result;
  } else {
    EXPECT_EQ(result.exit_code, 0) << result;
    EXPECT_EQ(result.output, "");
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, BackgroundTest,
    ::testing::Combine(::testing::Values("return", "exit", "quick_exit",
                                         "underscore_exit", "thread", "abort",
                                         "exception", "shutdown", "reused"),
                       ::testing::Values("virtual", "threaded")),
    [](const auto& test) {
      return std::string(std::get<0>(test.param)) + "_" +
             std::get<1>(test.param);
    });

TEST(SettingsEnvironmentTest, AMistakeIsTheAnswerOfEveryAllocation) {
  const ProcessResult result =
      RunWay("return", "virtual", "pinned_backgroud:1");
  EXPECT_EQ(result.exit_code, 99) << result;
  EXPECT_NE(result.output.find("DEVRT_ALLOC_CONF: unknown key "
                               "\"pinned_backgroud\""),
            std::string::npos)
      << result;
}

}  // namespace
}  // namespace devrt
