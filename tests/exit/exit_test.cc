// SPDX-License-Identifier: Apache-2.0
//
// Every way to end a program with live objects (C106, F34): the exit code is
// the program's own, nothing is printed, nothing waits.  And every way to close
// a library that uses devrt: the threads and handlers of devrt go on.

#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <map>
#include <string>
#include <tuple>

#include "tests/support/subprocess.h"

namespace devrt {
namespace {

using testing::ProcessResult;
using testing::RunProgram;

struct Way {
  const char* name;
  int exit_code;
  int signal;
};

constexpr Way kWays[] = {
    {"return", 3, 0},          {"exit", 3, 0},   {"quick_exit", 3, 0},
    {"underscore_exit", 3, 0}, {"thread", 3, 0}, {"exception", -1, SIGABRT},
    {"abort", -1, SIGABRT},
};

class ProgramEnd : public ::testing::TestWithParam<
                       std::tuple<Way, const char*, const char*>> {};

// C106, F34
TEST_P(ProgramEnd, ExitCodeIsTheProgramsOwn) {
  const auto& [way, mode, threads] = GetParam();
  const char* program = std::getenv("DEVRT_TEST_EXIT_PROGRAM");
  ASSERT_NE(program, nullptr);
  const ProcessResult result =
      RunProgram({program, way.name, threads},
                 {{"DEVRT_MTIA", std::string("devices=2,mode=") + mode},
                  {"DEVRT_LOG", "info"}});
  EXPECT_EQ(result.exit_code, way.exit_code) << result;
  EXPECT_EQ(result.signal, way.signal) << result;
  if (way.signal == 0) {
    EXPECT_EQ(result.output, "leaving\n");
  }
}

INSTANTIATE_TEST_SUITE_P(
    All, ProgramEnd,
    ::testing::Combine(::testing::ValuesIn(kWays),
                       ::testing::Values("virtual", "threaded"),
                       ::testing::Values("alone", "threads")),
    [](const auto& test) {
      return std::string(std::get<0>(test.param).name) + "_" +
             std::get<1>(test.param) + "_" + std::get<2>(test.param);
    });

// The library, and the file that devrt's code is in.
struct Closed {
  const char* name;
  const char* library;
  const char* held;
};

class DlcloseTest : public ::testing::TestWithParam<
                        std::tuple<Closed, const char*, const char*>> {};

TEST_P(DlcloseTest, LeavesTheCodeOfDevrt) {
  const auto& [closed, way, mode] = GetParam();
  const std::string folder = std::getenv("DEVRT_TEST_UNLOAD_FOLDER");
  if (access((folder + closed.library).c_str(), F_OK) != 0) {
    GTEST_SKIP() << closed.library << " is built with default_library=both";
  }
  const std::string held =
      closed.held[0] == '/' ? folder + closed.held : std::string(closed.held);
  const ProcessResult result = RunProgram(
      {folder + "/unload_program", folder + closed.library, way, held},
      {{"DEVRT_MTIA", std::string("mode=") + mode},
       {"DEVRT_ALLOC_CONF", "pinned_use_background_threads:True"}});
  EXPECT_EQ(result.exit_code, 0) << result;
  EXPECT_EQ(result.output, "");
}

INSTANTIATE_TEST_SUITE_P(
    All, DlcloseTest,
    ::testing::Combine(
        ::testing::Values(Closed{"shared", "/libunload_shared.so",
                                 "libdevrt.so.0"},
                          Closed{"linked_in", "/libunload_static.so",
                                 "/libunload_static.so"}),
        ::testing::Values("close", "main_thread", "thread_lives", "fork",
                          "again"),
        ::testing::Values("virtual", "threaded")),
    [](const auto& test) {
      return std::string(std::get<0>(test.param).name) + "_" +
             std::get<1>(test.param) + "_" + std::get<2>(test.param);
    });

}  // namespace
}  // namespace devrt
