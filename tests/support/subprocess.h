// SPDX-License-Identifier: Apache-2.0
//
// Runs parts of tests in a child process, for things that a process can do only
// once: open a backend, shut down, read its environment, end.
//
//   InChild([] {
//     setenv("DEVRT_BACKENDS", "!mtia", 1);
//     EXPECT_EQ(devrt::GetBackend("mtia").status().code(), ...);
//   });
//
//   ProcessResult r =
//       RunProgram({program, "quick_exit"}, {{"DEVRT_LOG", "off"}});
//   EXPECT_EQ(r.exit_code, 3) << r.output;
//
// The parent must not have opened a backend, and must have no other threads.
// Tests of fork itself break this rule.  Under AddressSanitizer a fork
// therefore waits, at most 100 ms, until the other threads sleep.
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
  int exit_code = -1;      // -1 if a signal ended it
  int signal = 0;          // 0 if it exited
  bool timed_out = false;  // true if it was killed
  std::string output;      // stdout and stderr together
};

std::ostream& operator<<(std::ostream& os, const ProcessResult& result);

inline constexpr int kSubprocessSeconds = 30;

// Runs `body` in a forked child.  The child exits with 0 if no expectation
// failed in it, and with 1 otherwise.  It runs no exit handlers.
ProcessResult RunInChild(const std::function<void()>& body,
                         int seconds = kSubprocessSeconds);

// Like RunInChild.  If the child does not exit with 0, fails the test with the
// output of the child.
void InChild(const std::function<void()>& body,
             int seconds = kSubprocessSeconds);

// Runs a program with the environment of this process and `environment`.
ProcessResult RunProgram(
    const std::vector<std::string>& command,
    const std::map<std::string, std::string>& environment = {},
    int seconds = kSubprocessSeconds);

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_SUPPORT_SUBPROCESS_H_
