// SPDX-License-Identifier: Apache-2.0
#include "cts/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <utility>

#include "absl/strings/str_cat.h"
#include "cts/clock.h"
#include "cts/worker.h"

namespace devrt::cts {
namespace {

constexpr off_t kLogPart = 4096;  // bytes shown from each end of the log
// The longest time between two checks of whether the run has to stop, and of
// whether the process has ended.  Another process may hold the pipe open.
constexpr double kLookSeconds = 0.1;

// Gives the child what a separate program would have: no terminal as input,
// default signals and no core file.  The child ends when its supervisor ends.
void LeaveSupervisor(pid_t supervisor, int log) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != supervisor) _exit(1);
  for (const int number : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    signal(number, SIG_DFL);
  }
  signal(SIGPIPE, SIG_IGN);
  const rlimit none = {0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const int nothing = open("/dev/null", O_RDONLY | O_CLOEXEC);
  dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  // Unbuffered, so that a crash loses no output.
  std::setvbuf(stdout, nullptr, _IONBF, 0);
}

int NewLog() {
  const int log = memfd_create("devrt cts log", MFD_CLOEXEC);
  // Appends, also after the worker has truncated the file.
  if (log >= 0) fcntl(log, F_SETFL, O_APPEND);
  return log;
}

std::string ReadAt(int fd, off_t begin, off_t size) {
  std::string text(static_cast<size_t>(size), '\0');
  const ssize_t n = pread(fd, text.data(), text.size(), begin);
  text.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return text;
}

}  // namespace

absl::StatusOr<Child> Child::Start(const Options& options,
                                   const std::vector<size_t>& tests,
                                   CallRing* ring, Interrupted interrupted) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no pipe for a worker: ", std::strerror(errno)));
  }
  Child child;
  child.interrupted_ = std::move(interrupted);
  child.pipe_ = ends[0];
  child.log_ = NewLog();
  // Otherwise parent and child would both write the buffered output.
  std::fflush(nullptr);
  const pid_t supervisor = getpid();
  child.pid_ = child.log_ < 0 ? -1 : fork();
  if (child.pid_ == 0) {
    close(ends[0]);
    LeaveSupervisor(supervisor, child.log_);
    // Runs exit handlers: what the plugin does there is tested, too.
    std::exit(RunWorker(options, tests, {ends[1], child.log_, ring}));
  }
  const int error = errno;
  close(ends[1]);
  if (child.pid_ < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no process for a worker: ", std::strerror(error)));
  }
  setpgid(child.pid_, child.pid_);  // parent or child, whichever runs first
  return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pipe_(std::exchange(other.pipe_, -1)),
      log_(std::exchange(other.log_, -1)),
      status_(other.status_),
      interrupted_(std::move(other.interrupted_)),
      reader_(std::move(other.reader_)) {}

Child::~Child() {
  Kill();
  if (pipe_ >= 0) close(pipe_);
  if (log_ >= 0) close(log_);
}

bool Child::HasEnded() const {
  siginfo_t info = {};
  return pid_ <= 0 || (waitid(P_PID, static_cast<id_t>(pid_), &info,
                              WEXITED | WNOHANG | WNOWAIT) == 0 &&
                       info.si_pid == pid_);
}

Child::Event Child::Next(double seconds) {
  const double end = Now() + seconds;
  while (true) {
    if (auto message = reader_.Next()) {
      return {Event::Kind::kMessage, *std::move(message)};
    }
    if (interrupted_()) return {Event::Kind::kInterrupted, {}};
    const bool ended = HasEnded();
    const double left = end - Now();
    if (left <= 0 && !ended) return {Event::Kind::kTimeout, {}};
    const double wait = ended ? 0 : std::min(left, kLookSeconds);
    pollfd readable = {pipe_, POLLIN, 0};
    // Rounded up, so that the loop does not spin at the end.
    const int n = poll(&readable, 1, static_cast<int>(wait * 1000) + !ended);
    if (n == 0 && ended) return {Event::Kind::kClosed, {}};
    if (n <= 0) continue;
    char bytes[4096];
    const ssize_t got = read(pipe_, bytes, sizeof bytes);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return {Event::Kind::kClosed, {}};
    reader_.Add({bytes, static_cast<size_t>(got)});
  }
}

bool Child::Wait(double seconds) {
  const double end = Now() + seconds;
  while (!HasEnded()) {
    if (Now() > end || interrupted_()) {
      Kill();
      return false;
    }
    const timespec pause = {0, 2'000'000};
    nanosleep(&pause, nullptr);
  }
  Reap();
  return true;
}

void Child::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
  Reap();
}

void Child::Reap() {
  if (pid_ <= 0) return;
  // Kills the whole group.  The process id is not reused before waitpid.
  kill(-pid_, SIGKILL);
  while (waitpid(pid_, &status_, 0) < 0 && errno == EINTR) {
  }
  pid_ = -1;
}

bool Child::Died() const { return BySignal() || WEXITSTATUS(status_) != 0; }

bool Child::BySignal() const { return WIFSIGNALED(status_); }

std::string Child::HowItEnded() const {
  if (!BySignal()) {
    return absl::StrCat("exit code ", WEXITSTATUS(status_));
  }
  const int number = WTERMSIG(status_);
  return absl::StrCat("signal ", number, " (", strsignal(number), ")");
}

std::string Child::ReadLog() const {
  struct stat info;
  if (fstat(log_, &info) != 0) return "";
  const off_t size = info.st_size;
  std::string text = ReadAt(log_, 0, std::min(size, 2 * kLogPart));
  if (size > 2 * kLogPart) {
    text.resize(static_cast<size_t>(kLogPart));
    absl::StrAppend(&text, "\n[", size - 2 * kLogPart, " bytes more]\n",
                    ReadAt(log_, size - kLogPart, kLogPart));
  }
  return text;
}

}  // namespace devrt::cts
