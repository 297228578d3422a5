// SPDX-License-Identifier: Apache-2.0
//
// Operations on arrays: element by element, and over axes.
//
//   DEVRT_ASSIGN_OR_RETURN(auto c, devrt::Add(a, b));          // broadcasts
//   DEVRT_ASSIGN_OR_RETURN(auto m, devrt::Where(mask, a, 0.0));
//   DEVRT_RETURN_IF_ERROR(devrt::AddInto(out, a, b));          // no allocation
//   devrt::ReduceOptions rows;
//   rows.axes = std::vector<int>{0};
//   DEVRT_ASSIGN_OR_RETURN(auto s, devrt::Sum(c, rows));
//
// Operands are numbers, and arrays of one device or in its pinned memory.  They
// broadcast and promote by NumPy's rules.  The work runs on the current stream
// of that device, with the arithmetic of devrt_tensor.h.  A result is a new
// C-contiguous array on that device.
//
// The `Into` forms write to an array that has the shape of the result and a
// dtype of the result's kind or a higher kind.  That array may be one of the
// operands.  If it overlaps an operand otherwise, the result is what it would
// be without the overlap.
//
// What it is not: arithmetic on the host.  Operands in plain host memory are
// UNIMPLEMENTED: call To(device) first.
//
// Division: Div is numpy.true_divide, so integers give float64.  DivTruncated
// keeps integers and rounds toward zero; by zero it gives 0.  There is no
// FloorDiv.  Integers compare by value, as in NumPy, also with numbers that
// their dtype cannot hold.  Means of 16-bit floats are summed in float32.
//
// Memory: a mean that is computed in another dtype than that of the elements
// (int64 in float64, float16 in float32), and a sum or product with such a
// `dtype` unless both dtypes are integers, casts the elements first.  While it
// runs it needs memory for all elements in that dtype; an element that a
// broadcast repeats counts once.  Means of integers of up to 32 bits need no
// such memory, up to 2^31 elements in each mean.
//
// Errors: INVALID_ARGUMENT for shapes that do not broadcast, operands on two
// devices (the error names both, and To), and targets that are read-only or
// overlap themselves; UNIMPLEMENTED for dtypes that an operation does not take,
// float8 among them, and for backends without devrt.elementwise/0.

#ifndef DEVRT_ARRAYS_OPS_OPERATIONS_H_
#define DEVRT_ARRAYS_OPS_OPERATIONS_H_

#include <optional>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "devrt/arrays/array.h"
#include "devrt/arrays/scalar.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/export.h"

namespace devrt {

// Operations with one operand.
enum class UnaryOp { kNegate, kAbs, kLogicalNot };
// Operations with two operands.
enum class BinaryOp {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kDivTruncated,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kLogicalAnd,
  kLogicalOr,
  kMaximum,
  kMinimum,
};
// Operations over axes.
enum class ReduceOp { kSum, kProd, kMin, kMax, kMean, kAny, kAll };

// "add", "less_equal", "mean": NumPy's names.
DEVRT_EXPORT const char* ToString(UnaryOp op);
DEVRT_EXPORT const char* ToString(BinaryOp op);
DEVRT_EXPORT const char* ToString(ReduceOp op);

// An array or a number.
class Operand {
 public:
  Operand(Array array) : value_(std::move(array)) {}  // NOLINT
  template <typename T,
            typename = std::enable_if_t<std::is_constructible_v<Scalar, T>>>
  Operand(T number) : value_(Scalar(number)) {}  // NOLINT
  // The array or the number; nullptr for the one that the operand is not:
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Scalar* scalar() const { return std::get_if<Scalar>(&value_); }

