// SPDX-License-Identifier: Apache-2.0
//
// One __enter__ in a contextvars context.  A context variable has the last
// node; the nodes are a chain, which contexts and tasks share and copy.
//
// Threads: with the GIL.

#ifndef DEVRT_PYTHON_SRC_CONTEXT_NODE_H_
#define DEVRT_PYTHON_SRC_CONTEXT_NODE_H_

#include "python/src/python.h"

namespace devrt::python {

struct ContextNode {
  PyObject_HEAD  // NOLINT
      PyObject* owner;
  PyObject* before;  // the node before; may be null
};

inline ContextNode* AsContextNode(PyObject* object) {
  return reinterpret_cast<ContextNode*>(object);
}

// Makes the type of the nodes.  Returns false with an exception set.
bool AddContextNodeType();

// Returns a new node, or nullptr with an exception set.  `before` may be null.
PyObject* NewContextNode(PyObject* owner, PyObject* before);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_CONTEXT_NODE_H_
