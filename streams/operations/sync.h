// SPDX-License-Identifier: Apache-2.0
//
// The order of host threads, for the validate layer: a mutex, a condition
// variable and a thread that the layer sees, and two functions for a program's
// own primitives.
//
//   DEVRT_ASSIGN_OR_RETURN(devrt::Event done, devrt::Event::Create(gpu));
//   devrt::sync::Mutex mutex;
//   devrt::sync::ConditionVariable changed;
//   absl::Status recorded;
//   bool is_ready = false;
//   const auto produce = [&] {
//     recorded = done.Record(producer);
//     const std::lock_guard<devrt::sync::Mutex> lock(mutex);
//     is_ready = true;
//     changed.notify_one();
//   };
//   devrt::sync::Thread thread(produce);
//   {
//     std::unique_lock<devrt::sync::Mutex> lock(mutex);
//     changed.wait(lock, [&] { return is_ready; });
//   }
//   DEVRT_RETURN_IF_ERROR(consumer.Wait(done));  // comes after the record
//   thread.join();
//
// By default the layer takes the calls of all threads as ordered as they were
// made.  With DEVRT_RACE_HOST_ORDER=exact, or SetHostOrder, a call comes after
// a call of another thread only if an object of this header orders them, or if
// the thread waits for work.  The layer then finds what works by luck only: a
// wait that another thread's record may come too late for.
//
// What it orders:
//   Mutex              a lock comes after earlier unlocks
//   ConditionVariable  nothing by itself: its mutex does
//   Thread             the thread comes after the constructor; what follows
//                      join comes after the thread's function
//   Acquire(object)    comes after earlier Release(object)
//
// A thread of std::thread, of another library or of a pool begins as one that
// comes after nothing.  Its first call is Acquire, of an object that its
// starter has released.  Two threads that enqueue on one stream are ordered by
// the stream.  Which comes first is left to chance, and no finding.
//
// The classes have the names and the members of std, so that a program changes
// types alone.  Without exact order and simulator a member costs two loads more
// than that of std.
//
// In the simulator's virtual mode a lock, a try_lock, an unlock, a wait, a
// notification that ends one, and the start of a thread are decisions, at which
// another thread may move (devrt/sim/explore.h).  A join is none.  A thread
// begins its function when it is its turn.  If no thread can end a wait,
// lock and wait throw std::system_error(resource_deadlock_would_occur) with the
// report, which names who has which lock, and the cycle.  Waits with a time
// take real time.
//
// Threads: any, as of std.  Errors: std::system_error, where std throws it.

#ifndef DEVRT_STREAMS_OPERATIONS_SYNC_H_
#define DEVRT_STREAMS_OPERATIONS_SYNC_H_

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "devrt/runtime/export.h"

namespace devrt::sync {

// Which calls of host threads come after which, for the validate layer.
enum class HostOrder {
  kObserved,  // calls of all threads, as they are made
  kExact,     // those that this header orders
};

// Chooses the order from now on.  Calls before count as ordered as they were
// made.  Does nothing without the layer.  INVALID_ARGUMENT if the layer does
// not know the order.
DEVRT_EXPORT absl::Status SetHostOrder(HostOrder order);
// The order that was chosen.
DEVRT_EXPORT HostOrder GetHostOrder();

// Publishes, under the address or the number of `object`, what the calling
// thread has done.  Called before an atomic store, a push into a queue, or the
// fulfilment of a promise.
DEVRT_EXPORT void Release(const void* object);
// The calling thread comes after all calls of Release(object) so far.  Called
// after the load, the pop or the wait that shows that they were made.
DEVRT_EXPORT void Acquire(const void* object);
// Ends the object.  Its address may stand for another one.
DEVRT_EXPORT void Forget(const void* object);

// std::mutex.  Not for a lock that a host function needs (C43).
class DEVRT_EXPORT Mutex {
 public:
  // An unlocked mutex.
  Mutex();
  Mutex(const Mutex&) = delete;
  Mutex& operator=(const Mutex&) = delete;
  ~Mutex();

  // As those of std::mutex:
  void lock();
  bool try_lock();
  void unlock();

