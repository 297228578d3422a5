// SPDX-License-Identifier: Apache-2.0
//
// Finds out from /proc/self/task whether all threads of the process but some
// known ones have come to rest.  While they rest, what the program can do next
// depends on its own state alone, and not on the speed of the system.
//
// A thread rests while it waits for another thread, for a file or for a child.
// It moves while it runs or could run, and while it sleeps, or waits for a file
// with a short timeout: it goes on by itself then.
//
// Two looks are needed, because one look reads the threads one after another:
// all rest if they rested at both looks, and none has run in between.  A thread
// that has not run since the last look of all needs no second one.

#ifndef DEVRT_BACKENDS_MTIA_SYSTEM_QUIET_WATCH_H_
#define DEVRT_BACKENDS_MTIA_SYSTEM_QUIET_WATCH_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/mtia/system/thread_watch.h"

namespace devrt::mtia {

// Threads: one at a time; the caller has a lock.
class QuietWatch {
 public:
  enum class Verdict : uint8_t {
    kQuiet,   // all rest
    kMoving,  // some move: look again
    kGaveUp,  // some have moved for too long, and are left out from now on
  };
  // What came of reading a file of a thread.
  enum class Outcome : uint8_t {
    kRead,
    kEnded,   // the thread has ended
    kFailed,  // for example, the process has no descriptor left
  };
  // A sleep up to this length is waited for.
  static constexpr std::chrono::milliseconds kShortSleep{20};

  // Begins to wait for rest: patience counts from here.
  void Begin();
  // Looks at all threads but `known`, whose order changes.  Gives up those that
  // run for longer than `patience`, or do nothing but sleep for a while.
  // `skips_idle`: without a look if all others have waited in locks at many
  // looks, as threads of libraries do.
  Verdict Look(std::vector<int32_t>* known, std::chrono::nanoseconds patience,
               bool skips_idle);
  // Looks at the thread again, if it was given up.
  void Readmit(int32_t tid);
  // True if at the last look the thread waited for another thread in a futex,
  // without a timeout.
  bool WaitsInLock(int32_t tid) const;
  // Why the last verdict was kGaveUp, in static storage.
  const char* reason() const { return reason_; }
  // Why a thread that has not ended is left out; nullptr if none is.
  const char* WhyLeftOut();

 private:
  enum class Standing : uint8_t { kGone, kRuns, kSleeps, kRests, kInLock };
  // Files of /proc.
  enum File : uint8_t { kSyscall, kStat, kSchedstat };
  // With more threads only the first file of each stays open.
  static constexpr size_t kMostOpen = 16;
  // A thread that is looked at.
  struct Task {
    int32_t tid = 0;
    int files[3] = {-1, -1, -1};
    uint64_t turns = 0;    // how often it has run, at the last look
    bool rests = false;    // at the last look
    bool is_gone = false;  // has ended, by the last look
    bool is_in_lock = false;
    std::chrono::nanoseconds slept{};  // since Begin
    uint32_t idle = 0;  // how many looks have found it in one lock, unmoved
    const char* why_left_out = nullptr;  // not nullptr: was given up
    bool is_listed = false;
  };

  bool List();
  void Find(const std::vector<int32_t>& known);
  bool LookAtAll();
  Verdict Judge(std::chrono::nanoseconds patience);
  Standing StandingOf(Task* task, uint64_t* turns);
  bool IsIdle(Task* task);
  template <size_t kSize>
  Outcome Read(Task* task, File which, char (&text)[kSize]);
  Outcome ReadTurns(Task* task, uint64_t* turns);
  static Standing StandingOfCall(const char* text);
  static void Close(Task* task);

  int folder_ = -1;  // /proc/self/task
  std::vector<int32_t> tids_;
  std::vector<Task> tasks_;
  std::vector<Task*> running_, sleeping_;
  RealClock::time_point last_judged_{};
  std::chrono::nanoseconds moved_{};  // for how long threads move, since Begin
  const char* reason_ = "";
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_SYSTEM_QUIET_WATCH_H_
