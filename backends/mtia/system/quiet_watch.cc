// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/system/quiet_watch.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cinttypes>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <optional>

namespace devrt::mtia {
namespace {

constexpr int64_t kBillion = 1'000'000'000;
constexpr uint32_t kIdleLooks = 64;

// A breakpoint or a frozen machine makes the time between two looks long.  No
// thread has run meanwhile, so not more than this of it counts.
constexpr std::chrono::milliseconds kLongestStep{10};

QuietWatch::Outcome OutcomeOfError() {
  return errno == ESRCH || errno == ENOENT ? QuietWatch::Outcome::kEnded
                                           : QuietWatch::Outcome::kFailed;
}

int OpenOf(int32_t tid, const char* name) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/self/task/%d/%s", tid, name);
  return open(path, O_RDONLY | O_CLOEXEC);
}

// Reads the beginning of the file into `text`.
template <size_t kSize>
QuietWatch::Outcome ReadAt(int file, char (&text)[kSize]) {
  using Outcome = QuietWatch::Outcome;
  const ssize_t n = pread(file, text, kSize - 1, 0);
  text[n > 0 ? n : 0] = '\0';
  return n > 0 ? Outcome::kRead : n == 0 ? Outcome::kEnded : OutcomeOfError();
}

// The letter of the state in the text of the file `stat`; '\0' without one.
char StateIn(const char* text) {
  const char* const name_end = std::strrchr(text, ')');
  return name_end == nullptr || name_end[1] != ' ' ? '\0' : name_end[2];
}

// Reads an object of this process.  The system reads it, since the thread that
// it belongs to may have gone on and ended meanwhile.
template <typename T>
bool Fetch(uint64_t address, T* object) {
  iovec to = {object, sizeof *object};
  iovec from = {reinterpret_cast<void*>(address), sizeof *object};
  return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == sizeof *object;
}

int64_t Nanoseconds(const timespec& time) {
  return time.tv_sec * kBillion + time.tv_nsec;
}

// Time from now to the timeout of a futex, in ns.
std::optional<int64_t> UntilTimeout(uint64_t op, uint64_t timeout) {
  timespec when;
  if (!Fetch(timeout, &when)) return std::nullopt;
  if ((op & FUTEX_CMD_MASK) == FUTEX_WAIT) return Nanoseconds(when);
  timespec now;
  clock_gettime(
      (op & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC,
      &now);
  return Nanoseconds(when) - Nanoseconds(now);
}

bool IsOneOf(long number, std::initializer_list<long> numbers) {
  return std::find(numbers.begin(), numbers.end(), number) != numbers.end();
}

bool IsSleep(long number) {
  return IsOneOf(number, {SYS_nanosleep, SYS_clock_nanosleep});
}

// How long a call that waits for files does so at most, in ns; nullopt if it
// has no timeout.  `args`: of the call, from the first.
std::optional<int64_t> LongestWait(long number, const uint64_t (&args)[5]) {
  const auto of_milliseconds = [](uint64_t value) {
    const auto ms = static_cast<int32_t>(value);
    return ms < 0 ? std::nullopt : std::optional<int64_t>(ms * 1'000'000LL);
  };
  const auto of_time = [](uint64_t address) {
    timespec time;
    return address == 0 || !Fetch(address, &time)
               ? std::nullopt
               : std::optional<int64_t>(Nanoseconds(time));
  };
#if defined(SYS_select)
  if (number == SYS_select) {
    timeval time;
    if (args[4] == 0 || !Fetch(args[4], &time)) return std::nullopt;
    return time.tv_sec * kBillion + time.tv_usec * 1000;
  }
#endif
#if defined(SYS_poll)
  if (number == SYS_poll) return of_milliseconds(args[2]);
#endif
#if defined(SYS_epoll_wait)
  if (number == SYS_epoll_wait) return of_milliseconds(args[3]);
#endif
  if (number == SYS_epoll_pwait) return of_milliseconds(args[3]);
  if (number == SYS_ppoll) return of_time(args[2]);
  if (number == SYS_pselect6) return of_time(args[4]);
  return std::nullopt;
}

}  // namespace

// The tids of all threads, in tids_.
bool QuietWatch::List() {
  if (folder_ < 0) {
    folder_ = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder_ < 0) return false;
  }
  tids_.clear();
  lseek(folder_, 0, SEEK_SET);
  alignas(dirent64) char entries[4096];
  for (;;) {
    const long n = syscall(SYS_getdents64, folder_, entries, sizeof entries);
    if (n <= 0) return n == 0;
    for (long at = 0; at < n;) {
      const auto* const entry = reinterpret_cast<const dirent64*>(entries + at);
      at += entry->d_reclen;
      if (entry->d_name[0] != '.') tids_.push_back(std::atoi(entry->d_name));
    }
  }
}

