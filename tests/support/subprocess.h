// SPDX-License-Identifier: Apache-2.0
//
// Tests that need a process of their own: what a process may do only once
// (open a backend, shut down, read its environment, end) is tried in a child.
//
//   InChild([] {
//     setenv("DEVRT_BACKENDS", "!mtia", 1);
//     EXPECT_EQ(devrt::GetBackend("mtia").status().code(), ...);
//   });
//
//   ProcessResult r = RunProgram({program, "quick_exit"}, {{"DEVRT_LOG",
//   "off"}}); EXPECT_EQ(r.exit_code, 3) << r.output;
//
// The parent must not have opened a backend, nor run other threads.
// Threads: one at a time.

#ifndef DEVRT_TESTS_SUPPORT_SUBPROCESS_H_
#define DEVRT_TESTS_SUPPORT_SUBPROCESS_H_

#include <functional>
#include <map>
#include <ostream>
#include <string>
#include <vector>

namespace devrt::testing {

struct ProcessResult {
  int exit_code = -1;      // -1: ended by a signal
  int signal = 0;          // 0: it exited
  bool timed_out = false;  // it was killed
  std::string output;      // stdout and stderr together
};

std::ostream& operator<<(std::ostream& os, const ProcessResult& result);

inline constexpr int kSubprocessSeconds = 30;

// Runs `body` in a forked child, which ends with 0 if no expectation failed in
// it and with 1 otherwise, without running exit handlers.
ProcessResult RunInChild(const std::function<void()>& body,
                         int seconds = kSubprocessSeconds);

// The same; fails the test, with the child's output, when it does not end
// with 0.
void InChild(const std::function<void()>& body,
             int seconds = kSubprocessSeconds);

// Runs a program, with `environment` on top of this process's.
ProcessResult RunProgram(
    const std::vector<std::string>& command,
    const std::map<std::string, std::string>& environment = {},
    int seconds = kSubprocessSeconds);

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_SUPPORT_SUBPROCESS_H_
