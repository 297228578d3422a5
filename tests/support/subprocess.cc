// SPDX-License-Identifier: Apache-2.0
#include "tests/support/subprocess.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <thread>

#include "tests/support/sanitizers.h"

namespace devrt::testing {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kFailed = 1;
constexpr int kNoExec = 127;

// Reads until the other end is closed.  Returns false at the timeout.
bool ReadAll(int fd, Clock::time_point deadline, std::string* output) {
  char buffer[4096];
  for (;;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
        deadline - Clock::now());
    pollfd wanted = {fd, POLLIN, 0};
    if (left.count() <= 0) return false;
    if (poll(&wanted, 1, static_cast<int>(left.count())) <= 0) continue;
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n <= 0) return true;
    output->append(buffer, static_cast<size_t>(n));
  }
}

ProcessResult Collect(pid_t child, int fd, int seconds) {
  ProcessResult result;
  const auto deadline = Clock::now() + std::chrono::seconds(seconds);
  result.timed_out = !ReadAll(fd, deadline, &result.output);
  close(fd);
  if (result.timed_out) kill(child, SIGKILL);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
  if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

#if DEVRT_TEST_ASAN
// True if the kernel says that the thread sleeps.  `task` is its folder in
// /proc.
bool Sleeps(const std::filesystem::path& task) {
  std::ifstream file(task / "stat");
  std::string line;
  std::getline(file, line);
  const size_t name_end = line.rfind(')');  // "tid (name) state ..."
  return name_end == std::string::npos || line.compare(name_end, 3, ") S") == 0;
}

bool OtherThreadsSleep() {
  const std::string self = std::to_string(gettid());
  for (const auto& task :
       std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() != self && !Sleeps(task.path())) return false;
  }
  return true;
}

// AddressSanitizer of GCC 12 does not hold its allocator's locks during fork.
// If another thread allocates at that moment, the child waits for a lock that
// no thread of it can unlock.  A sleeping thread holds no such lock.  The wait
// is short, because threads of some tests never sleep.
void WaitForOtherThreads() {
  const auto deadline = Clock::now() + std::chrono::milliseconds(100);
  while (!OtherThreadsSleep() && Clock::now() < deadline) {
    std::this_thread::yield();
  }
}
#else
void WaitForOtherThreads() {}
#endif

// Forks.  The child runs `child_main`, with a pipe as its output.
ProcessResult Fork(const std::function<int()>& child_main, int seconds) {
  std::fflush(nullptr);
  WaitForOtherThreads();
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) std::abort();
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    dup2(ends[1], STDERR_FILENO);
    const int code = child_main();
    std::fflush(nullptr);
    _exit(code);
  }
  close(ends[1]);
  return Collect(child, ends[0], seconds);
}

}  // namespace

std::ostream& operator<<(std::ostream& os, const ProcessResult& result) {
  if (result.timed_out) return os << "timed out; output:\n" << result.output;
  if (result.signal != 0) os << "signal " << result.signal;
  if (result.signal == 0) os << "exit code " << result.exit_code;
  return os << "; output:\n" << result.output;
}

ProcessResult RunInChild(const std::function<void()>& body, int seconds) {
  return Fork(
      [&] {
        try {
          body();
        } catch (const std::exception& e) {
          std::fprintf(stderr, "exception: %s\n", e.what());
          return kFailed;
        }
        return ::testing::Test::HasFailure() ? kFailed : 0;
      },
      seconds);
}

void InChild(const std::function<void()>& body, int seconds) {
  const ProcessResult result = RunInChild(body, seconds);
  if (result.exit_code != 0) ADD_FAILURE() << result;
}

ProcessResult RunProgram(const std::vector<std::string>& command,
                         const std::map<std::string, std::string>& environment,
                         int seconds) {
  std::vector<char*> arguments;
  for (const std::string& word : command) {
    arguments.push_back(const_cast<char*>(word.c_str()));
  }
  arguments.push_back(nullptr);
  return Fork(
      [&] {
        for (const auto& [name, value] : environment) {
          setenv(name.c_str(), value.c_str(), 1);
        }
        execv(arguments[0], arguments.data());
        std::perror(arguments[0]);
        return kNoExec;
      },
      seconds);
}

}  // namespace devrt::testing
