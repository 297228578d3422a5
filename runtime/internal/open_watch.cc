// SPDX-License-Identifier: Apache-2.0
#include "devrt/runtime/internal/open_watch.h"

#include <dirent.h>
#include <stdio.h>
#include <stdio_ext.h>
#include <sys/stat.h>
#include <unistd.h>

namespace devrt::internal {
namespace {

// 0 if it cannot be found out.
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

// Bytes on standard output, as far as they can be counted: those that wait in
// the buffer, and all of them where it is a file.
int64_t CountWritten() {
  struct stat status;
  const bool file =
      fstat(STDOUT_FILENO, &status) == 0 && S_ISREG(status.st_mode);
  const int64_t at = file ? lseek(STDOUT_FILENO, 0, SEEK_CUR) : 0;
  return at + static_cast<int64_t>(__fpending(stdout));
}

}  // namespace

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
