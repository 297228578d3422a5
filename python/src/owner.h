// SPDX-License-Identifier: Apache-2.0
//
// Python objects that C++ keeps alive (E26).

#ifndef DEVRT_PYTHON_SRC_OWNER_H_
#define DEVRT_PYTHON_SRC_OWNER_H_

#include <atomic>
#include <memory>

#include "python/src/python.h"

namespace devrt::python {

// Keeps `object`.  Its end may come on any thread, with or without the GIL and
// after the interpreter's end: the reference is dropped by the next thread that
// comes back from a call of the library, or by the interpreter's main thread,
// whichever is first; it leaks when there is no interpreter any more.  Needs
// the GIL.
std::shared_ptr<void> KeepAlive(PyObject* object);

// A place for what the collector of cycles knows `kept` by (array_owner.h),
// borrowed; null where KeepAlive did not make it.  Needs the GIL.
PyObject** LinkOf(const std::shared_ptr<void>& kept);

extern std::atomic<bool> g_owners_wait;

// Whether references are waiting to be dropped.
inline bool OwnersWait() {
  return g_owners_wait.load(std::memory_order_relaxed);
}

// Drops them; what is raised stays raised.  Needs the GIL; under no lock of
// devrt's.
void DropOwners();

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_OWNER_H_