 private:
  friend class ConditionVariable;

  void LockScheduled();
  void LockBeside();
  void TellLock(uint32_t state) const;
  void TellUnlock();
  void GiveBack();

  std::mutex mutex_;
  std::atomic<uint32_t> unlocks_{0};  // since a simulator schedules threads
};

// std::condition_variable, for locks of Mutex.
class DEVRT_EXPORT ConditionVariable {
 public:
  // A lock of the mutex that the waiting thread has.
  using Lock = std::unique_lock<Mutex>;

  // Nobody waits at first.
  ConditionVariable();
  ConditionVariable(const ConditionVariable&) = delete;
  ConditionVariable& operator=(const ConditionVariable&) = delete;
  ~ConditionVariable();

  // As those of std::condition_variable:
  void notify_one() noexcept;
  void notify_all() noexcept;
  void wait(Lock& lock);
  template <typename Predicate>
  void wait(Lock& lock, Predicate predicate) {
    while (!predicate()) wait(lock);
  }

  // As those of std::condition_variable.  The time of any clock is translated
  // once, so that a later change of that clock has no effect.
  template <typename Clock, typename Duration>
  std::cv_status wait_until(
      Lock& lock, const std::chrono::time_point<Clock, Duration>& time) {
    return WaitUntil(lock, After(time - Clock::now()));
  }
  template <typename Clock, typename Duration, typename Predicate>
  bool wait_until(Lock& lock,
                  const std::chrono::time_point<Clock, Duration>& time,
                  Predicate predicate) {
    return WaitUntil(lock, After(time - Clock::now()), std::move(predicate));
  }

  // std::condition_variable has the same functions, for a time from now:
  template <typename Rep, typename Period>
  std::cv_status wait_for(Lock& lock,
                          const std::chrono::duration<Rep, Period>& time) {
    return WaitUntil(lock, After(time));
  }
  template <typename Rep, typename Period, typename Predicate>
  bool wait_for(Lock& lock, const std::chrono::duration<Rep, Period>& time,
                Predicate predicate) {
    return WaitUntil(lock, After(time), std::move(predicate));
  }

 private:
  using Time = std::chrono::steady_clock::time_point;

  // The longest times would overflow the clock.
  template <typename Duration>
  static Time After(Duration duration) {
    constexpr auto kLongest = std::chrono::hours(24 * 365);
    return std::chrono::steady_clock::now() +
           (duration > kLongest
                ? std::chrono::steady_clock::duration(kLongest)
                : std::chrono::duration_cast<
                      std::chrono::steady_clock::duration>(duration));
  }
  std::cv_status WaitUntil(Lock& lock, Time time);
  template <typename Predicate>
  bool WaitUntil(Lock& lock, Time time, Predicate predicate) {
    while (!predicate()) {
      if (WaitUntil(lock, time) == std::cv_status::timeout) return predicate();
    }
    return true;
  }

  void WaitScheduled(Lock& lock);
  bool Withdraw(std::atomic<uint32_t>* told);
  bool TellScheduled();

  std::condition_variable changed_;
  std::mutex waiting_mutex_;
  // Of the threads that wait in a simulator: 1 tells a thread to go on.
  std::deque<std::atomic<uint32_t>*> waiting_;
};

// A thread that starts in the constructor.  It cannot be detached: nothing
// could come after it.  The destructor joins.
//
// The end of the function counts as the end of the thread.  Destructors of
// thread-local objects run later, and join does not order them.
class DEVRT_EXPORT Thread {
 public:
  // The function that the thread runs, once.
  using Function = absl::AnyInvocable<void() &&>;

  // No thread.
  Thread();
  explicit Thread(Function function);
  Thread(Thread&& other) noexcept;
  // Joins the present thread first.
  Thread& operator=(Thread&& other) noexcept;
  ~Thread();

  // Returns true if there is a thread that was not joined.
  bool joinable() const;
  // Waits for the end of the thread.  Throws std::system_error without a
  // thread, and if the thread itself calls.
  void join();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace devrt::sync

#endif  // DEVRT_STREAMS_OPERATIONS_SYNC_H_
