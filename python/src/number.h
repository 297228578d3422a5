// SPDX-License-Identifier: Apache-2.0
//
// Numbers that programs give: of Python, NumPy and ml_dtypes.
//
// Python's are weak: they have a kind, and take the dtype of what they meet.
// Those of NumPy and ml_dtypes are of a dtype, with which they take part in
// promotion (NumPy 2, NEP 50), but for float8, which has no arithmetic: beside
// arrays of another dtype its numbers are weak as well.

#ifndef DEVRT_PYTHON_SRC_NUMBER_H_
#define DEVRT_PYTHON_SRC_NUMBER_H_

#include <optional>

#include "devrt/arrays/dtype.h"
#include "devrt/arrays/scalar.h"
#include "python/src/python.h"

namespace devrt::python {

struct Number {
  Scalar value = Scalar(0);
  std::optional<DType> dtype;  // of NumPy and ml_dtypes
  // An int that 64 bits cannot hold; `value` is the double nearest to it, which
  // may be infinite.
  bool huge = false;
};

// A number: 1; something else: 0; -1 with an exception.
int ToNumber(PyObject* object, Number* number);

// Whether it is a scalar of NumPy or ml_dtypes, not an array.
bool IsForeignScalar(PyObject* object);
// numpy.bool, which __index__ would make 0 or 1 of.
bool IsForeignBool(PyObject* object);

// The dtype that it has by itself.
DType DTypeOf(const Number& number);

// What an element of `dtype` becomes by assignment; false with an exception
// where that would lose more than a fraction or precision: an integer, NaN or
// infinity that the dtype does not have, and an imaginary part.
bool ToElement(const Number& number, DType dtype, Scalar* value);

// A Python number; null with an exception.
PyObject* FromScalar(const Scalar& value);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_NUMBER_H_
