// SPDX-License-Identifier: Apache-2.0
//
// Calls of the driver without the interpreter lock (E22).

#ifndef DEVRT_PYTHON_SRC_GIL_H_
#define DEVRT_PYTHON_SRC_GIL_H_

#include <cxxabi.h>

#include "python/src/owner.h"
#include "python/src/python.h"

namespace devrt::python {

// Whether the interpreter has begun to end.
inline bool IsFinalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Whether this thread is the one that runs handlers of signals.
bool RunsSignalHandlers();

// Never returns if the interpreter has begun to end.
void StayAtTheEnd();

// The result of `call`, which asks for the lock or runs Python code.
//
// Once the interpreter has begun to end, CPython before 3.14 ends a thread that
// asks for the lock, by pthread_exit.  That unwinds the thread's stack: frames
// of C++ would touch Python without the lock, and those that are noexcept would
// end the process.  Such a thread stays here for ever, as 3.14 has it stay.
template <typename F>
auto Staying(F&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    StayAtTheEnd();
    throw;  // somebody else's pthread_exit
  }
}

// Takes the lock again, as the thread that ends the interpreter may even then.
void TakeLock(PyThreadState* state);

// The contextvars context that this thread was seen in last, by the number that
// the interpreter counts up whenever the thread changes to another one, as it
// does with every asyncio task that it goes on with.  0: none.
struct SeenContext {
  uint64_t version = 0;
};
extern __thread SeenContext* t_seen_context;

inline bool IsSeen(const PyThreadState* state) {
  const SeenContext* const seen = t_seen_context;
  return __builtin_expect(seen != nullptr, 1) &&
         __builtin_expect(seen->version == state->context_ver, 1);
}

// Makes current what the thread's contextvars context has entered: see
// thread_state.h.  Needs the lock; what is raised stays raised.
void FollowContext();

// Lets the lock go for one scope.  Owners that were let go meanwhile are
// dropped at its end: Python code may run there, as other threads' may within.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {
    if (IsSeen(state_)) return;
    TakeLock(state_);
    FollowContext();
    state_ = PyEval_SaveThread();
  }
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() {
    TakeLock(state_);
    if (__builtin_expect(OwnersWait(), 0)) DropOwners();
  }

 private:
  PyThreadState* state_;
};

// The result of `call`, made without the lock.
template <typename F>
auto WithoutLock(F&& call) {
  Unlocked unlocked;
  return call();
}

// Whether the interpreter has no thread but this one, for which the lock could
// be let go.  Threads of C that come to it for one call are not known before.
bool IsAlone();

// The same as WithoutLock for a call that asks a driver what it answers at
// once, which waits for no work of a device's and runs nobody's code
// (decision 0016): the lock is kept where there is no one else to take it.
template <typename F>
auto Briefly(F&& call) {
  if (!IsSeen(PyThreadState_Get())) FollowContext();
  return IsAlone() ? call() : WithoutLock(call);
}

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_GIL_H_
