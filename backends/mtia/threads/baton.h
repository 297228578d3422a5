// SPDX-License-Identifier: Apache-2.0
//
// The baton of virtual mode.  The thread that has the baton runs, inside the
// machine and in the program's code.  It gives the baton away in calls of
// devrt.  If it blocks outside of devrt, or ends, another thread gets the baton
// when all threads rest (decision 32).

#ifndef DEVRT_BACKENDS_MTIA_THREADS_BATON_H_
#define DEVRT_BACKENDS_MTIA_THREADS_BATON_H_

#include <sys/single_threaded.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <vector>

#include "backends/mtia/engine/op.h"
#include "backends/mtia/system/quiet_watch.h"
#include "backends/mtia/threads/thread_list.h"

namespace devrt::mtia {

// Says which thread has the baton, and lets the others sleep until they get it.
// The holder of the baton is one atomic word; the lock of the thread list
// guards the state of each thread.
class Baton {
 public:
  // `threads` outlives this object.
  explicit Baton(ThreadList* threads) : threads_(threads) {}

  // A thread is on its way to sleep in a call.  It may wait for the lock of the
  // list meanwhile, and yet it does not rest.
  class Arrival {
   public:
    explicit Arrival(Baton* baton) : baton_(baton) { ++baton_->arriving_; }
    ~Arrival() { End(); }
    Arrival(const Arrival&) = delete;
    Arrival& operator=(const Arrival&) = delete;
    void End() {
      if (baton_ != nullptr) --baton_->arriving_;
      baton_ = nullptr;
    }

   private:
    Baton* baton_;
  };

  // Takes the baton, and enters the machine.
  void Enter(HostThread* me) {
    uint64_t mine = Word(me, false);
    if (__builtin_expect(word_.compare_exchange_strong(
                             mine, Word(me, true), std::memory_order_acquire,
                             std::memory_order_relaxed),
                         1)) {
      is_settled_ = false;
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
  // Gives the baton to none: it goes to a thread when all rest.
  void Free();
  // For a thread outside that waits while `*word` is `value`: sleeps until the
  // word has changed and `me` has the baton again, outside.  Returns at once if
  // nobody has called it.
  void SleepCaught(HostThread* me, const uint32_t* word, uint32_t value);

  // ---- called inside the machine ----

  // `keep`: a thread keeps the baton between calls.  `watchdog`: for how many
  // nanoseconds a thread may compute outside of devrt while others wait.
  void Configure(bool keep, uint64_t watchdog);
  // False with baton=off.  From any thread.
  bool keeps() const { return keep_.load(std::memory_order_relaxed); }
  // True if a thread gets its number when it joins, in an order that the system
  // chooses, because nobody waits until all threads rest.
  bool NumbersAtOnce() const;
  // True if another thread sleeps in a call.
  bool contended() const {
    return sleepers_.load(std::memory_order_relaxed) != 0;
  }
  // Returns when every other thread of the process sleeps in a call, or rests
  // outside of devrt.  Called before a decision, so that its candidates do not
  // depend on the speed of the system.
  void Settle(HostThread* me) {
    if (__builtin_expect(!is_settled(), 0)) SettleSlow(me);
  }
  // True if Settle has nothing to do.
  bool is_settled() const { return __libc_single_threaded || is_settled_; }
  // For a host function that runs for long while `me` waits for it: lets those
  // caught threads go on beside it that could, since it may wait for them.
  void LetCaughtHelp();
  // Notes that code of the program has run inside the machine, which may have
  // woken threads.
  void Unsettle() { is_settled_ = false; }
  // Gives the baton to threads that wait for nothing else, each at most for its
  // fair number of turns.  A thread that the program has joined may still be in
  // its exit, and wants the baton there.  Lets those go that are caught.
  void LetOthersGo(HostThread* me);
  // Gives the baton to `to`.  Returns when `me` has it again.
  void HandOver(HostThread* me, HostThread* to, HostState state);
  // Puts the baton down, because nothing can move, until a thread that can go
  // on gives it back or `deadline` passes.
  void SleepUntil(HostThread* me, RealClock::time_point deadline);

  // ---- for a reset, with the lock of the list ----

  // Wakes `thread`, which sleeps in its exit.
  void WakeExiting(HostThread* thread);
  // Gives `me`, which is inside, the baton of the machine that begins.  Counts
  // the threads that are left out in that machine, too.
  void Restart(HostThread* me);

 private:
  // The value of word_ for `me`.  It contains the epoch, so that a thread that
  // joined before a reset does not take the baton of the new machine.
  static uint64_t Word(const HostThread* me, bool inside) {
    return me->epoch << 32 | static_cast<uint64_t>(me->index + 1) << 1 |
           (inside ? 1 : 0);
  }

  void EnterSlow(HostThread* me);
  void SettleSlow(HostThread* me);
  void Sleep(std::unique_lock<std::mutex>& lock, HostThread* me,
             RealClock::time_point deadline);
  void Grant(HostThread* to);
  bool TryTake(HostThread* me);
  bool IsQuiet(const HostThread* inside);
  bool Arbitrate(HostThread* me);
  bool Calls(HostThread* holder);
  HostThread* ChooseCaught();
  bool LetCaughtGo(bool only_able);
  void NoteGivenUp();
  void WakePoller();

  // The thread that has the baton, and whether it is inside; 0 if none has it.
  // The fast path touches nothing else but is_settled_.
  std::atomic<uint64_t> word_{0};
  // No thread but those that sleep has run code of the program since the last
  // look.  Used by the holder.
  bool is_settled_ = false;
  std::atomic<uint32_t> sleepers_{0};
  std::atomic<uint32_t> arriving_{0};
  std::atomic<bool> keep_{true};
  ThreadList* const threads_;
  // Guarded by the lock of the list:
  std::chrono::nanoseconds watchdog_{2'000'000'000};
  QuietWatch quiet_;
  std::vector<int32_t> known_;      // for quiet_
  HostThread* settling_ = nullptr;  // waits in Settle
  bool is_stuck_ = false;           // put down, because nothing can move
  bool has_given_up_ = false;       // and nobody has counted it yet
  uint64_t watched_word_ = 0;       // whose patience counts
  uint64_t watched_calls_ = 0;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_THREADS_BATON_H_
