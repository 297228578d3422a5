// SPDX-License-Identifier: Apache-2.0
#include "python/src/number.h"

#include <cmath>
#include <complex>
#include <cstring>
#include <limits>
#include <string>

#include "absl/status/statusor.h"
#include "python/src/arguments.h"
#include "python/src/errors.h"

namespace devrt::python {
namespace {

bool Begins(const char* text, const char* with) {
  return std::strncmp(text, with, std::strlen(with)) == 0;
}

bool IsNumpyName(const char* name) { return Begins(name, "numpy."); }

constexpr char kHuge[] =
    "an int below -2^63 or above 2^64 - 1 fits no dtype of integers; as a "
    "float "
    "it may";

int FromPythonInt(PyObject* object, Number* number) {
  int overflow = 0;
  const int64_t small = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow == 0) {
    if (small == -1 && PyErr_Occurred() != nullptr) return -1;
    number->value = Scalar(small);
    return 1;
  }
  if (overflow > 0) {
    const uint64_t large = PyLong_AsUnsignedLongLong(object);
    if (PyErr_Occurred() == nullptr) {
      number->value = Scalar(large);
      return 1;
    }
    PyErr_Clear();
  }
  double nearest = PyLong_AsDouble(object);
  if (PyErr_Occurred() != nullptr) {
    PyErr_Clear();
    nearest = overflow * std::numeric_limits<double>::infinity();
  }
  number->value = Scalar(nearest);
  number->huge = true;
  return 1;
}

int FromPython(PyObject* object, Number* number) {
  if (PyLong_Check(object)) return FromPythonInt(object, number);
  if (PyFloat_Check(object)) {
    number->value = Scalar(PyFloat_AS_DOUBLE(object));
    return 1;
  }
  if (!PyComplex_Check(object)) return 0;
  const Py_complex both = PyComplex_AsCComplex(object);
  number->value = Scalar(std::complex<double>(both.real, both.imag));
  return 1;
}

// Finds the dtype of a scalar's class. nullopt if devrt has none, or with an
// exception set on failure.
std::optional<DType> DTypeOfClass(PyObject* object) {
  const char* full = TypeName(object);
  absl::StatusOr<DType> found = DType::FromName(std::strrchr(full, '.') + 1);
  if (found.ok()) return *found;
  // For classes such as longlong, another name of int64.
  const Ref dtype(PyObject_GetAttrString(object, "dtype"));
  const Ref name(dtype ? PyObject_GetAttrString(dtype.get(), "name") : nullptr);
  const char* text = name ? PyUnicode_AsUTF8(name.get()) : nullptr;
  if (text == nullptr) return std::nullopt;
  found = DType::FromName(text);
  return found.ok() ? std::optional<DType>(*found) : std::nullopt;
}

int FromForeign(PyObject* object, Number* number) {
  number->dtype = DTypeOfClass(object);
  if (!number->dtype.has_value()) return PyErr_Occurred() != nullptr ? -1 : 0;
  // Converts by the scalar's own conversion to a Python number.
  const Ref value(IsNumpyName(TypeName(object))
                      ? PyObject_CallMethod(object, "item", nullptr)
                      : PyNumber_Float(object));
  if (!value) return -1;
  if (PyBool_Check(value.get())) {
    number->value = Scalar(value.get() == Py_True);
    return 1;
  }
  return FromPython(value.get(), number);
}

// A subclass of Python's numbers may define operations with arrays itself.
int FromSubclass(PyObject* object, Number* number) {
  const Ref ufunc(PyObject_GetAttrString(
      reinterpret_cast<PyObject*>(Py_TYPE(object)), "__array_ufunc__"));
  if (!ufunc) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return -1;
    PyErr_Clear();
  }
  return ufunc.get() == Py_None ? 0 : FromPython(object, number);
}

}  // namespace

bool IsForeignScalar(PyObject* object) {
  const char* name = TypeName(object);
  if (Begins(name, "ml_dtypes.")) return true;
  return IsNumpyName(name) && std::strcmp(name, "numpy.ndarray") != 0 &&
         !Begins(name, "numpy.ma") && PyNumber_Check(object) &&
         !PySequence_Check(object);
}

bool IsForeignBool(PyObject* object) {
  return Begins(TypeName(object), "numpy.bool");  // "numpy.bool_" before 2.0
}

int ToNumber(PyObject* object, Number* number) {
  *number = Number();
  if (PyFloat_CheckExact(object)) {
    number->value = Scalar(PyFloat_AS_DOUBLE(object));
    return 1;
  }
  if (PyBool_Check(object)) {
    number->value = Scalar(object == Py_True);
    return 1;
  }
  if (PyLong_CheckExact(object)) return FromPythonInt(object, number);
  if (PyComplex_CheckExact(object)) return FromPython(object, number);
  // Some scalars of NumPy are subclasses of Python's numbers.
  if (IsForeignScalar(object)) return FromForeign(object, number);
  if (!PyLong_Check(object) && !PyFloat_Check(object) &&
      !PyComplex_Check(object)) {
    return 0;
  }
  return FromSubclass(object, number);
}

DType DTypeOf(const Number& number) {
  if (number.dtype.has_value()) return *number.dtype;
  if (number.huge) return kInt64;
  return DefaultDType(number.value.kind());
}

bool ToElement(const Number& number, DType dtype, Scalar* value) {
  *value = number.value;
  if (dtype == kBool) {
    *value = Scalar(number.value.Value<bool>());
    return true;
  }
  const DTypeKind kind = number.value.kind();
  if (kind == DTypeKind::kComplex && !dtype.is_complex()) {
    PyErr_Format(PyExc_TypeError,
                 "%s cannot hold the complex number %s: take its .real, or a "
                 "complex dtype",
                 dtype.name(), number.value.ToString().c_str());
    return false;
  }
  if (number.huge &&
      (dtype.is_integer() || std::isinf(number.value.Value<double>()))) {
    PyErr_SetString(g_exceptions.invalid_argument, kHuge);
    return false;
  }
  // The operation refuses integers itself, and comparisons accept all.
  if (kind != DTypeKind::kFloat || !dtype.is_integer()) return true;
  const absl::Status held = number.value.As(dtype).status();
  if (!held.ok()) Raise(held);
  return held.ok();
}

PyObject* FromScalar(const Scalar& value) {
  switch (value.kind()) {
    case DTypeKind::kBool:
      return PyBool_FromLong(value.Value<bool>());
    case DTypeKind::kSigned:
      return PyLong_FromLongLong(value.Value<int64_t>());
    case DTypeKind::kUnsigned:
      return PyLong_FromUnsignedLongLong(value.Value<uint64_t>());
    case DTypeKind::kComplex: {
      const auto number = value.Value<std::complex<double>>();
      return PyComplex_FromDoubles(number.real(), number.imag());
    }
    default:
      return PyFloat_FromDouble(value.Value<double>());
  }
}

}  // namespace devrt::python
