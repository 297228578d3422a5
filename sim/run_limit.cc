// SPDX-License-Identifier: Apache-2.0
#include "sim/run_limit.h"

#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace devrt::sim {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
// A signal that comes later than this was not sent by a process that runs.
constexpr int64_t kMostLate = kSecond / 50;
constexpr size_t kLongestReport = 8000;
char g_report[kLongestReport];
std::atomic<size_t> g_size{0};  // 0: no run is limited
timer_t g_timer{};
int64_t g_limit = 0;                 // in ns
std::atomic<int64_t> g_deadline{0};  // in ns of CLOCK_MONOTONIC
std::atomic<bool> g_has_expired{false};

struct sigaction g_before {};  // the handler of others

// What the process would have done with a signal of somebody else.
void HandOn(int signal, siginfo_t* info, void* context) {
  if ((g_before.sa_flags & SA_SIGINFO) != 0) {
    g_before.sa_sigaction(signal, info, context);
  } else if (g_before.sa_handler == SIG_DFL) {
    sigaction(signal, &g_before, nullptr);
    raise(signal);  // ends the process when this handler returns
  } else if (g_before.sa_handler != SIG_IGN) {
    g_before.sa_handler(signal);
  }
}

// True under a debugger, which stops the process for long.  Called in a signal
// handler.
bool IsTraced() {
  char text[4096];
  const int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  const ssize_t size = read(file, text, sizeof text - 1);
  close(file);
  text[size > 0 ? size : 0] = '\0';
  constexpr char kKey[] = "TracerPid:\t";
  const char* const found = std::strstr(text, kKey);
  return found != nullptr && found[sizeof kKey - 1] != '0';
}

int64_t Now() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

// Sends the signal once, `after` ns from now; 0: never.
void Arm(timer_t timer, int64_t after) {
  itimerspec spec{};
  spec.it_value.tv_sec = after / kSecond;
  spec.it_value.tv_nsec = after % kSecond;
  timer_settime(timer, 0, &spec, nullptr);
}

void ArmAnew() {
  g_deadline = Now() + g_limit;
  Arm(g_timer, g_limit);
}

void ExpireRun() {
  const size_t size = g_size.load();
  const int64_t late = Now() - g_deadline.load();
  if (size == 0 || late < 0) return;  // of a run that has ended
  // The process was stopped meanwhile, by a signal or by a debugger.
  if (late > kMostLate || IsTraced()) return ArmAnew();
  const ssize_t written = write(STDERR_FILENO, g_report, size);
  static_cast<void>(written);
  g_has_expired = true;
  std::abort();
}

void Expire(int signal, siginfo_t* info, void* context) {
  if (info->si_code != SI_TIMER || info->si_value.sival_ptr != g_report) {
    HandOn(signal, info, context);
    return;
  }
  const int error = errno;
  ExpireRun();
  errno = error;
}

}  // namespace

absl::Status RunLimit::Open() {
  struct sigaction action {};
  action.sa_sigaction = &Expire;
  sigemptyset(&action.sa_mask);
  action.sa_flags = SA_RESTART | SA_SIGINFO;
  sigevent event{};
  event.sigev_notify = SIGEV_SIGNAL;
  event.sigev_signo = SIGALRM;
  event.sigev_value.sival_ptr = g_report;
  if (timer_create(CLOCK_MONOTONIC, &event, &timer_) != 0) {
    return absl::InternalError(absl::StrCat(
        "no timer for the time limit of runs: ", std::strerror(errno)));
  }
  sigaction(SIGALRM, nullptr, &g_before);
  sigaction(SIGALRM, &action, nullptr);
  is_open_ = true;
  return absl::OkStatus();
}

bool RunLimit::HasExpired() { return g_has_expired.load(); }

RunLimit::~RunLimit() {
  if (!is_open_) return;
  timer_delete(timer_);
  sigaction(SIGALRM, &g_before, nullptr);
}

void RunLimit::Begin(const std::string& report) {
  const size_t size = std::min(report.size(), kLongestReport);
  std::memcpy(g_report, report.data(), size);
  g_timer = timer_;
  g_limit = limit_.count();
  g_size = size;
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  sigset_t before;
  pthread_sigmask(SIG_UNBLOCK, &alarm, &before);
  was_blocked_ = sigismember(&before, SIGALRM) == 1;
  ArmAnew();
}

void RunLimit::End() {
  Arm(timer_, 0);
  g_size = 0;
  if (!was_blocked_) return;
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
}

}  // namespace devrt::sim
