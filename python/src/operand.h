// SPDX-License-Identifier: Apache-2.0
//
// Operands of operations on arrays.

#ifndef DEVRT_PYTHON_SRC_OPERAND_H_
#define DEVRT_PYTHON_SRC_OPERAND_H_

#include <optional>

#include "devrt/arrays/operations.h"
#include "python/src/array.h"
#include "python/src/python.h"

namespace devrt::python {

// An array or a number: 1; something else: 0; -1 with an exception.
inline int ToOperand(PyObject* object, std::optional<Operand>* operand) {
  if (IsArray(object)) {
    operand->emplace(ArrayOf(object));
    return 1;
  }
  Scalar number(0);
  const int is_number = ToScalar(object, &number);
  if (is_number == 1) operand->emplace(number);
  return is_number;
}

// `a` op `b`, into `out` if it is not null.  NotImplemented for what is neither
// an array nor a number.
PyObject* ApplyBinary(BinaryOp op, PyObject* a, PyObject* b, PyObject* out);
PyObject* ApplyUnary(UnaryOp op, PyObject* x, PyObject* out);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_OPERAND_H_
