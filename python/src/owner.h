// SPDX-License-Identifier: Apache-2.0
//
// Python objects that C++ keeps alive (E26).

#ifndef DEVRT_PYTHON_SRC_OWNER_H_
#define DEVRT_PYTHON_SRC_OWNER_H_

#include <atomic>
#include <memory>

#include "python/src/python.h"

namespace devrt::python {

// Keeps `object` alive.  The result may end on any thread, with or without the
// GIL, and after the interpreter.  Dropping the reference needs the GIL, so it
// is left to the first of these: a thread that returns from a call of the
// library, or the interpreter's main thread.  Without an interpreter the
// reference leaks.  Needs the GIL.
std::shared_ptr<void> KeepAlive(PyObject* object);

// Returns where `kept` stores its OwnerLink (array_owner.h), borrowed.  Null if
// KeepAlive did not make `kept`.  Needs the GIL.
PyObject** LinkOf(const std::shared_ptr<void>& kept);

extern std::atomic<bool> g_owners_wait;

// Returns true if references wait to be dropped.
inline bool OwnersWait() {
  return g_owners_wait.load(std::memory_order_relaxed);
}

// Drops the references that wait.  An exception that is set stays set.  Needs
// the GIL, and no lock of devrt, since owners run Python code when they end.
void DropOwners();

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_OWNER_H_