void QuietWatch::Close(Task* task) {
  for (int& file : task->files) {
    if (file >= 0) close(file);
    file = -1;
  }
}

// Reads the beginning of a file of the thread.
template <size_t kSize>
QuietWatch::Outcome QuietWatch::Read(Task* task, File which,
                                     char (&text)[kSize]) {
  constexpr const char* kNames[] = {"syscall", "stat", "schedstat"};
  int& file = task->files[which];
  if (file < 0) file = OpenOf(task->tid, kNames[which]);
  if (file < 0) return OutcomeOfError();
  const Outcome outcome = ReadAt(file, text);
  if (which != kSyscall && tasks_.size() > kMostOpen) {
    close(file);
    file = -1;
  }
  return outcome;
}

// How often the thread has run.
QuietWatch::Outcome QuietWatch::ReadTurns(Task* task, uint64_t* turns) {
  char text[96];
  const Outcome outcome = Read(task, kSchedstat, text);
  const char* const last = std::strrchr(text, ' ');
  *turns = last != nullptr ? std::strtoull(last, nullptr, 10) : 0;
  return outcome;
}

// Makes tasks_ the threads that are not known.
void QuietWatch::Find(const std::vector<int32_t>& known) {
  for (Task& task : tasks_) task.is_listed = false;
  for (const int32_t tid : tids_) {
    if (std::binary_search(known.begin(), known.end(), tid)) continue;
    const auto same = [tid](const Task& task) { return task.tid == tid; };
    auto found = std::find_if(tasks_.begin(), tasks_.end(), same);
    if (found == tasks_.end()) {
      if (ThreadWatch::IsSanitizers(tid)) continue;
      Task made;
      made.tid = tid;
      found = tasks_.insert(tasks_.end(), made);
    }
    found->is_listed = true;
  }
  for (Task& task : tasks_) {
    if (!task.is_listed) Close(&task);
  }
  tasks_.erase(std::remove_if(tasks_.begin(), tasks_.end(),
                              [](const Task& task) { return !task.is_listed; }),
               tasks_.end());
}

// A thread of which nothing can be read counts as one that runs: it is given up
// in the end, and named.
QuietWatch::Standing QuietWatch::StandingOf(Task* task, uint64_t* turns) {
  const auto without = [](Outcome outcome) {
    return outcome == Outcome::kEnded ? Standing::kGone : Standing::kRuns;
  };
  char text[256];
  const bool is_new = task->files[kSyscall] < 0;
  Outcome outcome = Read(task, kSyscall, text);
  if (outcome == Outcome::kEnded && !is_new) {
    // Another thread may have its number.
    Close(task);
    Task made;
    made.tid = task->tid;
    made.is_listed = true;
    *task = made;
    outcome = Read(task, kSyscall, text);
  }
  if (outcome != Outcome::kRead) return without(outcome);
  if (text[0] == 'r') return Standing::kRuns;  // "running"
  const Standing standing = StandingOfCall(text);
  // A thread that is being woken still has its call, and its state is R.  A
  // page that is read from a disk, and a lock of the system, are D: the thread
  // goes on soon.
  outcome = Read(task, kStat, text);
  if (outcome != Outcome::kRead) return without(outcome);
  switch (StateIn(text)) {
    case 'S':
      break;
    case 'Z':
    case 'X':
    case '\0':
      return Standing::kGone;
    default:
      return Standing::kRuns;
  }
  outcome = ReadTurns(task, turns);
  return outcome == Outcome::kRead ? standing : without(outcome);
}

// `text`: "202 0x7f.. 0x189 0x0 0x7f.. ...", number and arguments.
QuietWatch::Standing QuietWatch::StandingOfCall(const char* text) {
  long number = 0;
  uint64_t args[5] = {};
  if (std::sscanf(
          text, "%ld %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64 " %" SCNx64,
          &number, &args[0], &args[1], &args[2], &args[3], &args[4]) != 6) {
    return Standing::kRuns;
  }
  constexpr std::chrono::nanoseconds kMost = kShortSleep;
  if (IsSleep(number)) return Standing::kSleeps;
  if (number != SYS_futex) {
    const auto longest = LongestWait(number, args);
    return longest.has_value() && *longest <= kMost.count() ? Standing::kSleeps
                                                            : Standing::kRests;
  }
  if (args[3] == 0) return Standing::kInLock;
  const auto left = UntilTimeout(args[1], args[3]);
  return !left.has_value() || *left <= kMost.count() ? Standing::kSleeps
                                                     : Standing::kRests;
}

