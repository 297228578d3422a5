// SPDX-License-Identifier: Apache-2.0
//
// Functions that nanobind made, as Python's own kind: help() and inspect take
// nanobind's for data, and show object for every type.

#ifndef DEVRT_PYTHON_SRC_PLAIN_FUNCTIONS_H_
#define DEVRT_PYTHON_SRC_PLAIN_FUNCTIONS_H_

#include "python/src/python.h"

namespace devrt::python {

// Replaces them in the module, behind all that binds.  False with an exception.
bool MakeFunctionsPlain(PyObject* module);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_PLAIN_FUNCTIONS_H_
