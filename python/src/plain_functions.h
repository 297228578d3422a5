// SPDX-License-Identifier: Apache-2.0
//
// Turns functions that nanobind made into C functions of Python: help() and
// inspect treat nanobind's as data and show `object` for every type.

#ifndef DEVRT_PYTHON_SRC_PLAIN_FUNCTIONS_H_
#define DEVRT_PYTHON_SRC_PLAIN_FUNCTIONS_H_

#include "python/src/python.h"

namespace devrt::python {

// Replaces all such functions in the module.  Call it after all Bind functions.
// Returns false with an exception set on failure.
bool MakeFunctionsPlain(PyObject* module);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_PLAIN_FUNCTIONS_H_
