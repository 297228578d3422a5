// SPDX-License-Identifier: Apache-2.0
//
// What cannot end inside a host function, where frees are refused (C42):
// objects of the program's that a backend's thread is done with, and native
// handles whose owners were destroyed there.  The next thread that calls devrt
// ends them.

#ifndef DEVRT_STREAMS_INTERNAL_FINISHED_H_
#define DEVRT_STREAMS_INTERNAL_FINISHED_H_

#include <atomic>
#include <utility>

#include "runtime/internal/records.h"

namespace devrt::internal {

struct Finished {
  virtual ~Finished() = default;
  Finished* next_finished = nullptr;
};

// Takes ownership.  [any thread, host functions included]
void AddFinished(Finished* object);

extern std::atomic<Finished*> g_finished;
inline bool HasFinished() {
  return g_finished.load(std::memory_order_relaxed) != nullptr;
}
// Nothing inside a host function and in a forked child.
void DrainFinished();

// Calls `f` now, or later if this is a host function.
template <typename F>
void RunOutside(F f) {
  if (ABSL_PREDICT_TRUE(!InHostFunction())) {
    f();
    return;
  }
  struct Later final : Finished {
    explicit Later(F function) : f(std::move(function)) {}
    ~Later() override { f(); }
    F f;
  };
  AddFinished(new Later(std::move(f)));
}

// The same for what may be given back by any thread at any moment and whose end
// takes locks: arrays that other libraries drop (E29).  It ends
// where a call uses arrays, when a device is waited for, and at
// Shutdown; never inside another call of devrt's, which may hold such a lock.
void AddReleased(Finished* object);
bool HasReleased();
// Nothing inside a host function, in a forked child and after Shutdown.
void DrainReleased();

// The same for what runs no code of other libraries when it ends, and waits for
// nothing: captures whose last graph is gone.  The functions for memory end
// only these, as their callers may hold locks that such code needs;
// DrainReleased ends them first.
void AddEnded(Finished* object);
bool HasEnded();
void DrainEnded();

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_INTERNAL_FINISHED_H_
