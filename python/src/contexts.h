// SPDX-License-Identifier: Apache-2.0
#ifndef DEVRT_PYTHON_SRC_CONTEXTS_H_
#define DEVRT_PYTHON_SRC_CONTEXTS_H_

#include "python/src/python.h"

namespace devrt::python {

// current_device() and its like, and ThreadContext; false with an exception.
bool AddContexts(PyObject* module);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_CONTEXTS_H_
