// SPDX-License-Identifier: Apache-2.0
//
// A driver is initialised once and for all, and a fault stays: what needs
// another one runs in a process of its own.
//
//   Alone([] { EXPECT_EQ(Init(), 0); });

#ifndef DEVRT_TESTS_FAKES_COMMON_ALONE_H_
#define DEVRT_TESTS_FAKES_COMMON_ALONE_H_

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>

namespace devrt::test {

// The failures of `body`, and an exception of it, are the test's.
template <typename Body>
void Alone(Body body) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    try {
      body();
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
    std::fflush(nullptr);
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status)) << "signal " << WTERMSIG(status);
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace devrt::test

#endif  // DEVRT_TESTS_FAKES_COMMON_ALONE_H_
