// SPDX-License-Identifier: Apache-2.0
//
// The threads of the program that call devrt, and the baton of virtual mode.
// The thread that has the baton runs, inside the machine and in the program's
// code.  It gives the baton away in calls of devrt.  If it blocks outside of
// devrt, another thread takes the baton (decision 2).

#ifndef DEVRT_BACKENDS_MTIA_THREADS_HOST_THREADS_H_
#define DEVRT_BACKENDS_MTIA_THREADS_HOST_THREADS_H_

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "backends/mtia/engine/op.h"
#include "backends/mtia/system/thread_watch.h"

namespace devrt::mtia {

inline thread_local HostThread* t_host
    __attribute__((tls_model("initial-exec"))) = nullptr;

using RealClock = std::chrono::steady_clock;

// Owns the list of these threads, and the baton.  Its mutex guards the list and
// the state of each thread; the holder of the baton is one atomic word.
class HostThreads {
 public:
  // The calling thread.  It joins the machine at its first call.
  HostThread* Me() {
    HostThread* const me = t_host;
    if (__builtin_expect(
            me != nullptr &&
                me->epoch == epoch_.load(std::memory_order_relaxed),
            1)) {
      return me;
    }
    return Join();
  }
  // The thread in whose name calls from host functions are made.
  HostThread& borrower() { return borrower_; }

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

  // ---- called inside the machine ----

  // True if another thread sleeps in a call.
  bool contended() const {
    return sleepers_.load(std::memory_order_relaxed) != 0;
  }
  void Configure(bool keep, bool pin, uint64_t watchdog);
  // Gives the baton to threads that wait for nothing else, each at most for its
  // fair number of turns.  A thread that the program has joined may still be in
  // its exit, and wants the baton there.
  void LetOthersGo(HostThread* me);
  // Drops all threads but the calling one and those that sleep at the start of
  // a call: these join the machine that begins, unless they are in their exit.
  void Reset(HostThread* me, bool keep, bool pin, uint64_t watchdog);
  // Appends the sleeping threads that could go on, by index.
  void AppendAble(std::vector<HostThread*>* out);
  // Notes that the strategy lets `me` go on.
  void GoesOn(HostThread* me);
  // True if other threads have gone on so often since `thread` did that its
  // soft wait ends, though nothing has happened.
  bool IsOverdue(const HostThread* thread) const {
    return turns_ - thread->turn >= kMostTurns;
  }
  // Of `me` and the sleeping threads, the one that has not gone on for the most
  // turns, if it is overdue; else nullptr.
  HostThread* MostOverdue(const HostThread* me);
  // Gives the baton to `to`.  Returns when `me` has it again; with kBlocked it
  // also takes a baton that nobody has.
  void HandOver(HostThread* me, HostThread* to, HostState state);
  // Puts the baton down until another thread hands it over or `deadline`
  // passes.
  void SleepUntil(HostThread* me, RealClock::time_point deadline);
  // True if the process has a thread besides `me`, the threads that wait for
  // the device, and the simulator's idle threads.
  bool OthersExist(const HostThread* me);
  // Looks whether any of those threads may still act.
  ThreadWatch::Verdict Look(const HostThread* me, ThreadWatch* watch);
  // How many threads have joined since the reset.
  uint32_t joined() const { return next_index_; }
  // `me` and the other threads that are blocked.
  std::vector<const HostThread*> Waiting(const HostThread* me);

 private:
  static constexpr uint64_t kMostTurns = 250;

  // The value of word_ for `me`.  It contains the epoch, so that a thread that
  // joined before a reset does not take the baton of the new machine.
  static uint64_t Word(const HostThread* me, bool inside) {
    return me->epoch << 32 | static_cast<uint64_t>(me->index + 1) << 1 |
           (inside ? 1 : 0);
  }
  static void ThreadExit(void* me);

  HostThread* Join();
  void Begin(HostThread* me);  // adds it to this machine; mu_ is held
  void EnterSlow(HostThread* me);
  bool EnterToLeave(HostThread* me);
  void Free();
  void Sleep(std::unique_lock<std::mutex>& lock, HostThread* me,
             RealClock::time_point deadline);
  bool TryTake(HostThread* me);
  bool TakeOver(HostThread* me);
  bool IsPoller(const HostThread* me) const;
  void WakePoller();
  void Remove(HostThread* me);
  void Pin(HostThread* me);
  void UnpinAll();
  void Unpin(HostThread* me);
  bool CouldGoOn(const HostThread* thread) const;
  bool Known(const HostThread* me, std::vector<int32_t>* tids);

  // The thread that has the baton, and whether it is inside; 0 if none has it.
  // The fast path touches nothing else.
  std::atomic<uint64_t> word_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<uint64_t> epoch_{1};
  std::atomic<bool> keep_{true};  // a thread keeps the baton between calls
  // Guards all members below, and HostThread::state and granted.
  std::mutex mu_;
  std::deque<HostThread> pool_;
  std::vector<HostThread*> threads_;  // those that take part, by index
  std::vector<HostThread*> free_;
  uint32_t next_index_ = 0;
  uint64_t turns_ = 0;  // how often a thread went on while another slept
  bool pin_ = false;
  bool pinned_ = false;
  cpu_set_t unpinned_;
  std::chrono::nanoseconds watchdog_{2'000'000'000};
  // What the first sleeper, which watches the holder of the baton, last saw.
  uint64_t seen_word_ = 0;
  uint64_t seen_calls_ = 0;
  uint32_t seen_blocked_ = 0;
  RealClock::time_point seen_since_{};
  HostThread borrower_;
};

// The threads of this process.  The first Backend::Open makes the object; it is
// never destroyed, since threads may end after everything else.
extern HostThreads* g_threads;

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_THREADS_HOST_THREADS_H_
