// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/threads/holder_watch.h"

#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>

namespace devrt::mtia {
namespace {

constexpr uint32_t kBlockedChecks = 3;  // in a row: about half a millisecond

// The letter of /proc/self/task/<tid>/stat: R, S, D ...; '?' if unknown.
char StateOf(int32_t tid) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/stat", tid);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return '?';
  char text[256];
  const ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  if (n <= 0) return '?';
  text[n] = 0;
  const char* const name_end = std::strrchr(text, ')');
  return name_end != nullptr && name_end[1] == ' ' ? name_end[2] : '?';
}

}  // namespace

bool HolderWatch::MayTakeFrom(const HostThread& holder, uint64_t word,
                              std::chrono::nanoseconds patience) {
  const uint64_t calls = holder.calls.load(std::memory_order_relaxed);
  if (word_ != word || calls_ != calls) {
    word_ = word;
    calls_ = calls;
    blocked_ = 0;
    since_ = RealClock::now();
  }
  const char state = StateOf(holder.tid);
  blocked_ = state == 'S' || state == 'D' ? blocked_ + 1 : 0;
  return blocked_ >= kBlockedChecks || RealClock::now() - since_ >= patience;
}

}  // namespace devrt::mtia
