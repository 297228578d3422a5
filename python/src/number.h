// SPDX-License-Identifier: Apache-2.0
//
// Numbers that programs pass: of Python, NumPy and ml_dtypes.
//
// Python's numbers are weak: they have a kind, and take the dtype of the other
// operand.  Numbers of NumPy and ml_dtypes have a dtype and take part in
// promotion with it (NumPy 2, NEP 50). float8 is an exception, as it has no
// arithmetic: beside arrays of other dtypes its numbers are weak.

#ifndef DEVRT_PYTHON_SRC_NUMBER_H_
#define DEVRT_PYTHON_SRC_NUMBER_H_

#include <optional>

#include "devrt/arrays/dtype.h"
#include "devrt/arrays/scalar.h"
#include "python/src/python.h"

namespace devrt::python {

struct Number {
  Scalar value = Scalar(0);
  std::optional<DType> dtype;  // set for numbers of NumPy and ml_dtypes
  // True for an int that does not fit 64 bits.  `value` is the nearest double
  // then, which may be infinite.
  bool huge = false;
};

// Returns 1 for a number, 0 for anything else, and -1 with an exception set.
int ToNumber(PyObject* object, Number* number);

// Returns true for scalars of NumPy or ml_dtypes, not for arrays.
bool IsForeignScalar(PyObject* object);
// Returns true for numpy.bool, which __index__ would turn into 0 or 1.
bool IsForeignBool(PyObject* object);

// Returns the number's own dtype: the default dtype of its kind if it is weak.
DType DTypeOf(const Number& number);

// Converts the number as an assignment to an element of `dtype` does.  Losing a
// fraction or precision is allowed.  Returns false with an exception set for an
// integer, NaN or infinity that the dtype does not have, and for an imaginary
// part.
bool ToElement(const Number& number, DType dtype, Scalar* value);

// Makes a Python number.  Returns null with an exception set on failure.
PyObject* FromScalar(const Scalar& value);

}  // namespace devrt::python

#endif  // DEVRT_PYTHON_SRC_NUMBER_H_