// Notes how each thread stands.  Returns true if none moves, and none has run
// since the last look.
bool QuietWatch::LookAtAll() {
  bool is_unchanged = true;
  running_.clear();
  sleeping_.clear();
  for (Task& task : tasks_) {
    uint64_t turns = 0;
    const Standing standing = StandingOf(&task, &turns);
    if (task.why_left_out != nullptr) continue;
    if (standing == Standing::kRuns) running_.push_back(&task);
    if (standing == Standing::kSleeps) sleeping_.push_back(&task);
    task.is_in_lock = standing == Standing::kInLock;
    const bool rests = standing == Standing::kRests || task.is_in_lock;
    const bool stays = rests && task.rests && task.turns == turns;
    task.idle = stays && task.is_in_lock ? task.idle + 1 : 0;
    // One that has ended since the last look has run, and may have woken a
    // thread that was looked at before it: one that joins it.
    const bool is_gone = standing == Standing::kGone;
    if (is_gone ? !task.is_gone : !stays) is_unchanged = false;
    task.is_gone = is_gone;
    task.rests = rests;
    task.turns = turns;
  }
  return is_unchanged;
}

// True if the thread has waited in a lock at many looks, and does so still: it
// sleeps, and has not run since.
bool QuietWatch::IsIdle(Task* task) {
  if (task->idle < kIdleLooks) return false;
  char text[256];
  uint64_t turns = 0;
  return Read(task, kStat, text) == Outcome::kRead && StateIn(text) == 'S' &&
         ReadTurns(task, &turns) == Outcome::kRead && turns == task->turns;
}

QuietWatch::Verdict QuietWatch::Look(std::vector<int32_t>* known,
                                     std::chrono::nanoseconds patience,
                                     bool skips_idle) {
  size_t count = known->size();
  for (Task& task : tasks_) {
    if (skips_idle && IsIdle(&task)) ++count;
  }
  struct stat folder;
  // A folder has two links, and one for each folder in it.
  if (folder_ >= 0 && fstat(folder_, &folder) == 0 &&
      folder.st_nlink == count + 2) {
    return Verdict::kQuiet;
  }
  std::sort(known->begin(), known->end());
  for (int looks = 0; looks < 2; ++looks) {
    if (!List()) return Verdict::kQuiet;  // without /proc nobody knows
    Find(*known);
    if (LookAtAll()) return Verdict::kQuiet;
    if (!running_.empty() || !sleeping_.empty()) return Judge(patience);
  }
  return Verdict::kMoving;
}

void QuietWatch::Begin() {
  last_judged_ = RealClock::time_point();
  moved_ = {};
  for (Task& task : tasks_) task.slept = {};
}

// Some threads move: gives them up if they have moved for too long.  A thread
// that sleeps again and again, and does nothing else, is given up as well.
QuietWatch::Verdict QuietWatch::Judge(std::chrono::nanoseconds patience) {
  const auto now = RealClock::now();
  std::chrono::nanoseconds step{};
  if (last_judged_ != RealClock::time_point()) {
    step = std::min<std::chrono::nanoseconds>(now - last_judged_, kLongestStep);
  }
  last_judged_ = now;
  moved_ += step;
  std::vector<Task*> late;
  for (Task* const task : sleeping_) {
    task->slept += step;
    if (task->slept >= kShortSleep) late.push_back(task);
  }
  reason_ = "a host thread slept for a time, and others went on";
  // A thread may sleep until one that runs has done something.
  if (!running_.empty()) {
    late.clear();
    if (moved_ >= patience) {
      late = running_;
      reason_ =
          "a host thread computed for longer than the watchdog allows, and "
          "others went on";
    }
  }
  if (late.empty()) return Verdict::kMoving;
  for (Task* const task : late) {
    task->why_left_out = reason_;
    task->rests = false;
  }
  Begin();
  return Verdict::kGaveUp;
}

bool QuietWatch::WaitsInLock(int32_t tid) const {
  return std::any_of(tasks_.begin(), tasks_.end(), [tid](const Task& task) {
    return task.tid == tid && task.is_in_lock;
  });
}

void QuietWatch::Readmit(int32_t tid) {
  for (Task& task : tasks_) {
    if (task.tid != tid) continue;
    task.why_left_out = nullptr;
    task.idle = 0;
  }
}

const char* QuietWatch::WhyLeftOut() {
  for (Task& task : tasks_) {
    uint64_t turns = 0;
    if (task.why_left_out == nullptr) continue;
    if (StandingOf(&task, &turns) == Standing::kGone) continue;
    if (task.why_left_out != nullptr) return task.why_left_out;
  }
  return nullptr;
}

}  // namespace devrt::mtia
