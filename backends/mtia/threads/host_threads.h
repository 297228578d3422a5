// SPDX-License-Identifier: Apache-2.0
//
// The host threads that take part, and the baton of virtual mode: one of them
// runs at a time, inside the machine and in user code; the baton changes hands
// at calls.  docs/decisions/0002-baton-takeover.md says what happens when its
// holder is blocked where devrt cannot see it.

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
#include "backends/mtia/threads/thread_watch.h"

namespace devrt::mtia {

extern thread_local HostThread* t_host
    __attribute__((tls_model("initial-exec")));

using RealClock = std::chrono::steady_clock;

class HostThreads {
 public:
  // The calling thread, joined to the machine.
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
  // Stands for whoever calls from a host function.
  HostThread& borrower() { return borrower_; }

  // Makes the calling thread the only one inside.
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

  // ---- inside ----

  // Whether another thread waits to go on.
  bool contended() const {
    return sleepers_.load(std::memory_order_relaxed) != 0;
  }
  void Configure(bool keep, bool pin, uint64_t watchdog);
  // Lets those go first that wait for nothing but the baton, so often as fair
  // turns allow: a thread that was joined may still be at its end.
  void LetOthersGo(HostThread* me);
  // Forgets all threads but the calling one, and those that sleep at the start
  // of a call: they belong to the machine that begins, unless they only end.
  void Reset(HostThread* me, bool keep, bool pin, uint64_t watchdog);
  // Sleeping threads that could go on, by index.
  void Able(std::vector<HostThread*>* out);
  // `me` goes on, by the choice of a strategy.
  void GoesOn(HostThread* me);
  // Whether others have gone on so often since `thread` did that a soft wait
  // ends though nothing has happened.
  bool IsOverdue(const HostThread* thread) const {
    return turns_ - thread->turn >= kMostTurns;
  }
  // Of `me`, which decides, and those that sleep: who has not gone on for the
  // most turns, if that thread is overdue.
  HostThread* MostOverdue(const HostThread* me);
  // Gives the baton to `to`; returns when it is back or, if `state` is
  // kBlocked, when nobody has it.
  void HandOver(HostThread* me, HostThread* to, HostState state);
  // Lets others in until somebody hands the baton over or `deadline` passes.
  void SleepUntil(HostThread* me, RealClock::time_point deadline);
  // Whether there is a thread besides `me`, those that wait for the device and
  // our idle ones.
  bool OthersExist(const HostThread* me);
  // Whether any of those could still do something.
  ThreadWatch::Verdict Look(const HostThread* me, ThreadWatch* watch);
  // Threads that joined since reset.
  uint32_t joined() const { return next_index_; }
  const std::vector<HostThread*>& threads() const { return threads_; }

 private:
  static constexpr uint64_t kMostTurns = 250;

  // Of the thread's epoch, too: who joined before a reset has no part in it.
  static uint64_t Word(const HostThread* me, bool inside) {
    return me->epoch << 32 | static_cast<uint64_t>(me->index + 1) << 1 |
           (inside ? 1 : 0);
  }
  static void ThreadExit(void* me);

  HostThread* Join();
  void Begin(HostThread* me);  // as a thread of this machine; mu_ is held
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

  // Who has the baton, and whether that thread is inside: the only word that
  // the fast path touches.  0: nobody.
  std::atomic<uint64_t> word_{0};
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<uint64_t> epoch_{1};
  std::atomic<bool> keep_{true};  // the baton between calls
  std::mutex mu_;                 // below, and HostThread::state and ::granted
  std::deque<HostThread> pool_;
  std::vector<HostThread*> threads_;  // joined and not left, by index
  std::vector<HostThread*> free_;
  uint32_t next_index_ = 0;
  uint64_t turns_ = 0;  // how often a thread went on while another slept
  bool pin_ = false;
  bool pinned_ = false;
  cpu_set_t unpinned_;
  std::chrono::nanoseconds watchdog_{2'000'000'000};
  // What the poller saw of the holder.
  uint64_t seen_word_ = 0;
  uint64_t seen_calls_ = 0;
  uint32_t seen_blocked_ = 0;
  RealClock::time_point seen_since_{};
  HostThread borrower_;
};

extern HostThreads* g_threads;

// Ends the stay inside; runs what has to run outside.
void LeaveMachine(HostThread* me);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_THREADS_HOST_THREADS_H_
