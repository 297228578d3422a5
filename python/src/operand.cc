// SPDX-License-Identifier: Apache-2.0
#include "python/src/operand.h"

#include <limits>
#include <utility>

#include "python/src/arguments.h"
#include "python/src/call_site.h"
#include "python/src/run_allocation.h"

namespace devrt::python {
namespace {

Rule RuleOf(BinaryOp op) {
  if (op >= BinaryOp::kEqual && op <= BinaryOp::kGreaterEqual) {
    return Rule::kComparison;
  }
  const bool logical =
      op == BinaryOp::kLogicalAnd || op == BinaryOp::kLogicalOr;
  return logical ? Rule::kLogical : Rule::kArithmetic;
}

// Makes an array without axes, of the number's own dtype, on the device.
std::optional<Operand> NumberArray(const Number& number, const Place& place) {
  const Place device(*place.device());
  const SiteHere site;
  absl::StatusOr<Array> made = RunAllocation([&] {
    return Array::Full({}, *number.dtype, number.value, device, site);
  });
  if (made.ok()) return Operand(*std::move(made));
  Raise(made.status());
  return std::nullopt;
}

// Returns true if the number's dtype changes the dtype of a result with
// `dtype`.
bool DecidesDType(const Number& number, DType dtype) {
  if (!number.dtype.has_value() || *number.dtype == dtype) return false;
  const absl::StatusOr<DType> strong = PromoteTypes(dtype, *number.dtype);
  const absl::StatusOr<DType> weak =
      PromoteWithScalar(dtype, number.value.kind());
  return strong.ok() && weak.ok() && *strong != *weak;
}

}  // namespace

int ToGiven(PyObject* object, GivenOperand* given) {
  if (!IsArray(object)) return ToNumber(object, &given->number);
  given->array = &ArrayOf(object);
  return 1;
}

std::optional<Operand> ToOperand(const GivenOperand& given, const Array& other,
                                 Rule rule) {
  if (given.array != nullptr) return Operand(*given.array);
  const Number& number = given.number;
  const DType dtype = other.dtype();
  if (rule == Rule::kLogical) return Operand(number.value);
  if (number.huge) {
    Scalar value(0);
    if (rule == Rule::kComparison && (dtype.is_integer() || dtype == kBool)) {
      // The number is beyond every integer.  The nearest double may equal one,
      // so it is replaced by an infinity.
      constexpr double kInfinity = std::numeric_limits<double>::infinity();
      const bool below = number.value.Value<double>() < 0;
      return Operand(Scalar(below ? -kInfinity : kInfinity));
    }
    if (!ToElement(number, dtype == kBool ? kInt64 : dtype, &value)) {
      return std::nullopt;
    }
    return Operand(value);
  }
  if (other.place().device().has_value() && DecidesDType(number, dtype)) {
    return NumberArray(number, other.place());
  }
  return Operand(number.value);
}

std::optional<Operand> ToOperand(const Number& number, const Place& place) {
  if (number.dtype.has_value() && place.device().has_value()) {
    return NumberArray(number, place);
  }
  Scalar value(0);
  if (!ToElement(number, DTypeOf(number), &value)) return std::nullopt;
  return Operand(value);
}

namespace {

// Applies the operation to two arrays, whose objects the caller keeps.
PyObject* ApplyToArrays(BinaryOp op, const Array& a, const Array& b,
                        PyObject* out) {
  // See array_owner.h.
  const auto held_a = a.storage(), held_b = b.storage();
  const auto held_out = out != nullptr ? ArrayOf(out).storage() : nullptr;
  const SiteHere site;
  absl::StatusOr<Array> result = RunAllocation([&] {
    return Apply(op, a, b, out != nullptr ? &ArrayOf(out) : nullptr, site);
  });
  if (out == nullptr || !result.ok()) return WrapArray(std::move(result));
  return NewRef(out);
}

}  // namespace

PyObject* ApplyBinary(BinaryOp op, PyObject* a, PyObject* b, PyObject* out) {
  if (IsArray(a) && IsArray(b)) {
    return ApplyToArrays(op, ArrayOf(a), ArrayOf(b), out);
  }
  GivenOperand left, right;
  const int is_left = ToGiven(a, &left);
  if (is_left < 0) return nullptr;
  const int is_right = is_left == 1 ? ToGiven(b, &right) : 0;
  if (is_right < 0) return nullptr;
  if (is_right == 0) return NewRef(Py_NotImplemented);
  // One of the two is an array.
  const Array& other = left.array != nullptr ? *left.array : *right.array;
  const Rule rule = RuleOf(op);
  const SiteHere site;
  const std::optional<Operand> x = ToOperand(left, other, rule);
  if (!x.has_value()) return nullptr;
  const std::optional<Operand> y = ToOperand(right, other, rule);
  if (!y.has_value()) return nullptr;
  std::optional<Array> target;
  if (out != nullptr) target = ArrayOf(out);
  absl::StatusOr<Array> result = RunAllocation([&] {
    return Apply(op, *x, *y, out != nullptr ? &*target : nullptr, site);
  });
  if (out == nullptr || !result.ok()) return WrapArray(std::move(result));
  return NewRef(out);
}

PyObject* ApplyUnary(UnaryOp op, PyObject* x, PyObject* out) {
  const Array array = ArrayOf(x);
  std::optional<Array> target;
  if (out != nullptr) target = ArrayOf(out);
  const SiteHere site;
  absl::StatusOr<Array> result = RunAllocation([&] {
    return Apply(op, array, out != nullptr ? &*target : nullptr, site);
  });
  if (out == nullptr || !result.ok()) return WrapArray(std::move(result));
  return NewRef(out);
}

}  // namespace devrt::python
