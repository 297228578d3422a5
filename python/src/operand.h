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

// What a program gives as operand.
struct GivenOperand {
  const Array* array = nullptr;  // in the object
  Number number;                 // where it is no array
};
// An array or a number: 1; something else: 0; -1 with an exception.
int ToGiven(PyObject* object, GivenOperand* given);

enum class Rule { kArithmetic, kComparison, kLogical };
// The operand that it is beside `other`: a number with a dtype that decides the
// result's becomes an array without axes.  nullopt with an exception.
std::optional<Operand> ToOperand(const GivenOperand& given, const Array& other,
                                 Rule rule);
// Of two numbers, for an operation on a device.
std::optional<Operand> ToOperand(const Number& number, const Place& place);

// `a` op `b`, into `out` if it is not null.  NotImplemented for what is neither
// an array nor a number.
PyObject* ApplyBinary(BinaryOp op, PyObject* a, PyObject* b, PyObject* out);
PyObject* ApplyUnary(UnaryOp op, PyObject* x, PyObject* out);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_OPERAND_H_
