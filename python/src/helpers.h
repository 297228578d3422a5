// SPDX-License-Identifier: Apache-2.0
//
// Methods of the types whose bodies are Python functions (devrt/_contexts.py).
// Each calls the helper with its own arguments.

#ifndef DEVRT_PYTHON_SRC_HELPERS_H_
#define DEVRT_PYTHON_SRC_HELPERS_H_

#include "python/src/python.h"

namespace devrt::python {

// _core._set_helpers(decorate, run, launch, await)
PyObject* SetHelpers(PyObject* module, PyObject* helpers);

// tp_call of contexts: decorates a function so that it runs in the context.
PyObject* Decorate(PyObject* self, PyObject* args, PyObject* keywords);
// ThreadContext.run(function, ...)
PyObject* RunInContext(PyObject* self, PyObject* args, PyObject* keywords);
// Stream.__await__, Event.__await__
PyObject* Await(PyObject* self);
// Stream.launch_host_func(function, ...)
PyObject* LaunchHostFunction(PyObject* self, PyObject* args,
                             PyObject* keywords);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_HELPERS_H_
