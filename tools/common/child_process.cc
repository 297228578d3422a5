// SPDX-License-Identifier: Apache-2.0
#include "tools/common/child_process.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

namespace devrt::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLook{100};

// Memory that parent and child share.
struct Shared {
  std::atomic<uint32_t> steps;  // how often `name` has changed
  char name[128];               // of the BackendScope; "": none
};
Shared* shared = nullptr;

struct Broken {
  std::string name;
  absl::Status why;
};
std::vector<Broken>& AllBroken() {
  static auto* const all = new std::vector<Broken>;
  return *all;
}

void NoteBackend(std::string_view name) {
  if (shared == nullptr) return;
  const size_t size = std::min(name.size(), sizeof shared->name - 1);
  memcpy(shared->name, name.data(), size);
  shared->name[size] = '\0';
  shared->steps.fetch_add(1, std::memory_order_release);
}

// Returns true if the child has ended by itself.
bool Wait(pid_t child, std::chrono::seconds limit, const sigset_t& ends,
          int* status) {
  uint32_t steps = 0;
  Clock::time_point since = Clock::now();
  while (waitpid(child, status, WNOHANG) != child) {
    const uint32_t now = shared->steps.load(std::memory_order_acquire);
    if (now != steps || shared->name[0] == '\0') since = Clock::now();
    steps = now;
    if (Clock::now() - since > limit) {
      kill(child, SIGKILL);
      waitpid(child, status, 0);
      return false;
    }
    const timespec look = {0, std::chrono::nanoseconds(kLook).count()};
    sigtimedwait(&ends, nullptr, &look);
  }
  return true;
}

std::string Ending(int status) {
  if (WIFSIGNALED(status)) {
    return absl::StrCat("by signal ", WTERMSIG(status), " (",
                        strsignal(WTERMSIG(status)), ")");
  }
  return absl::StrCat("with exit code ", WEXITSTATUS(status));
}

[[noreturn]] void EndAs(int status) {
  if (WIFSIGNALED(status)) {
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  _exit(WEXITSTATUS(status));
}

}  // namespace

void ContinueInChild(int limit_s) {
  if (shared != nullptr) return;
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  shared = new (memory) Shared{};
  sigset_t ends, before;
  sigemptyset(&ends);
  sigaddset(&ends, SIGCHLD);
  sigprocmask(SIG_BLOCK, &ends, &before);
  for (;;) {
    NoteBackend("");
    const pid_t child = fork();
    if (child <= 0) {  // the child; or fork failed, and this process goes on
      if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
      sigprocmask(SIG_SETMASK, &before, nullptr);
      return;
    }
    int status = 0;
    const bool ended =
        Wait(child, std::chrono::seconds(limit_s), ends, &status);
    const std::string name = shared->name;
    if (name.empty()) EndAs(status);
    AllBroken().push_back(
        {name, ended
                   ? absl::InternalError(absl::StrCat(
                         "backend \"", name,
                         "\" ended the process that used it ", Ending(status)))
                   : absl::DeadlineExceededError(absl::StrCat(
                         "backend \"", name, "\" did not open within ", limit_s,
                         " s"))});
  }
}

absl::Status ChildFailure(std::string_view name) {
  for (const Broken& broken : AllBroken()) {
    if (broken.name == name) return broken.why;
  }
  return absl::OkStatus();
}

BackendScope::BackendScope(std::string_view name) { NoteBackend(name); }
BackendScope::~BackendScope() { NoteBackend(""); }

}  // namespace devrt::tools
