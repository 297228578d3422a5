// SPDX-License-Identifier: Apache-2.0
//
// The type devrt.DType: one object per dtype, alive as long as the interpreter.

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

// Makes the type, adds it and its objects; false with an exception.
bool AddDTypes(PyObject* module);

// New reference.
PyObject* WrapDType(DType dtype);

// A DType, a name, bool, int, float or complex, or a dtype or scalar type of
// NumPy, ml_dtypes or PyTorch.  False with a TypeError, or an
// InvalidArgumentError for a dtype that devrt does not have.
bool ParseDType(PyObject* object, DType* dtype);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_DTYPE_H_
