// SPDX-License-Identifier: Apache-2.0
#include "cts/child.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/mman.h>
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
#include "cts/worker.h"

namespace devrt::cts {
namespace {

constexpr off_t kLogShown = 4096;

double Now() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) +
         static_cast<double>(now.tv_nsec) / 1e9;
}

[[noreturn]] void BeWorker(const Options& options,
                           const std::vector<size_t>& tests, int pipe, int log,
                           CallRing* ring) {
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  signal(SIGPIPE, SIG_IGN);
  // As a program ends: what the plugin does then is part of the matter.
  std::exit(RunWorker(options, tests, pipe, ring));
}

}  // namespace

absl::StatusOr<Child> Child::Start(const Options& options,
                                   const std::vector<size_t>& tests,
                                   CallRing* ring) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no pipe for a worker: ", std::strerror(errno)));
  }
  Child child;
  child.pipe_ = ends[0];
  child.log_ = memfd_create("devrt cts log", MFD_CLOEXEC);
  // The program's own words must not be written twice.
  std::fflush(nullptr);
  child.pid_ = child.log_ < 0 ? -1 : fork();
  if (child.pid_ == 0) {
    close(ends[0]);
    BeWorker(options, tests, ends[1], child.log_, ring);
  }
  const int error = errno;
  close(ends[1]);
  if (child.pid_ < 0) {
    return absl::ResourceExhaustedError(
        absl::StrCat("no process for a worker: ", std::strerror(error)));
  }
  return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      pipe_(std::exchange(other.pipe_, -1)),
      log_(std::exchange(other.log_, -1)),
      log_read_(other.log_read_),
      status_(other.status_),
      reader_(std::move(other.reader_)) {}

Child::~Child() {
  Kill();
  if (pipe_ >= 0) close(pipe_);
  if (log_ >= 0) close(log_);
}

Child::Event Child::Next(double seconds) {
  const double end = Now() + seconds;
  while (true) {
    if (auto message = reader_.Next()) {
      return {Event::Kind::kMessage, *std::move(message)};
    }
    const double left = end - Now();
    if (left <= 0) return {Event::Kind::kTimeout, {}};
    pollfd readable = {pipe_, POLLIN, 0};
    // Rounded up, so as not to spin at the end.
    const int n = poll(&readable, 1, static_cast<int>(left * 1000) + 1);
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
  while (pid_ > 0) {
    const pid_t ended = waitpid(pid_, &status_, WNOHANG);
    if (ended == pid_) {
      pid_ = -1;
    } else if (Now() > end) {
      Kill();
      return false;
    } else {
      const timespec pause = {0, 2'000'000};
      nanosleep(&pause, nullptr);
    }
  }
  return true;
}

void Child::Kill() {
  if (pid_ <= 0) return;
  kill(pid_, SIGKILL);
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

std::string Child::TakeLog() {
  struct stat info;
  if (fstat(log_, &info) != 0) return "";
  const off_t begin = std::max(log_read_, info.st_size - kLogShown);
  log_read_ = info.st_size;
  std::string text(static_cast<size_t>(info.st_size - begin), '\0');
  const ssize_t n = pread(log_, text.data(), text.size(), begin);
  text.resize(n < 0 ? 0 : static_cast<size_t>(n));
  return text;
}

}  // namespace devrt::cts
