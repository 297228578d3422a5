// SPDX-License-Identifier: Apache-2.0
//
// The type devrt.DType: one object for each dtype, alive as long as the
// interpreter.

#ifndef DEVRT_PYTHON_SRC_DTYPE_H_
#define DEVRT_PYTHON_SRC_DTYPE_H_

#include "devrt/arrays/dtype.h"
#include "python/src/python.h"

namespace devrt::python {

struct DTypeObject {
  PyObject_HEAD  // NOLINT
      DType dtype;
  PyObject* name;  // "float32"
};

extern PyTypeObject* g_dtype_type;

// Makes the type, and adds it and its objects to the module.  Returns false
// with an exception set on failure.
bool AddDTypes(PyObject* module);

// Returns a new reference.
PyObject* WrapDType(DType dtype);

// Reads a dtype: a DType, a name, bool, int, float or complex, or a dtype or
// scalar type of NumPy, ml_dtypes or PyTorch.  Returns false with a TypeError
// set, or an InvalidArgumentError for a dtype that devrt does not have.
bool ParseDType(PyObject* object, DType* dtype);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_DTYPE_H_