 private:
  std::variant<Array, Scalar> value_;
};

// ---- With the operation as a value, for bindings ---------------------------

// Writes to `out`, or to a new array if `out` is null, and returns that array.
// At least one operand must be an array.
DEVRT_EXPORT absl::StatusOr<Array> Apply(UnaryOp op, const Array& x,
                                         const Array* out = nullptr,
                                         CallSite site = CallSite::Here());
DEVRT_EXPORT absl::StatusOr<Array> Apply(BinaryOp op, const Operand& a,
                                         const Operand& b,
                                         const Array* out = nullptr,
                                         CallSite site = CallSite::Here());
// For two arrays, without the cost of copying two Array objects.
DEVRT_EXPORT absl::StatusOr<Array> Apply(BinaryOp op, const Array& a,
                                         const Array& b,
                                         const Array* out = nullptr,
                                         CallSite site = CallSite::Here());
// Apply to an array `out` that exists.
DEVRT_EXPORT absl::Status ApplyInto(BinaryOp op, const Array& out,
                                    const Operand& a, const Operand& b,
                                    CallSite site = CallSite::Here());
DEVRT_EXPORT absl::Status ApplyInto(BinaryOp op, const Array& out,
                                    const Array& a, const Array& b,
                                    CallSite site = CallSite::Here());
// The dtype of the result, for bindings that allocate it themselves.
DEVRT_EXPORT absl::StatusOr<DType> ResultType(BinaryOp op, const Operand& a,
                                              const Operand& b);

// Over which axes, and to what dtype and shape.
struct ReduceOptions {
  // nullopt: all axes; an empty list: no axis.  Negative axes count from the
  // end.
  std::optional<std::vector<int>> axes;
  bool keep_dims = false;  // the reduced axes stay, with an extent of 1
  // The dtype of a sum, product or mean.  nullopt: NumPy's default.
  std::optional<DType> dtype;
};
// Reduces `x` over axes.  kMean of integers is float64, and kMean over no
// elements is NaN.  INVALID_ARGUMENT: an axis that is given twice or does not
// exist; kMin or kMax over no elements.
DEVRT_EXPORT absl::StatusOr<Array> Reduce(ReduceOp op, const Array& x,
                                          const ReduceOptions& options = {},
                                          CallSite site = CallSite::Here());

// Takes the element of `a` where that of `condition` is not 0, otherwise the
// element of `b`.  For two numbers the dtype is the one that NumPy gives
// Python's numbers by value: integers are int64, or uint64 if one number needs
// it.  INVALID_ARGUMENT if one number needs uint64 and the other is negative.
DEVRT_EXPORT absl::StatusOr<Array> Where(const Array& condition,
                                         const Operand& a, const Operand& b,
                                         CallSite site = CallSite::Here());

// Returns true if the shapes are equal and all elements are, after promotion.
// NaN equals nothing.  Waits on the host for the answer.  The arrays may be in
// plain host memory and in two places.
DEVRT_EXPORT absl::StatusOr<bool> ArrayEqual(const Array& a, const Array& b,
                                             CallSite site = CallSite::Here());

// ---- With a function for each operation -------------------------------------

#define DEVRT_BINARY(Name, Op)                                          \
  inline absl::StatusOr<Array> Name(const Operand& a, const Operand& b, \
                                    CallSite site = CallSite::Here()) { \
    return Apply(BinaryOp::Op, a, b, nullptr, site);                    \
  }                                                                     \
  inline absl::StatusOr<Array> Name(const Array& a, const Array& b,     \
                                    CallSite site = CallSite::Here()) { \
    return Apply(BinaryOp::Op, a, b, nullptr, site);                    \
  }
// A new array with the operation's result, element by element.  One operand at
// least is an array:
DEVRT_BINARY(Add, kAdd)
DEVRT_BINARY(Sub, kSub)
DEVRT_BINARY(Mul, kMul)
DEVRT_BINARY(Div, kDiv)
DEVRT_BINARY(DivTruncated, kDivTruncated)
DEVRT_BINARY(Equal, kEqual)
DEVRT_BINARY(NotEqual, kNotEqual)
DEVRT_BINARY(Less, kLess)
DEVRT_BINARY(LessEqual, kLessEqual)
DEVRT_BINARY(Greater, kGreater)
DEVRT_BINARY(GreaterEqual, kGreaterEqual)
DEVRT_BINARY(LogicalAnd, kLogicalAnd)
DEVRT_BINARY(LogicalOr, kLogicalOr)
DEVRT_BINARY(Maximum, kMaximum)
DEVRT_BINARY(Minimum, kMinimum)
#undef DEVRT_BINARY

// Writes a + b to `out`.
inline absl::Status AddInto(const Array& out, const Operand& a,
                            const Operand& b,
                            CallSite site = CallSite::Here()) {
  return ApplyInto(BinaryOp::kAdd, out, a, b, site);
}
inline absl::Status AddInto(const Array& out, const Array& a, const Array& b,
                            CallSite site = CallSite::Here()) {
  return ApplyInto(BinaryOp::kAdd, out, a, b, site);
}

// The elements with the opposite sign.
inline absl::StatusOr<Array> Negate(const Array& x,
                                    CallSite site = CallSite::Here()) {
  return Apply(UnaryOp::kNegate, x, nullptr, site);
}
// The absolute values; of complex numbers, real ones.
inline absl::StatusOr<Array> Abs(const Array& x,
                                 CallSite site = CallSite::Here()) {
  return Apply(UnaryOp::kAbs, x, nullptr, site);
}
// Bools: true where the element is 0.
inline absl::StatusOr<Array> LogicalNot(const Array& x,
                                        CallSite site = CallSite::Here()) {
  return Apply(UnaryOp::kLogicalNot, x, nullptr, site);
}
// Reduce with kSum.
inline absl::StatusOr<Array> Sum(const Array& x,
                                 const ReduceOptions& options = {},
                                 CallSite site = CallSite::Here()) {
  return Reduce(ReduceOp::kSum, x, options, site);
}

}  // namespace devrt

#endif  // DEVRT_ARRAYS_OPS_OPERATIONS_H_
