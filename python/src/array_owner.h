// SPDX-License-Identifier: Apache-2.0
//
// Shows Python's cycle collector the owners of arrays' memory.
//
// An array over a Python object's memory keeps that object alive through C++,
// and the object may in turn refer to the array.  The collector cannot follow a
// reference that C++ holds.  An OwnerLink lets it see that only arrays keep the
// object alive.
//
//   object  <- memory (C++)  <- each array over it
//      ^                             |
//      +------ OwnerLink <-----------+     what the collector follows
//
// An array has no tp_clear, as a tuple has none: its owner is older than it, so
// only a change of another object can close a cycle, and that object can be
// cleared.
//
// Needs the GIL.  The collector compares reference counts while it holds the
// GIL.  A call that lets the GIL go must therefore hold an Array or a storage
// of its own before, and must not replace the array of an object meanwhile.

#ifndef DEVRT_PYTHON_SRC_ARRAY_OWNER_H_
#define DEVRT_PYTHON_SRC_ARRAY_OWNER_H_

#include "devrt/arrays/array.h"
#include "python/src/python.h"

namespace devrt::python {

bool AddOwnerLinks();

// Sets *link to a new reference to the OwnerLink of this array's owner, or to
// null if no Python object owns the memory.  Only ArrayObjects may hold links,
// one each, and must drop it before their array.  Returns false with an
// exception set on failure.
bool FindOwnerLink(const Array& array, PyObject** link);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_ARRAY_OWNER_H_
