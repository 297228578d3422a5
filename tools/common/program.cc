// SPDX-License-Identifier: Apache-2.0
#include "tools/common/program.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"

namespace devrt::tools {
namespace {

constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;
constexpr int kForwarded[] = {SIGTERM, SIGHUP};
constexpr int kIgnored[] = {SIGINT, SIGQUIT};

volatile pid_t g_program = 0;

void Forward(int signal) {
  const int error = errno;
  kill(g_program, signal);
  errno = error;
}

sigset_t AllFour() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kForwarded) sigaddset(&set, signal);
  for (const int signal : kIgnored) sigaddset(&set, signal);
  return set;
}

void HandleSignals() {
  struct sigaction action = {};
  action.sa_handler = Forward;
  action.sa_flags = SA_RESTART;
  for (const int signal : kForwarded) {
    struct sigaction before;
    // A signal that nohup ignores stays ignored, as in the program.
    if (sigaction(signal, nullptr, &before) == 0 &&
        before.sa_handler != SIG_IGN) {
      sigaction(signal, &action, nullptr);
    }
  }
  action.sa_handler = SIG_IGN;
  for (const int signal : kIgnored) sigaction(signal, &action, nullptr);
}

// Becomes the program.  If that fails, writes errno to `errors` and exits.
[[noreturn]] void Become(const std::vector<std::string>& words, int errors) {
  std::vector<char*> argv;
  for (const std::string& word : words) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  execvp(argv[0], argv.data());
  const int error = errno;
  (void)!write(errors, &error, sizeof error);
  _exit(kCannotRun);
}

int ExitCodeOf(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

EndedProgram Wait(pid_t program, int errors) {
  EndedProgram result;
  // Returns when the program runs, since that closes the other end.
  while (read(errors, &result.cannot_be_run, sizeof(int)) < 0 &&
         errno == EINTR) {
  }
  siginfo_t info;
  while (waitid(P_PID, static_cast<id_t>(program), &info, WEXITED | WNOWAIT) <
             0 &&
         errno == EINTR) {
  }
  // Block signals: the number of the program may soon be that of another one.
  const sigset_t all = AllFour();
  sigprocmask(SIG_BLOCK, &all, nullptr);
  int status = 0;
  while (waitpid(program, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = ExitCodeOf(status);
  if (result.cannot_be_run != 0) {
    result.exit_code = result.cannot_be_run == ENOENT ? kNotFound : kCannotRun;
  }
  return result;
}

// Becomes the program in a process group of its own, so that all of it can be
// killed.  It ends with this process.
[[noreturn]] void BecomeQuiet(const std::vector<std::string>& words) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const int null = open("/dev/null", O_RDWR);
  for (const int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    dup2(null, fd);
  }
  if (null > STDERR_FILENO) close(null);
  for (const int signal : kIgnored) ::signal(signal, SIG_DFL);
  const sigset_t all = AllFour();
  sigprocmask(SIG_UNBLOCK, &all, nullptr);
  const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  Become(words, nowhere);
}

// Returns true if one of the four signals, which are blocked, has arrived.
bool IsAskedToEnd() {
  sigset_t pending;
  sigpending(&pending);
  for (const int signal : kForwarded) {
    if (sigismember(&pending, signal) == 1) return true;
  }
  for (const int signal : kIgnored) {
    if (sigismember(&pending, signal) == 1) return true;
  }
  return false;
}

bool HasEnded(pid_t program) {
  siginfo_t info = {};
  waitid(P_PID, static_cast<id_t>(program), &info, WEXITED | WNOHANG | WNOWAIT);
  return info.si_pid != 0;
}

// Kills the program when the time is over, and what it leaves behind in any
// case.
EndedProgram WaitAtMost(pid_t program, std::chrono::milliseconds limit) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::milliseconds kShortest{1};
  constexpr std::chrono::milliseconds kLongest{50};
  const Clock::time_point end = Clock::now() + limit;
  EndedProgram result;
  auto pause = kShortest;
  while (!HasEnded(program)) {
    result.is_late = Clock::now() >= end;
    result.is_interrupted = IsAskedToEnd();
    if (result.is_late || result.is_interrupted) {
      kill(program, SIGKILL);  // it may not have made its group yet
      break;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, kLongest);
  }
  // Its number is not given anew before waitpid.
  kill(-program, SIGKILL);
  int status = 0;
  while (waitpid(program, &status, 0) < 0 && errno == EINTR) {
  }
  result.exit_code = ExitCodeOf(status);
  return result;
}

}  // namespace

std::string LayersWith(const std::string& layer) {
  const char* const value = std::getenv("DEVRT_LAYERS");
  const std::string others = value == nullptr ? "" : value;
  if (others.empty()) return layer;
  const std::string file = absl::StrFormat("/libdevrt_layer_%s.so", layer);
  for (absl::string_view one : absl::StrSplit(others, ',')) {
    one = absl::StripAsciiWhitespace(one);
    if (one == layer || absl::EndsWith(one, file)) return others;
  }
  return absl::StrCat(layer, ",", others);
}

std::string PathOfOpenFile(int fd) {
  return absl::StrFormat("/proc/%d/fd/%d", getpid(), fd);
}

std::string ReadAll(int fd) {
  std::string text;
  char part[1 << 14];
  ssize_t n = 0;
  do {
    n = pread(fd, part, sizeof part, static_cast<off_t>(text.size()));
    if (n > 0) text.append(part, static_cast<size_t>(n));
  } while (n > 0 || (n < 0 && errno == EINTR));
  return text;
}

absl::StatusOr<EndedProgram> RunProgram(const std::vector<std::string>& words,
                                        const Variables& variables) {
  // Signals that arrive before the fork wait until the program can get them.
  const sigset_t all = AllFour();
  sigset_t before;
  int errors[2];
  if (pipe2(errors, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no pipe could be made: ", std::strerror(errno)));
  }
  sigprocmask(SIG_BLOCK, &all, &before);
  const pid_t program = fork();
  if (program == 0) {
    for (const auto& [name, value] : variables) {
      setenv(name.c_str(), value.c_str(), 1);
    }
    sigprocmask(SIG_SETMASK, &before, nullptr);
    Become(words, errors[1]);
  }
  const int error = errno;
  close(errors[1]);
  if (program > 0) {
    g_program = program;
    HandleSignals();
  }
  sigprocmask(SIG_SETMASK, &before, nullptr);
  absl::StatusOr<EndedProgram> result =
      program > 0 ? absl::StatusOr<EndedProgram>(Wait(program, errors[0]))
                  : absl::ResourceExhaustedError(absl::StrCat(
                        "no process could be made: ", std::strerror(error)));
  close(errors[0]);
  return result;
}

absl::StatusOr<EndedProgram> RunQuietly(const std::vector<std::string>& words,
                                        const Variables& variables,
                                        std::chrono::milliseconds limit) {
  // Ignored signals are not pending when they arrive.
  for (const int signal : kIgnored) ::signal(signal, SIG_DFL);
  const pid_t program = fork();
  if (program < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no process could be made: ", std::strerror(errno)));
  }
  if (program == 0) {
    for (const auto& [name, value] : variables) {
      setenv(name.c_str(), value.c_str(), 1);
    }
    BecomeQuiet(words);
  }
  return WaitAtMost(program, limit);
}

}  // namespace devrt::tools
