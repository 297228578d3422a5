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
// Operands are arrays of one device (or pinned memory of it) and numbers; they
// broadcast and promote by NumPy's rules.  The work runs on the current stream
// of that device, in the arithmetic of devrt_tensor.h.  Results are new and
// C-contiguous on that device.  The `Into` forms write an array of the result's
// shape, cast to its dtype where that is of the same kind or above; it may be
// one of the operands, and where it overlaps one otherwise, the result is as if
// it were computed apart.
//
// What it is not: host arithmetic.  Operands in plain host memory are
// UNIMPLEMENTED: To(device) first.
//
// Division: Div is numpy.true_divide (integers become float64), FloorDiv does
// not exist; DivTruncated keeps integers, toward zero, by zero gives 0.
// Integers compare by value, as NumPy's, also with numbers beyond their dtype.
// Means of 16-bit floats are summed in float32.
//
// Memory: a mean in another dtype than the elements' (int64 in float64, float16
// in float32), and a sum or product with such a `dtype` unless both are
// integers, first cast the elements: for as long as it runs they are there a
// second time, in that dtype, those that a broadcast repeats once.  Means of
// integers up to 32 bits need none (up to 2^31 elements each).
//
// Errors: INVALID_ARGUMENT for shapes that do not broadcast, two devices
// (naming both, and To), read-only or overlapping targets; UNIMPLEMENTED for
// dtypes that an operation does not take, float8 among them, and backends
// without the extension.

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

enum class UnaryOp { kNegate, kAbs, kLogicalNot };
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
  const Array* array() const { return std::get_if<Array>(&value_); }
  const Scalar* scalar() const { return std::get_if<Scalar>(&value_); }

 private:
  std::variant<Array, Scalar> value_;
};

// ---- By name of the operation, for bindings --------------------------------

// `out`: nullptr for a new array.  At least one operand is an array.
DEVRT_EXPORT absl::StatusOr<Array> Apply(UnaryOp op, const Array& x,
                                         const Array* out = nullptr,
                                         CallSite site = CallSite::Here());
DEVRT_EXPORT absl::StatusOr<Array> Apply(BinaryOp op, const Operand& a,
                                         const Operand& b,
                                         const Array* out = nullptr,
                                         CallSite site = CallSite::Here());
// The same of two arrays, whose counts are left alone.
DEVRT_EXPORT absl::StatusOr<Array> Apply(BinaryOp op, const Array& a,
                                         const Array& b,
                                         const Array* out = nullptr,
                                         CallSite site = CallSite::Here());
// Into `out`, which is not returned.
DEVRT_EXPORT absl::Status ApplyInto(BinaryOp op, const Array& out,
                                    const Operand& a, const Operand& b,
                                    CallSite site = CallSite::Here());
DEVRT_EXPORT absl::Status ApplyInto(BinaryOp op, const Array& out,
                                    const Array& a, const Array& b,
                                    CallSite site = CallSite::Here());
// The dtype of a result; what a binding needs before it allocates.
DEVRT_EXPORT absl::StatusOr<DType> ResultType(BinaryOp op, const Operand& a,
                                              const Operand& b);

struct ReduceOptions {
  // nullopt: all axes; an empty list: none.  Negative ones count from the end.
  std::optional<std::vector<int>> axes;
  bool keep_dims = false;
  // Of the sum, product or mean; nullopt: NumPy's default.
  std::optional<DType> dtype;
};
// kMean of integers is float64.  INVALID_ARGUMENT: an axis twice or out of
// range; kMin or kMax over no elements.  kMean over none is NaN.
DEVRT_EXPORT absl::StatusOr<Array> Reduce(ReduceOp op, const Array& x,
                                          const ReduceOptions& options = {},
                                          CallSite site = CallSite::Here());

// Condition elements that are not 0 choose `a`.  Of two numbers the dtype is
// what Python's have in NumPy, by value: integers are int64, or uint64 where
// one is beyond it; INVALID_ARGUMENT where the other is negative then.
DEVRT_EXPORT absl::StatusOr<Array> Where(const Array& condition,
                                         const Operand& a, const Operand& b,
                                         CallSite site = CallSite::Here());

// Whether shapes are equal and all elements are (promoted; NaN is unequal to
// all).  Waits on the host for the answer.  Also for arrays of plain host
// memory and of two places.
DEVRT_EXPORT absl::StatusOr<bool> ArrayEqual(const Array& a, const Array& b,
                                             CallSite site = CallSite::Here());

// ---- The same, by names -----------------------------------------------------

#define DEVRT_BINARY(Name, Op)                                          \
  inline absl::StatusOr<Array> Name(const Operand& a, const Operand& b, \
                                    CallSite site = CallSite::Here()) { \
    return Apply(BinaryOp::Op, a, b, nullptr, site);                    \
  }                                                                     \
  inline absl::StatusOr<Array> Name(const Array& a, const Array& b,     \
                                    CallSite site = CallSite::Here()) { \
    return Apply(BinaryOp::Op, a, b, nullptr, site);                    \
  }
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

inline absl::Status AddInto(const Array& out, const Operand& a,
                            const Operand& b,
                            CallSite site = CallSite::Here()) {
  return ApplyInto(BinaryOp::kAdd, out, a, b, site);
}
inline absl::Status AddInto(const Array& out, const Array& a, const Array& b,
                            CallSite site = CallSite::Here()) {
  return ApplyInto(BinaryOp::kAdd, out, a, b, site);
}

inline absl::StatusOr<Array> Negate(const Array& x,
                                    CallSite site = CallSite::Here()) {
  return Apply(UnaryOp::kNegate, x, nullptr, site);
}
inline absl::StatusOr<Array> Abs(const Array& x,
                                 CallSite site = CallSite::Here()) {
  return Apply(UnaryOp::kAbs, x, nullptr, site);
}
inline absl::StatusOr<Array> LogicalNot(const Array& x,
                                        CallSite site = CallSite::Here()) {
  return Apply(UnaryOp::kLogicalNot, x, nullptr, site);
}
inline absl::StatusOr<Array> Sum(const Array& x,
                                 const ReduceOptions& options = {},
                                 CallSite site = CallSite::Here()) {
  return Reduce(ReduceOp::kSum, x, options, site);
}

}  // namespace devrt

#endif  // DEVRT_ARRAYS_OPS_OPERATIONS_H_
