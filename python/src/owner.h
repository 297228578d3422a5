// SPDX-License-Identifier: Apache-2.0
//
// Python objects that C++ keeps alive (interop.md 3.3, G5).

#ifndef DEVRT_PYTHON_SRC_OWNER_H_
#define DEVRT_PYTHON_SRC_OWNER_H_

#include <memory>

#include "python/src/python.h"

namespace devrt::python {

// Keeps `object`.  Its end may come on any thread, with or without the GIL and
// after the interpreter's end: the reference is dropped by a thread that has
// the GIL, soon after, or leaks when there is no interpreter any more.  Needs
// the GIL.
std::shared_ptr<void> KeepAlive(PyObject* object);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_OWNER_H_
