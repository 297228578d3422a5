// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/system/thread_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>
#include <utility>

#include "backends/mtia/system/helper_thread.h"

namespace devrt::mtia {
namespace {

#if defined(__SANITIZE_THREAD__)
#define DEVRT_MTIA_SANITIZER_THREADS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DEVRT_MTIA_SANITIZER_THREADS 1
#endif
#endif

// The threads of the process.  Returns false if there is no /proc.
bool Threads(std::vector<int32_t>* tids) {
  DIR* const dir = opendir("/proc/self/task");
  if (dir == nullptr) return false;
  while (const dirent* entry = readdir(dir)) {
    if (entry->d_name[0] == '.') continue;
    tids->push_back(static_cast<int32_t>(std::atoi(entry->d_name)));
  }
  closedir(dir);
  return true;
}

// The beginning of /proc/self/task/<tid>/<name>; empty if it cannot be read.
std::string Read(int32_t tid, const char* name) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, name);
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return "";
  std::string text(4096, '\0');
  const ssize_t n = read(fd, text.data(), text.size());
  close(fd);
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

// When the thread was started, in ticks since the system was.
std::optional<int64_t> StartOf(int32_t tid) {
  constexpr int kFieldsBetween = 19;  // the state is field 3, the start is 22
  const std::string text = Read(tid, "stat");
  size_t at = text.rfind(')');
  if (at == std::string::npos) return std::nullopt;
  at += 2;
  for (int i = 0; i < kFieldsBetween; ++i) {
    at = text.find(' ', at);
    if (at++ == std::string::npos) return std::nullopt;
  }
  return std::strtoll(text.c_str() + at, nullptr, 10);
}

// True if `address` lies in memory that other processes may map.
bool IsShared(uint64_t address) {
  FILE* const maps = std::fopen("/proc/self/maps", "re");
  if (maps == nullptr) return true;
  bool shared = true;
  char line[512];
  while (std::fgets(line, sizeof line, maps) != nullptr) {
    uint64_t begin = 0, end = 0;
    char mode[5] = {};
    if (std::sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &begin, &end, mode) !=
        3) {
      continue;  // the rest of a long line
    }
    if (address < begin || address >= end) continue;
    shared = mode[3] == 's';
    break;
  }
  std::fclose(maps);
  return shared;
}

bool IsParked(int32_t tid) {
  // "202 0x7f.. 0x189 0x0 0x0 ...": number and arguments; "running".
  const std::string text = Read(tid, "syscall");
  long number = 0;
  uint64_t word = 0, op = 0, value = 0, timeout = 0;
  if (std::sscanf(text.c_str(),
                  "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64, &number,
                  &word, &op, &value, &timeout) != 5 ||
      number != SYS_futex || timeout != 0) {
    return false;
  }
  const uint64_t command = op & FUTEX_CMD_MASK;
  if (command != FUTEX_WAIT && command != FUTEX_WAIT_BITSET &&
      command != FUTEX_LOCK_PI) {
    return false;
  }
  return (op & FUTEX_PRIVATE_FLAG) != 0 || !IsShared(word);
}

uint64_t Switches(int32_t tid) {
  const std::string text = Read(tid, "status");
  uint64_t sum = 0;
  for (const char* const key :
       {"\nvoluntary_ctxt_switches:", "\nnonvoluntary_ctxt_switches:"}) {
    const size_t at = text.find(key);
    if (at == text.npos) return 0;
    sum += std::strtoull(text.c_str() + at + std::strlen(key), nullptr, 10);
  }
  return sum;
}

// The threads besides `known` and those of a sanitizer, sorted.
bool Others(std::vector<int32_t> known, std::vector<int32_t>* others) {
  std::vector<int32_t> tids;
  if (!Threads(&tids)) return false;
  std::sort(tids.begin(), tids.end());
  std::sort(known.begin(), known.end());
  std::set_difference(tids.begin(), tids.end(), known.begin(), known.end(),
                      std::back_inserter(*others));
  others->erase(std::remove_if(others->begin(), others->end(),
                               &ThreadWatch::IsSanitizers),
                others->end());
  return true;
}

}  // namespace

#ifdef DEVRT_MTIA_SANITIZER_THREADS
// ThreadSanitizer has threads of its own: none at first, one from the first
// thread of the program on, two in a forked process.  It starts them with all
// signals blocked, those of faults included, which threads of programs and of
// the simulator do not block.
bool ThreadWatch::IsSanitizers(int32_t tid) {
  constexpr const char* kKey = "\nSigBlk:";
  const std::string text = Read(tid, "status");
  const size_t at = text.find(kKey);
  if (at == text.npos) return false;
  const uint64_t blocked =
      std::strtoull(text.c_str() + at + std::strlen(kKey), nullptr, 16);
  return std::all_of(
      std::begin(kFaultSignals), std::end(kFaultSignals),
      [blocked](int signal) { return (blocked >> (signal - 1) & 1) != 0; });
}
#else
bool ThreadWatch::IsSanitizers(int32_t) { return false; }
#endif

// The system gives out rising numbers, and begins anew with small ones behind
// the greatest.  Numbers that are close say who is older.  For others the time
// of the start does, if both did not start at once: then the numbers began anew
// in between.
bool ThreadWatch::IsOlder(int32_t a, int32_t b) {
  // So many threads and processes are not made in a tick of that time.
  constexpr int32_t kClose = 4096;
  if (std::abs(a - b) < kClose) return a < b;
  const std::optional<int64_t> start_a = StartOf(a);
  const std::optional<int64_t> start_b = StartOf(b);
  if (!start_a.has_value() || !start_b.has_value()) return a < b;
  return std::abs(*start_a - *start_b) > 1 ? *start_a < *start_b : a > b;
}

std::optional<size_t> ThreadWatch::CountOthers(std::vector<int32_t> known) {
#ifdef DEVRT_MTIA_SANITIZER_THREADS
  std::vector<int32_t> others;
  if (!Others(std::move(known), &others)) return std::nullopt;
  return others.size();
#else
  // A folder has two links, and one for each folder in it.  Each poll of a
  // stuck thread asks this, and a list of the threads takes five times as long.
  struct stat folder;
  if (stat("/proc/self/task", &folder) != 0 || folder.st_nlink < 2) {
    return std::nullopt;
  }
  const size_t all = folder.st_nlink - 2;
  return all - std::min(all, known.size());
#endif
}

ThreadWatch::Verdict ThreadWatch::Judge(std::vector<int32_t> known) {
  std::vector<int32_t> others;
  if (!Others(std::move(known), &others)) return Verdict::kMayAct;
  if (others.empty()) {
    seen_.clear();
    return Verdict::kNobody;
  }
  std::vector<Seen> parked;
  for (const int32_t tid : others) {
    const uint64_t switches = Switches(tid);
    if (switches != 0 && IsParked(tid)) parked.push_back({tid, switches});
  }
  const bool all = parked.size() == others.size();
  const bool again = all && parked == seen_;
  seen_.clear();
  if (all) seen_ = std::move(parked);
  return again ? Verdict::kParked : Verdict::kMayAct;
}

}  // namespace devrt::mtia
