// SPDX-License-Identifier: Apache-2.0
//
// The baton of virtual mode.  The thread that has the baton runs, inside the
// machine and in the program's code.  It gives the baton away in calls of
// devrt.  If it blocks outside of devrt, another thread takes the baton
// (decision 2).

#ifndef DEVRT_BACKENDS_MTIA_THREADS_BATON_H_
#define DEVRT_BACKENDS_MTIA_THREADS_BATON_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>

#include "backends/mtia/engine/op.h"
#include "backends/mtia/threads/holder_watch.h"
#include "backends/mtia/threads/thread_list.h"

namespace devrt::mtia {

// Says which thread has the baton, and lets the others sleep until they get it.
// The holder of the baton is one atomic word; the lock of the thread list
// guards the state of each thread.
class Baton {
 public:
  // `threads` outlives this object.
  explicit Baton(ThreadList* threads) : threads_(threads) {}

  // Takes the baton, and enters the machine.
  void Enter(HostThread* me) {
    uint64_t mine = Word(me, false);
    if (__builtin_expect(word_.compare_exchange_strong(
                             mine, Word(me, true), std::memory_order_acquire,
                             std::memory_order_relaxed),
                         1)) {
      return;
    }
    EnterSlow(me);
  }
  void Exit(HostThread* me) {
    if (__builtin_expect(keep_.load(std::memory_order_relaxed), 1)) {
      word_.store(Word(me, false), std::memory_order_release);
    } else {
      Free();
    }
  }
  // Enter for a thread that ends.  Returns false if a reset has come, so that
  // `me` has not joined the machine.
  bool EnterToLeave(HostThread* me);
  // Gives the baton to a thread that can go on, or to none.
  void Free();

  // ---- called inside the machine ----

  // `keep`: a thread keeps the baton between calls.  `watchdog`: for how many
  // nanoseconds it may compute there while others wait.
  void Configure(bool keep, uint64_t watchdog);
  // True if another thread sleeps in a call.
  bool contended() const {
    return sleepers_.load(std::memory_order_relaxed) != 0;
  }
  // Gives the baton to threads that wait for nothing else, each at most for its
  // fair number of turns.  A thread that the program has joined may still be in
  // its exit, and wants the baton there.
  void LetOthersGo(HostThread* me);
  // Gives the baton to `to`.  Returns when `me` has it again; with kBlocked it
  // also takes a baton that nobody has.
  void HandOver(HostThread* me, HostThread* to, HostState state);
  // Puts the baton down until another thread hands it over or `deadline`
  // passes.
  void SleepUntil(HostThread* me, RealClock::time_point deadline);

  // ---- for a reset, with the lock of the list ----

  // Wakes `thread`, which sleeps in its exit.
  void WakeExiting(HostThread* thread);
  // Gives `me`, which is inside, the baton of the machine that begins.
  void Restart(HostThread* me);

 private:
  // The value of word_ for `me`.  It contains the epoch, so that a thread that
  // joined before a reset does not take the baton of the new machine.
  static uint64_t Word(const HostThread* me, bool inside) {
    return me->epoch << 32 | static_cast<uint64_t>(me->index + 1) << 1 |
           (inside ? 1 : 0);
  }

  void EnterSlow(HostThread* me);
  void Sleep(std::unique_lock<std::mutex>& lock, HostThread* me,
             RealClock::time_point deadline);
  void Grant(HostThread* to);
  bool TryTake(HostThread* me);
  bool TakeOver(HostThread* me);
  bool IsPoller(const HostThread* me) const;
  void WakePoller();

  // The thread that has the baton, and whether it is inside; 0 if none has it.
  // The fast path touches nothing else.
  std::atomic<uint64_t> word_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<bool> keep_{true};
  ThreadList* const threads_;
  std::chrono::nanoseconds watchdog_{2'000'000'000};
  HolderWatch watch_;  // of the first sleeper
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_THREADS_BATON_H_
