// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_THREADS_THREAD_LIST_H_
#define DEVRT_BACKENDS_MTIA_THREADS_THREAD_LIST_H_

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <vector>

#include "backends/mtia/engine/op.h"
#include "backends/mtia/system/thread_watch.h"
#include "backends/mtia/threads/one_core.h"

namespace devrt::mtia {

// True if the thread sleeps in a call, and waits for the baton.
inline bool Sleeps(const HostThread* thread) {
  return thread->state != HostState::kOutside &&
         thread->state != HostState::kHolding;
}

// Owns the threads of the program, and says which of them take part in the
// machine, and which could go on.
class ThreadList {
 public:
  // The number of the present machine.  A thread with another epoch has not
  // joined it.
  uint64_t epoch() const { return epoch_.load(std::memory_order_relaxed); }

  // Guards the list, and HostThread::state and granted.
  std::mutex mutex;

  // ---- called with the lock ----

  // An object for a thread of the program, and its end.
  HostThread* New();
  void Release(HostThread* thread) { free_.push_back(thread); }
  // Makes `me` take part in the machine.  It gets its number now, or in
  // NumberArrived.
  void Add(HostThread* me, bool gets_number);
  // Gives numbers to the threads that sleep at the start of their first call,
  // in the order in which the system made them.  When all threads rest, that
  // order does not depend on the speed of the system.
  void NumberArrived();
  void Remove(HostThread* me);
  // Begins the list of the next machine.  Returns the threads of the former
  // one.
  std::vector<HostThread*> Restart(bool pin);
  void set_pin(bool pin) { pin_ = pin; }

  // The threads that take part and have a number, by index.
  const std::vector<HostThread*>& all() const { return threads_; }
  // The sleeping thread that looks whether the others rest, or nullptr.
  HostThread* FirstSleeper() const;
  // The sleeping thread that decides who goes on, when nobody has the baton:
  // one that could go on itself, if there is one.  `only_able`: no other.
  // Not one that is caught: it runs no code of the machine.
  // Called inside the machine.
  HostThread* Arbiter(bool only_able) const;
  // The threads that block in locks outside of devrt, by index.
  std::vector<HostThread*> Caught() const;
  // True if a thread but `inside` takes part and does not sleep in a call.
  bool HasOutside(const HostThread* inside) const;
  // Appends the tids of the sleeping threads.
  void AppendSleepers(std::vector<int32_t>* tids) const;
  bool CouldGoOn(const HostThread* thread) const;
  uint64_t turns() const { return turns_; }

  // ---- called inside the machine ----

  // How many threads have joined since the reset.
  uint32_t joined() const { return next_index_; }
  // Appends the sleeping threads that could go on, by index.
  void AppendAble(std::vector<HostThread*>* out);
  // `me` and the other threads that are blocked.
  std::vector<const HostThread*> Waiting(const HostThread* me);

  // Notes that the strategy lets `me` go on while another thread sleeps.
  void GoesOn(HostThread* me);
  // True if other threads have gone on so often since `thread` did that its
  // soft wait ends, though nothing has happened.
  bool IsOverdue(const HostThread* thread) const {
    return turns_ - thread->turn >= kMostTurns;
  }
  // Of the other threads that poll, lets the one go on that has not done so for
  // the most turns.  Returns that thread, or nullptr if no other thread polls.
  HostThread* AnswerPoller(const HostThread* me);
  // Of `me` and the sleeping threads, the one that has not gone on for the most
  // turns, if it is overdue; else nullptr.
  HostThread* MostOverdue(const HostThread* me);

  // True if the process has a thread besides `me`, the threads that wait for
  // the device, and the simulator's idle threads.
  bool OthersExist(const HostThread* me);
  // Looks whether any of those threads may still act.
  ThreadWatch::Verdict Judge(const HostThread* me, ThreadWatch* watch);

  // A thread has to go on after so many turns of other threads.
  static constexpr uint64_t kMostTurns = 250;

 private:
  bool Known(const HostThread* me, std::vector<int32_t>* tids);
  void Number(HostThread* me);
  std::vector<HostThread*> Everyone() const;

  std::atomic<uint64_t> epoch_{1};
  std::deque<HostThread> pool_;
  std::vector<HostThread*> free_;
  std::vector<HostThread*> threads_;
  std::vector<HostThread*> arrived_;  // take part, and have no number yet
  uint32_t next_index_ = 0;
  uint64_t turns_ = 0;  // how often a thread went on while another slept
  bool pin_ = false;
  OneCore core_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_THREADS_THREAD_LIST_H_
