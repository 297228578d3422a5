// SPDX-License-Identifier: Apache-2.0
//
// Whether any other thread of this process may still do something, from
// /proc/self/task.
//
// A thread is parked when it sleeps in a futex without a timeout, in memory of
// this process only: a mutex, a condition variable, a join.  Only another
// thread of the process ends that.  Threads that run, sleep for a time, or
// wait for a file or a signal may act.  Two looks that find every thread
// parked, and none of them having run in between, prove that nobody will: the
// order in which one look reads them does not matter.  Threads of a sanitizer,
// as many as it likes, do nothing for the program and do not count.

#ifndef DEVRT_BACKENDS_MTIA_THREADS_THREAD_WATCH_H_
#define DEVRT_BACKENDS_MTIA_THREADS_THREAD_WATCH_H_

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>
#include <vector>

namespace devrt::mtia {

class ThreadWatch {
 public:
  enum class Verdict {
    kNobody,  // there is no thread but the known ones
    kParked,  // the others were all parked, at this look and the one before
    kMayAct,  // some may act, or this was the first look
  };
  // Between the first look and the one that can tell.
  static constexpr std::chrono::milliseconds kSecondLook{10};

  // How long to wait after look number `looks`: looks come in pairs.
  static std::chrono::nanoseconds Pause(uint32_t looks,
                                        std::chrono::nanoseconds patience) {
    if (looks % 2 == 0) return patience;
    return std::min<std::chrono::nanoseconds>(patience, kSecondLook);
  }

  // `known`: threads that will do nothing of themselves, in any order.
  Verdict Look(std::vector<int32_t> known);
  void Forget() { seen_.clear(); }

  // Threads of the process but for `known`, in any order; nothing where that
  // cannot be known.
  static std::optional<size_t> CountOthers(std::vector<int32_t> known);

 private:
  struct Seen {
    int32_t tid;
    uint64_t switches;  // how often it left a processor
    bool operator==(const Seen& other) const {
      return tid == other.tid && switches == other.switches;
    }
  };
  std::vector<Seen> seen_;  // at the last look, if all were parked
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_THREADS_THREAD_WATCH_H_
