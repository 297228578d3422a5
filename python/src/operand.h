// SPDX-License-Identifier: Apache-2.0
//
// Operands of operations on arrays.

#ifndef DEVRT_PYTHON_SRC_OPERAND_H_
#define DEVRT_PYTHON_SRC_OPERAND_H_

#include <optional>

#include "devrt/arrays/operations.h"
#include "python/src/array.h"
#include "python/src/number.h"
#include "python/src/python.h"

namespace devrt::python {

// An operand as the program passed it.
struct GivenOperand {
  const Array* array = nullptr;  // in the object; null for a number
  Number number;                 // if `array` is null
};
// Returns 1 for an array or a number, 0 for anything else, and -1 with an
// exception set.
int ToGiven(PyObject* object, GivenOperand* given);

enum class Rule { kArithmetic, kComparison, kLogical };
// Makes the operand that stands beside `other`.  A number whose dtype decides
// the dtype of the result becomes an array without axes.  Returns nullopt with
// an exception set on failure.
std::optional<Operand> ToOperand(const GivenOperand& given, const Array& other,
                                 Rule rule);
// Makes the operand of an operation on two numbers, on a device.
std::optional<Operand> ToOperand(const Number& number, const Place& place);

// Compute `a` op `b` or op `x`, into `out` unless it is null.  Return
// NotImplemented for operands that are neither arrays nor numbers.
PyObject* ApplyBinary(BinaryOp op, PyObject* a, PyObject* b, PyObject* out);
PyObject* ApplyUnary(UnaryOp op, PyObject* x, PyObject* out);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_OPERAND_H_
