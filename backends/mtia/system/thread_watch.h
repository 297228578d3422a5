// SPDX-License-Identifier: Apache-2.0
//
// Finds out from /proc/self/task whether another thread of this process may
// still act.  A wait that nobody can end is a deadlock.
//
// A thread is parked while it sleeps without a timeout in a futex that only
// this process can use: a mutex, a condition variable, a join.  Only another
// thread of the process can end such a sleep.  A thread that runs, sleeps for a
// time, or waits for a file or a signal may act.
//
// No thread will act if two looks find every thread parked and none of them ran
// in between.  Two looks are needed, because one look reads the threads one
// after another.  Threads of a sanitizer do not count.

#ifndef DEVRT_BACKENDS_MTIA_SYSTEM_THREAD_WATCH_H_
#define DEVRT_BACKENDS_MTIA_SYSTEM_THREAD_WATCH_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace devrt::mtia {

using RealClock = std::chrono::steady_clock;

class ThreadWatch {
 public:
  enum class Verdict {
    kNobody,  // there is no thread but the known ones
    kParked,  // the others were all parked, at this look and the one before
    kMayAct,  // some may act, or this was the first look
  };
  // The time between the two looks.
  static constexpr std::chrono::milliseconds kSecondLook{10};

  // How long to wait after look number `looks`.  Looks come in pairs.
  static std::chrono::nanoseconds Pause(uint32_t looks,
                                        std::chrono::nanoseconds patience) {
    if (looks % 2 == 0) return patience;
    return std::min<std::chrono::nanoseconds>(patience, kSecondLook);
  }

  // `known` are threads that act only if another thread does, in any order.
  Verdict Judge(std::vector<int32_t> known);
  void Forget() { seen_.clear(); }

  // The number of threads of the process besides `known`; nothing if there is
  // no /proc.
  static std::optional<size_t> CountOthers(std::vector<int32_t> known);
  // True if the system has made thread `a` of the process before thread `b`.
  static bool IsOlder(int32_t a, int32_t b);
  // True for a thread that a sanitizer has started.
  static bool IsSanitizers(int32_t tid);

 private:
  struct Seen {
    int32_t tid;
    uint64_t switches;  // how many context switches it has had
    bool operator==(const Seen& other) const {
      return tid == other.tid && switches == other.switches;
    }
  };
  std::vector<Seen> seen_;  // at the last look, if all were parked
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_SYSTEM_THREAD_WATCH_H_
