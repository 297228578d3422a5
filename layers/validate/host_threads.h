// SPDX-License-Identifier: Apache-2.0
//
// HostThreads: which actor the calling thread is, and what it learns from other
// threads.
//
// Observed order: all threads are one actor.  Their calls count as ordered as
// they were made, because mutexes of the program are not seen.
//
// Exact order: each thread is an actor.  It comes after another thread's calls
// only if it acquires an object that the other thread has released, or waits
// for work.  A thread begins with no knowledge: who started it is told by such
// an object as well.
//
//   threads.Release(mutex);      // thread 1 unlocks
//   threads.Acquire(mutex);      // thread 2 locks: it comes after thread 1
//
// Threads: any; the caller has the lock of the Validator.  The state of the
// calling thread is thread-local, for the object that began anew last.

#ifndef DEVRT_LAYERS_VALIDATE_HOST_THREADS_H_
#define DEVRT_LAYERS_VALIDATE_HOST_THREADS_H_

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>
#include <utility>

#include "layers/validate/order.h"

namespace devrt::race {

class HostThreads {
 public:
  // `order` outlives the object.  `on_start` is called on each thread that gets
  // an actor: it sees to it that EndCurrent is called.
  HostThreads(Order* order, std::function<void()> on_start)
      : order_(order), on_start_(std::move(on_start)) {}

  bool is_exact() const { return is_exact_; }
  // Calls before a change count as ordered as they were made.
  void SetExact(bool is_exact);

  // The actor of the calling thread.
  Actor Current() { return is_exact_ ? CurrentThread() : CurrentHost(); }
  // An actor that stands for any thread.
  Actor AnyThread() { return CurrentHost(); }
  // With exact order: a thread has waited for the mark.
  void NoteComplete(const Mark& mark) { completed_.Join(mark); }
  // All work of the mark is over, and every thread knows that.
  void WaitOfAll(const Mark& mark);
  // The calling thread ends.
  void EndCurrent();

  // A host function runs in the calling thread.  What it does comes after the
  // work before it, and not after the calls of the thread that happens to run
  // it.
  void BeginFunction(const Mark& before);
  static void EndFunction();

  // ---- What threads tell each other ----------------------------------------

  void Release(uint64_t object);
  void Acquire(uint64_t object);
  // The object is gone; a new one may get its number.
  void Forget(uint64_t object) { objects_.erase(object); }
  // Drops objects from which no thread that lives would learn anything.
  void ForgetKnown(const VectorClock& known_to_all);
  size_t objects() const { return objects_.size(); }

  // The actions that every thread that lives knows: nothing that is enqueued
  // later conflicts with them.
  VectorClock KnownToAll();
  // Work that is complete, as any thread knows.
  VectorClock Completed();
  // That work, and all that any thread knows.
  VectorClock KnownToAny();

  // The calling thread's number: in the order of the first calls, from 1.  0
  // with observed order.
  uint32_t CurrentNumber() { return is_exact_ ? NumberOf(CurrentThread()) : 0; }
  // The number of an actor that is a thread; 0: it has none.
  uint32_t NumberOf(Actor actor) const;
  // "host thread 2", with the name that the program gave the thread.
  std::string NameOf(uint32_t number) const;

 private:
  struct Thread {
    uint32_t number = 0;
    pid_t tid = 0;      // 0: the first thread of the process, or one that ended
    bool lives = true;  // false too if it runs host functions only
  };

  Actor CurrentHost() {
    if (host_ == kNoActor) host_ = order_->AddThread();
    return host_;
  }
  Actor CurrentThread();
  // An actor for the calling thread, which begins with the knowledge of
  // `known`.
  Actor AddThread(const VectorClock& known);
  // Begins anew, with new actors.
  void StartOver();

  Order* const order_;
  const std::function<void()> on_start_;
  bool is_exact_ = false;
  Actor host_ = kNoActor;  // with observed order
  // A number for this object since the last change of the order.  Threads that
  // were seen before are new ones.
  uint64_t generation_ = 0;
  VectorClock base_;       // what a thread knows that begins
  VectorClock completed_;  // what any thread has waited for
  std::unordered_map<Actor, Thread> threads_;
  uint32_t made_ = 0;
  std::unordered_map<uint32_t, std::string> names_;  // of ended threads
  std::unordered_map<uint64_t, VectorClock> objects_;
  // Of objects that were dropped: each acquisition is one of all of them.
  VectorClock dropped_;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_HOST_THREADS_H_
