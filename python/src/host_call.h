// SPDX-License-Identifier: Apache-2.0
//
// Python functions in stream order (interop.md rule 18).
//
// What the driver calls only puts a number into a queue; a thread of Python's
// (devrt/_host_functions.py) takes it out and calls.

#ifndef DEVRT_PYTHON_SRC_HOST_CALL_H_
#define DEVRT_PYTHON_SRC_HOST_CALL_H_

#include "python/src/python.h"

namespace devrt::python {

// Stream._launch_host_call(callable): `callable` will come out of
// NextHostCall, with the status of the stream's earlier work.
PyObject* LaunchHostCall(PyObject* self, PyObject* callable);

// _core._next_host_call(): waits; (callable, exception or None).
PyObject* NextHostCall(PyObject* module, PyObject*);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_HOST_CALL_H_
