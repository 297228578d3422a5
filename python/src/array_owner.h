// SPDX-License-Identifier: Apache-2.0
//
// Owners of arrays' memory, where the collector of cycles can see them.
//
// An array of a Python object's memory keeps that object; the object may have
// the array.  What C++ keeps the collector takes for used from outside: here it
// learns which arrays keep the object, where no one else does.
//
//   object  <- memory (C++)  <- each array over it
//      ^                             |
//      +------ OwnerLink <-----------+     what the collector follows
//
// An array has no tp_clear, as a tuple has none: its owner is older than it, so
// a cycle is closed by a change of another object, which can be cleared.
//
// Needs the GIL.  The memory is counted as the collector works: a call without
// the GIL has it already when it lets the GIL go, by an Array or a storage of
// its own, and works with no object's array in place.

#ifndef DEVRT_PYTHON_SRC_ARRAY_OWNER_H_
#define DEVRT_PYTHON_SRC_ARRAY_OWNER_H_

#include "devrt/arrays/array.h"
#include "python/src/python.h"

namespace devrt::python {

bool AddOwnerLinks();

// What an object over this array holds for the collector: a new reference, with
// null in *link where no object of Python's owns the memory.  Only objects of
// arrays hold it, each once, and let it go before their array.  False with an
// exception.
bool FindOwnerLink(const Array& array, PyObject** link);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_ARRAY_OWNER_H_
