// SPDX-License-Identifier: Apache-2.0
#ifndef DEVRT_PYTHON_SRC_CONTEXTS_H_
#define DEVRT_PYTHON_SRC_CONTEXTS_H_

#include "python/src/python.h"

namespace devrt::python {

// Adds current_device(), the other functions about what is current, and
// ThreadContext.  Returns false with an exception set on failure.
bool AddContexts(PyObject* module);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_CONTEXTS_H_
