// SPDX-License-Identifier: Apache-2.0
//
// Operations and reductions as functions of the module, with NumPy's names.

#include <vector>

#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/call_site.h"
#include "python/src/operand.h"
#include "python/src/run_allocation.h"

namespace devrt::python {
namespace {

bool RequireArray(PyObject* object, const char* function, const char* what) {
  if (IsArray(object)) return true;
  PyErr_Format(PyExc_TypeError, "%s() needs a devrt.Array as %s, not %s",
               function, what, TypeName(object));
  return false;
}

bool ParseOut(PyObject* value, const char* function, PyObject** out) {
  *out = value == Py_None ? nullptr : value;
  return *out == nullptr || RequireArray(*out, function, "out");
}

template <BinaryOp op>
PyObject* Binary(PyObject*, PyObject* const* args, Py_ssize_t count,
                 PyObject* names) {
  static const Parameters kParameters = {
      ToString(op), 2, 3, 3, {"a", "b", "out"}};
  PyObject* values[3];
  PyObject* out;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !ParseOut(values[2], kParameters.function, &out)) {
    return nullptr;
  }
  if (!IsArray(values[0]) && !IsArray(values[1])) {
    PyErr_Format(
        PyExc_TypeError, "%s() needs at least one devrt.Array, not %s and %s",
        kParameters.function, TypeName(values[0]), TypeName(values[1]));
    return nullptr;
  }
  PyObject* result = ApplyBinary(op, values[0], values[1], out);
  if (result != Py_NotImplemented) return result;
  Py_DECREF(result);
  PyErr_Format(PyExc_TypeError,
               "%s() needs devrt arrays and numbers, not %s and %s; "
               "devrt.array(...) makes an array of host data",
               kParameters.function, TypeName(values[0]), TypeName(values[1]));
  return nullptr;
}

template <UnaryOp op>
PyObject* Unary(PyObject*, PyObject* const* args, Py_ssize_t count,
                PyObject* names) {
  static const Parameters kParameters = {ToString(op), 1, 2, 2, {"x", "out"}};
  PyObject* values[2];
  PyObject* out;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !ParseOut(values[1], kParameters.function, &out) ||
      !RequireArray(values[0], kParameters.function, "x")) {
    return nullptr;
  }
  return ApplyUnary(op, values[0], out);
}

// Makes the operand for one of the two values that where() chooses from.
std::optional<Operand> Choice(const GivenOperand& given,
                              const GivenOperand& other,
                              const Array& condition) {
  if (given.array != nullptr) return Operand(*given.array);
  if (other.array != nullptr) {
    return ToOperand(given, *other.array, Rule::kArithmetic);
  }
  return ToOperand(given.number, condition.place());
}

PyObject* Where(PyObject*, PyObject* const* args, Py_ssize_t count,
                PyObject* names) {
  static const Parameters kParameters = {
      "where", 3, 3, 3, {"condition", "a", "b"}};
  PyObject* values[3];
  GivenOperand a, b;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !RequireArray(values[0], "where", "condition")) {
    return nullptr;
  }
  const int is_a = ToGiven(values[1], &a);
  if (is_a < 0) return nullptr;
  const int is_b = ToGiven(values[2], &b);
  if (is_b < 0) return nullptr;
  if (is_a == 0 || is_b == 0) {
    PyErr_Format(PyExc_TypeError,
                 "where() needs devrt arrays and numbers, not %s",
                 TypeName(values[is_a == 0 ? 1 : 2]));
    return nullptr;
  }
  const Array condition = ArrayOf(values[0]);
  const SiteHere site;
  const std::optional<Operand> left = Choice(a, b, condition);
  if (!left.has_value()) return nullptr;
  const std::optional<Operand> right = Choice(b, a, condition);
  if (!right.has_value()) return nullptr;
  return WrapArray(RunAllocation(
      [&] { return devrt::Where(condition, *left, *right, site); }));
}

