// SPDX-License-Identifier: Apache-2.0
//
// Releases the GIL around calls of the library that can reach a driver (E22).

#ifndef DEVRT_PYTHON_SRC_GIL_H_
#define DEVRT_PYTHON_SRC_GIL_H_

#include <cxxabi.h>

#include "python/src/owner.h"
#include "python/src/python.h"

namespace devrt::python {

// Returns true once the interpreter has begun to end.
inline bool IsFinalizing() {
#if PY_VERSION_HEX >= 0x030D0000
  return Py_IsFinalizing() != 0;
#else
  return _Py_IsFinalizing() != 0;
#endif
}

// Returns true if this thread is the one that runs signal handlers.
bool RunsSignalHandlers();

// Blocks for ever if the interpreter has begun to end.  Returns at once else.
void BlockIfFinalizing();

// Returns the result of `call`, which takes the GIL or runs Python code.
//
// Once the interpreter has begun to end, CPython before 3.14 ends a thread that
// asks for the GIL, by pthread_exit.  That unwinds the thread's stack:
// destructors of C++ frames would use Python without the GIL, and noexcept
// frames would end the process.  This keeps such a thread blocked for ever, as
// CPython 3.14 does.
template <typename F>
auto WithoutUnwind(F&& call) -> decltype(call()) {
  try {
    return call();
  } catch (const abi::__forced_unwind&) {
    BlockIfFinalizing();
    throw;  // a pthread_exit by another caller
  }
}

// Takes the GIL for one scope, on a thread that Python need not know.  A C++
// frame inside the scope calls Python by WithoutUnwind.
class Locked {
 public:
  Locked() : state_(WithoutUnwind([] { return PyGILState_Ensure(); })) {}
  Locked(const Locked&) = delete;
  Locked& operator=(const Locked&) = delete;
  ~Locked() {
    WithoutUnwind([this] { PyGILState_Release(state_); });
  }

 private:
  PyGILState_STATE state_;
};

// Returns function(*arguments), or null with an exception set.  `arguments` is
// a tuple, or null for none.
PyObject* CallPython(PyObject* function, PyObject* arguments);

// Takes the GIL again.  The thread that ends the interpreter still gets it.
void TakeLock(PyThreadState* state);

// The contextvars context in which devrt last ran on this thread.  CPython
// counts context_ver up each time the thread changes to another context, as it
// does for each step of an asyncio task.  0 if there is none.
struct SeenContext {
  uint64_t version = 0;
};
// Null before the thread's first call: see thread_state.h.
extern __thread SeenContext* t_seen_context;

inline bool IsSeen(const PyThreadState* state) {
  const SeenContext* const seen = t_seen_context;
  return __builtin_expect(seen != nullptr, 1) &&
         __builtin_expect(seen->version == state->context_ver, 1);
}

// Makes current what the thread's contextvars context has entered: see
// thread_state.h.  Needs the GIL.  An exception that is set stays set.
void FollowContext();

// Releases the GIL for one scope.  At the end it takes the GIL and drops the
// owners that ended meanwhile, so Python code may run there.
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

// Returns the result of `call`, made without the GIL.
template <typename F>
auto WithoutLock(F&& call) {
  Unlocked unlocked;
  return call();
}

// Returns true if the interpreter knows of no thread but this one, so that
// nothing would take a released GIL.  A C thread may still arrive.
bool IsAlone();

// Returns the result of `call`, which asks a driver for something that it
// answers at once: `call` waits for no device work and runs no foreign code
// (decision 16).  Keeps the GIL if no other thread could take it.
template <typename F>
auto QuickCall(F&& call) {
  if (!IsSeen(PyThreadState_Get())) FollowContext();
  return IsAlone() ? call() : WithoutLock(call);
}

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_GIL_H_
