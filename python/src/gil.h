// SPDX-License-Identifier: Apache-2.0
//
// Calls of the driver without the interpreter lock (interop.md 3.3, G1).

#ifndef DEVRT_PYTHON_SRC_GIL_H_
#define DEVRT_PYTHON_SRC_GIL_H_

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

// Takes the lock again.  A thread other than the one that ends the interpreter
// stays here for ever once that has begun: before 3.14 CPython would end it by
// unwinding through C++ frames that do not allow it.
void TakeLock(PyThreadState* state);

// Remembers which thread will end the interpreter: the one that imports.
void RememberMainThread();

// Whether this thread is the one that runs handlers of signals.
bool IsMainThread();

// Lets the lock go for one scope.
class Unlocked {
 public:
  Unlocked() : state_(PyEval_SaveThread()) {}
  Unlocked(const Unlocked&) = delete;
  Unlocked& operator=(const Unlocked&) = delete;
  ~Unlocked() { TakeLock(state_); }

 private:
  PyThreadState* state_;
};

// The result of `call`, made without the lock.
template <typename F>
auto WithoutLock(F&& call) {
  Unlocked unlocked;
  return call();
}

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_GIL_H_