PyObject* ArrayEqualFunction(PyObject*, PyObject* const* args, Py_ssize_t count,
                             PyObject* names) {
  static const Parameters kParameters = {"array_equal", 2, 2, 2, {"a", "b"}};
  PyObject* values[2];
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !RequireArray(values[0], "array_equal", "a")) {
    return nullptr;
  }
  std::optional<Source> other = ToSource(values[1]);
  if (!other.has_value()) return nullptr;
  const Array a = ArrayOf(values[0]);
  if (a.shape() == other->array.shape() &&
      (!WaitBefore(a) || !WaitBefore(other->array))) {
    return nullptr;
  }
  const SiteHere site;
  const auto equal = WithoutLock([&] {
    const Array b = std::move(other->array);
    return ArrayEqual(a, b, site);
  });
  return equal.ok() ? PyBool_FromLong(*equal) : Raise(equal.status());
}

// ---- Reductions -------------------------------------------------------------

bool ParseReduceOptions(PyObject* axis, PyObject* dtype, PyObject* keep_dims,
                        int ndim, ReduceOptions* options) {
  if (!ToBool(keep_dims, "keepdims", &options->keep_dims)) return false;
  if (dtype != nullptr && dtype != Py_None) {
    options->dtype = kBool;
    if (!ParseDType(dtype, &*options->dtype)) return false;
  }
  if (axis == nullptr || axis == Py_None) return true;
  Dims numbers;
  return ParseShape(axis, "axis", &numbers) &&
         ToAxes(numbers, ndim, &options->axes.emplace());
}

PyObject* ReduceArray(ReduceOp op, PyObject* x, PyObject** values) {
  ReduceOptions options;
  if (!ParseReduceOptions(values[0], values[2], values[1], ArrayOf(x).ndim(),
                          &options)) {
    return nullptr;
  }
  if (options.dtype.has_value() && op != ReduceOp::kSum &&
      op != ReduceOp::kProd) {
    PyErr_Format(PyExc_TypeError, "%s() has no argument 'dtype'", ToString(op));
    return nullptr;
  }
  const Array array = ArrayOf(x);
  const SiteHere site;
  return WrapArray(
      RunAllocation([&] { return Reduce(op, array, options, site); }));
}

template <ReduceOp op>
PyObject* ReduceMethod(PyObject* self, PyObject* const* args, Py_ssize_t count,
                       PyObject* names) {
  static const Parameters kParameters = {
      ToString(op), 0, 1, 3, {"axis", "keepdims", "dtype"}};
  PyObject* values[3];
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values)) {
    return nullptr;
  }
  return ReduceArray(op, self, values);
}

template <ReduceOp op>
PyObject* ReduceFunction(PyObject*, PyObject* const* args, Py_ssize_t count,
                         PyObject* names) {
  static const Parameters kParameters = {
      ToString(op), 1, 2, 4, {"x", "axis", "keepdims", "dtype"}};
  PyObject* values[4];
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !RequireArray(values[0], kParameters.function, "x")) {
    return nullptr;
  }
  return ReduceArray(op, values[0], values + 1);
}

// ---- Measurements -----------------------------------------------------------

constexpr uint32_t kMostTimes = 10000;  // Ctrl-C does not end the loop

// The C++ call that a + b makes, so often that Python's part is small.
PyObject* AddTimes(PyObject*, PyObject* const* args, Py_ssize_t count,
                   PyObject* names) {
  static const Parameters kParameters = {
      "_add_times", 3, 3, 3, {"a", "b", "times"}};
  PyObject* values[3];
  uint64_t times = 0;
  if (!SortArguments(kParameters, args, static_cast<size_t>(count), names,
                     values) ||
      !RequireArray(values[0], kParameters.function, "a") ||
      !RequireArray(values[1], kParameters.function, "b") ||
      !ToCount(values[2], "times", &times)) {
    return nullptr;
  }
  if (times > kMostTimes) {
    PyErr_Format(g_exceptions.invalid_argument, "times is %R, expected 0 to %u",
                 values[2], kMostTimes);
    return nullptr;
  }
  const Array a = ArrayOf(values[0]), b = ArrayOf(values[1]);
  const SiteHere site;
  return NoneOrRaise(WithoutLock([&] {
    absl::Status status;
    for (uint64_t i = 0; i < times && status.ok(); ++i) {
      status = Apply(BinaryOp::kAdd, a, b, nullptr, site).status();
    }
    return status;
  }));
}

