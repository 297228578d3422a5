// SPDX-License-Identifier: Apache-2.0
//
// Python's operators on arrays.

#include <complex>

#include "python/src/arguments.h"
#include "python/src/array.h"
#include "python/src/call_site.h"
#include "python/src/operand.h"
#include "python/src/run_allocation.h"

namespace devrt::python {
namespace {

template <BinaryOp op>
PyObject* Binary(PyObject* a, PyObject* b) {
  return ApplyBinary(op, a, b, nullptr);
}

template <BinaryOp op>
PyObject* InPlace(PyObject* self, PyObject* other) {
  return ApplyBinary(op, self, other, self);
}

template <UnaryOp op>
PyObject* Unary(PyObject* self) {
  return ApplyUnary(op, self, nullptr);
}

PyObject* Positive(PyObject* self) {
  const Array array = ArrayOf(self);
  const SiteHere site;
  return WrapArray(RunAllocation([&] { return array.Copy(site); }));
}

BinaryOp Comparison(int operation) {
  switch (operation) {
    case Py_EQ:
      return BinaryOp::kEqual;
    case Py_NE:
      return BinaryOp::kNotEqual;
    case Py_LT:
      return BinaryOp::kLess;
    case Py_LE:
      return BinaryOp::kLessEqual;
    case Py_GT:
      return BinaryOp::kGreater;
    default:
      return BinaryOp::kGreaterEqual;
  }
}

// Returns true for lists and tuples that == compares by their own rule.
// Subclasses with a comparison of their own are left to that.
bool ComparesAsList(PyObject* object) {
  const richcmpfunc compare = Py_TYPE(object)->tp_richcompare;
  return (PyList_Check(object) && compare == PyList_Type.tp_richcompare) ||
         (PyTuple_Check(object) && compare == PyTuple_Type.tp_richcompare) ||
         PyRange_Check(object);
}

PyObject* Compare(PyObject* self, PyObject* other, int operation) {
  PyObject* result = ApplyBinary(Comparison(operation), self, other, nullptr);
  if (result != Py_NotImplemented || !ComparesAsList(other)) return result;
  // The comparison of sequences would call them different for any elements.
  Py_DECREF(result);
  PyErr_Format(PyExc_TypeError,
               "an array is not compared with a %s: make it an array, "
               "devrt.array(values, device=x.device), to compare elements; "
               "devrt.array_equal(x, values) compares all at once",
               TypeName(other));
  return nullptr;
}

// ---- As a number ------------------------------------------------------------

// Returns the only element, or nullopt with an exception set.
std::optional<Scalar> OnlyElement(PyObject* self) {
  const Array array = ArrayOf(self);
  if (!WaitUntilReady(array) || !WaitForCurrentStream(array.place())) {
    return std::nullopt;
  }
  const SiteHere site;
  const auto value = WithoutLock([&] { return array.Item(site); });
  if (value.ok()) return *value;
  Raise(value.status());
  return std::nullopt;
}

bool HasOneElement(PyObject* self, const char* what) {
  if (ArrayOf(self).size() == 1) return true;
  PyErr_Format(PyExc_TypeError,
               "only an array of one element is %s, and this one has %lld",
               what, static_cast<long long>(ArrayOf(self).size()));
  return false;
}

int Truth(PyObject* self) {
  const Array& array = ArrayOf(self);
  if (array.size() != 1) {
    PyErr_Format(g_exceptions.invalid_argument,
                 "an array of %lld elements is neither true nor false: ask "
                 "x.any(), x.all() or x.size",
                 static_cast<long long>(array.size()));
    return -1;
  }
  const std::optional<Scalar> value = OnlyElement(self);
  return value.has_value() ? static_cast<int>(value->Value<bool>()) : -1;
}

Ref Number(PyObject* self, const char* what) {
  if (!HasOneElement(self, what)) return Ref();
  const std::optional<Scalar> value = OnlyElement(self);
  return value.has_value() ? Ref(FromScalar(*value)) : Ref();
}

// Python's conversion of complex raises the fitting TypeError.
PyObject* Float(PyObject* self) {
  const Ref number(Number(self, "a float"));
  return number ? PyNumber_Float(number.get()) : nullptr;
}

PyObject* Int(PyObject* self) {
  const Ref number(Number(self, "an int"));
  return number ? PyNumber_Long(number.get()) : nullptr;
}

PyObject* Index(PyObject* self) {
  const Array& array = ArrayOf(self);
  if (array.ndim() != 0 || !array.dtype().is_integer()) {
    PyErr_SetString(PyExc_TypeError,
                    "only a 0-d array of integers can be used as an index");
    return nullptr;
  }
  const Ref number(Number(self, "an index"));
  return number ? PyNumber_Index(number.get()) : nullptr;
}

int Contains(PyObject* self, PyObject* value) {
  GivenOperand given;
  const int known = ToGiven(value, &given);
  if (known < 0) return -1;
  if (known == 0) {
    PyErr_Format(PyExc_TypeError, "an array contains numbers, not %s",
                 TypeName(value));
    return -1;
  }
  const Array array = ArrayOf(self);
  const SiteHere site;
  const std::optional<Operand> operand =
      ToOperand(given, array, Rule::kComparison);
  if (!operand.has_value()) return -1;
  absl::StatusOr<Array> any = WithoutLock([&]() -> absl::StatusOr<Array> {
    absl::StatusOr<Array> equal =
        Apply(BinaryOp::kEqual, array, *operand, nullptr, site);
    if (!equal.ok()) return equal.status();
    return Reduce(ReduceOp::kAny, *equal, {}, site);
  });
  if (any.ok() && !WaitBefore(*any)) {
    DropUnlocked(any->TakeStorage());
    return -1;
  }
  const auto answer = WithoutLock([&]() -> absl::StatusOr<Scalar> {
    if (!any.ok()) return any.status();
    const Array ended = *std::move(any);
    return ended.Item(site);
  });
  if (answer.ok()) return answer->Value<bool>() ? 1 : 0;
  Raise(answer.status());
  return -1;
}

}  // namespace

PyType_Slot g_array_operator_slots[] = {
    {Py_nb_add, AsSlot(Binary<BinaryOp::kAdd>)},
    {Py_nb_subtract, AsSlot(Binary<BinaryOp::kSub>)},
    {Py_nb_multiply, AsSlot(Binary<BinaryOp::kMul>)},
    {Py_nb_true_divide, AsSlot(Binary<BinaryOp::kDiv>)},
    {Py_nb_inplace_add, AsSlot(InPlace<BinaryOp::kAdd>)},
    {Py_nb_inplace_subtract, AsSlot(InPlace<BinaryOp::kSub>)},
    {Py_nb_inplace_multiply, AsSlot(InPlace<BinaryOp::kMul>)},
    {Py_nb_inplace_true_divide, AsSlot(InPlace<BinaryOp::kDiv>)},
    {Py_nb_negative, AsSlot(Unary<UnaryOp::kNegate>)},
    {Py_nb_positive, AsSlot(Positive)},
    {Py_nb_absolute, AsSlot(Unary<UnaryOp::kAbs>)},
    {Py_nb_bool, AsSlot(Truth)},
    {Py_nb_float, AsSlot(Float)},
    {Py_nb_int, AsSlot(Int)},
    {Py_nb_index, AsSlot(Index)},
    {Py_tp_richcompare, AsSlot(Compare)},
    {Py_sq_contains, AsSlot(Contains)},
    {0, nullptr}};

}  // namespace devrt::python
