// SPDX-License-Identifier: Apache-2.0
#include "runtime/loader/open_watch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "runtime/common/text.h"
#include "runtime/loader/keep_loaded.h"

namespace devrt::internal {
namespace {

// 0 if the number is unknown.
int CountThreads() {
  DIR* const tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return 0;
  int count = 0;
  while (const dirent* task = readdir(tasks)) {
    if (task->d_name[0] != '.') ++count;
  }
  closedir(tasks);
  return count;
}

// FNV-1a over all variables.
uint64_t HashEnvironment() {
  constexpr uint64_t kPrime = 0x100000001b3;
  uint64_t hash = 0xcbf29ce484222325;
  for (char* const* variable = environ;
       variable != nullptr && *variable != nullptr; ++variable) {
    const char* byte = *variable;
    do {
      hash = (hash ^ static_cast<unsigned char>(*byte)) * kPrime;
    } while (*byte++ != 0);
  }
  return hash;
}

// Bytes written to standard output, as far as they can be counted: the bytes in
// the buffer and, if standard output is a file, also its size.
int64_t CountWritten() {
  struct stat status;
  const bool file =
      fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode);
  const int64_t at = file ? lseek(STDOUT_FILENO, 0, SEEK_CUR) : 0;
  return at + static_cast<int64_t>(__fpending(stdout));
}

// The plugin that is being opened.  Never freed, because another thread may end
// the process and read it.
struct Opened {
  pid_t process;
  std::string text;
};
std::atomic<const Opened*> now_opening{nullptr};

// Reports nothing in a child process that the plugin has forked.
void ReportExit() {
  const Opened* const opened = now_opening.load(std::memory_order_acquire);
  if (opened == nullptr || opened->process != getpid()) return;
  DEVRT_LOG(kError, absl::StrCat("the process is ending while ", opened->text,
                                 " is being opened (contract P4)"));
}

}  // namespace

Opening::Opening(const char* doing, const char* noun, const std::string& path) {
  // Before any plugin code can keep a pointer to devrt's code.
  static const int registered = [] {
    KeepLoaded(reinterpret_cast<const void*>(&ReportExit));
    return std::atexit(&ReportExit);
  }();
  static_cast<void>(registered);
  static auto* const all = new std::vector<std::unique_ptr<const Opened>>;
  all->push_back(std::make_unique<const Opened>(
      Opened{getpid(), absl::StrCat(noun, " ", PathText(path))}));
  DEVRT_LOG(kDebug, absl::StrCat(doing, " ", all->back()->text));
  now_opening.store(all->back().get(), std::memory_order_release);
}

Opening::~Opening() { now_opening.store(nullptr, std::memory_order_release); }

OpenWatch::OpenWatch()
    : alone_(CountThreads() == 1),
      environment_(HashEnvironment()),
      written_(CountWritten()) {}

std::vector<std::string> OpenWatch::Findings() const {
  std::vector<std::string> findings;
  if (alone_ && CountThreads() > 1) {
    findings.push_back("started a thread (contract P2)");
  }
  if (HashEnvironment() != environment_) {
    findings.push_back("changed the environment (contract P4)");
  }
  if (alone_ && CountWritten() != written_) {
    findings.push_back("wrote to standard output (contract P4)");
  }
  return findings;
}

}  // namespace devrt::internal