// ---- Tables -----------------------------------------------------------------

#define DEVRT_BINARY(name, op, what)                                           \
  {                                                                            \
    name, AsMethod(Binary<BinaryOp::op>), METH_FASTCALL | METH_KEYWORDS,       \
        name                                                                   \
        "(a, b, out=None)\n--\n\n" what                                        \
        ", element by element.\n\n"                                            \
        "Takes two arrays of one device, or an array and a number.  They\n"    \
        "broadcast and promote by NumPy's rules: Python's numbers are weak,\n" \
        "and NumPy's have their dtype.\n"                                      \
        "out: an array of the result's shape.  It is written and "             \
        "returned.\n\n"                                                        \
        "Raises ValueError for shapes that do not broadcast and arrays of\n"   \
        "two devices, and UnsupportedError for a dtype that the operation\n"   \
        "does not take and for pageable host memory."                          \
  }

#define DEVRT_UNARY(name, op, what)                                         \
  {                                                                         \
    name, AsMethod(Unary<UnaryOp::op>), METH_FASTCALL | METH_KEYWORDS,      \
        name                                                                \
        "(x, out=None)\n--\n\n" what                                        \
        ", element by element.\n\n"                                         \
        "out: an array of x's shape, which is written and returned.\n\n"    \
        "Raises UnsupportedError for a dtype that the operation does not\n" \
        "take and for pageable host memory."                                \
  }

#define DEVRT_AXES_TEXT                                                       \
  "\n\naxis: one or a tuple of axes; None is all axes.  The result has the\n" \
  "other axes.\n"                                                             \
  "keepdims: the result also keeps the reduced axes, with extent 1."

#define DEVRT_REDUCE_FUNCTION(name, op, more, what)                         \
  {                                                                         \
    name, AsMethod(ReduceFunction<ReduceOp::op>),                           \
        METH_FASTCALL | METH_KEYWORDS,                                      \
        name "(x, axis=None, *, keepdims=False" more                        \
             ")\n--\n\n" what DEVRT_AXES_TEXT                               \
             "\n\n"                                                         \
             "Raises ValueError for an axis that x does not have, and\n"    \
             "UnsupportedError for a dtype without the operation and for\n" \
             "pageable host memory."                                        \
  }

#define DEVRT_REDUCE_METHOD(name, op, more, what)                              \
  {                                                                            \
    name, AsMethod(ReduceMethod<ReduceOp::op>), METH_FASTCALL | METH_KEYWORDS, \
        name "($self, /, axis=None, *, keepdims=False" more                    \
             ")\n--\n\n" what DEVRT_AXES_TEXT                                  \
  }

}  // namespace

PyMethodDef g_array_reduce_methods[] = {
    DEVRT_REDUCE_METHOD(
        "sum", kSum, ", dtype=None",
        "The sum, in `dtype` or in the dtype that NumPy chooses."),
    DEVRT_REDUCE_METHOD(
        "prod", kProd, ", dtype=None",
        "The product, in `dtype` or in the dtype that NumPy chooses."),
    DEVRT_REDUCE_METHOD(
        "min", kMin, "",
        "The least element.  Raises ValueError without elements."),
    DEVRT_REDUCE_METHOD(
        "max", kMax, "",
        "The greatest element.  Raises ValueError without elements."),
    DEVRT_REDUCE_METHOD(
        "mean", kMean, "",
        "The mean: float64 for integers, and NaN without elements."),
    DEVRT_REDUCE_METHOD("any", kAny, "", "True if any element is not 0."),
    DEVRT_REDUCE_METHOD("all", kAll, "", "True if all elements are not 0."),
    {nullptr, nullptr, 0, nullptr}};

PyMethodDef g_array_operation_functions[] = {
    DEVRT_BINARY("add", kAdd, "a + b"),
    DEVRT_BINARY("subtract", kSub, "a - b"),
    DEVRT_BINARY("multiply", kMul, "a * b"),
    DEVRT_BINARY("divide", kDiv, "a / b"),
    DEVRT_BINARY("maximum", kMaximum, "The larger of a and b"),
    DEVRT_BINARY("minimum", kMinimum, "The smaller of a and b"),
    DEVRT_BINARY("equal", kEqual, "a == b as bool_"),
    DEVRT_BINARY("not_equal", kNotEqual, "a != b as bool_"),
    DEVRT_BINARY("less", kLess, "a < b as bool_"),
    DEVRT_BINARY("less_equal", kLessEqual, "a <= b as bool_"),
    DEVRT_BINARY("greater", kGreater, "a > b as bool_"),
    DEVRT_BINARY("greater_equal", kGreaterEqual, "a >= b as bool_"),
    DEVRT_BINARY("logical_and", kLogicalAnd,
                 "True where a and b are both not 0, as bool_"),
    DEVRT_BINARY("logical_or", kLogicalOr,
                 "True where a or b is not 0, as bool_"),
    DEVRT_UNARY("negative", kNegate, "-x"),
    DEVRT_UNARY("absolute", kAbs, "|x|"),
    DEVRT_UNARY("logical_not", kLogicalNot, "x == 0 as bool_"),
    {"where", AsMethod(Where), METH_FASTCALL | METH_KEYWORDS,
     "where(condition, a, b)\n"
     "--\n\n"
     "Returns elements of a where condition is not 0, and of b elsewhere.\n\n"
     "All three broadcast. a and b are arrays of the condition's device or\n"
     "numbers, and promote by NumPy's rules.\n\n"
     "Raises ValueError for shapes that do not broadcast and arrays of two\n"
     "devices, UnsupportedError for pageable host memory."},
    {"array_equal", AsMethod(ArrayEqualFunction), METH_FASTCALL | METH_KEYWORDS,
     "array_equal(a, b)\n"
     "--\n\n"
     "Returns True if the shapes and all elements are equal.  Waits.\n\n"
     "b may be in another place, or a NumPy array."},
    DEVRT_REDUCE_FUNCTION("sum", kSum, ", dtype=None",
                          "The sum of the elements, in `dtype` or in the dtype "
                          "that NumPy chooses."),
    DEVRT_REDUCE_FUNCTION(
        "prod", kProd, ", dtype=None",
        "The product of the elements, in `dtype` or in the dtype that NumPy\n"
        "chooses."),
    DEVRT_REDUCE_FUNCTION(
        "min", kMin, "",
        "The least element.  Raises ValueError without elements."),
    DEVRT_REDUCE_FUNCTION(
        "max", kMax, "",
        "The greatest element.  Raises ValueError without elements."),
    DEVRT_REDUCE_FUNCTION(
        "mean", kMean, "",
        "The mean: float64 for integers, and NaN without elements."),
    DEVRT_REDUCE_FUNCTION("any", kAny, "", "True if any element is not 0."),
    DEVRT_REDUCE_FUNCTION("all", kAll, "", "True if all elements are not 0."),
    {"_add_times", AsMethod(AddTimes), METH_FASTCALL | METH_KEYWORDS,
     "_add_times(a, b, times)\n"
     "--\n\n"
     "Makes a + b in C++ so many times, for bench/python_bench.py."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace devrt::python
