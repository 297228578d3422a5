// SPDX-License-Identifier: Apache-2.0
//
// The elementwise operations of operations.h: Apply, ApplyInto and Where.

#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "arrays/ops/compute.h"
#include "arrays/storage/storage_order.h"
#include "devrt/arrays/operations.h"
#include "devrt/runtime/status.h"

namespace devrt {
namespace {

using internal::Compute;
using internal::Inputs;
using internal::Result;

// A reference to an operand during the call.
class Term {
 public:
  explicit Term(const Operand& operand)
      : array_(operand.array()), scalar_(operand.scalar()) {}
  explicit Term(const Array& array) : array_(&array) {}
  const Array* array() const { return array_; }
  const Scalar* scalar() const { return scalar_; }

 private:
  const Array* array_;
  const Scalar* scalar_ = nullptr;
};

// What kinds an operation takes, before promotion is taken into account.
enum class Takes { kAll, kNoBool, kNoComplex, kIntegers };

struct BinaryRule {
  const char* name;
  uint32_t op;
  Takes takes;
  bool to_bool;  // a comparison or a logical operation
};

constexpr BinaryRule kBinaryRules[] = {
    {"add", DEVRT_OP_ADD, Takes::kAll, false},
    {"subtract", DEVRT_OP_SUB, Takes::kNoBool, false},
    {"multiply", DEVRT_OP_MUL, Takes::kAll, false},
    {"divide", DEVRT_OP_DIV, Takes::kAll, false},
    {"divide_truncated", DEVRT_OP_DIV, Takes::kIntegers, false},
    {"equal", DEVRT_OP_EQ, Takes::kAll, true},
    {"not_equal", DEVRT_OP_NE, Takes::kAll, true},
    {"less", DEVRT_OP_LT, Takes::kNoComplex, true},
    {"less_equal", DEVRT_OP_LE, Takes::kNoComplex, true},
    {"greater", DEVRT_OP_GT, Takes::kNoComplex, true},
    {"greater_equal", DEVRT_OP_GE, Takes::kNoComplex, true},
    {"logical_and", DEVRT_OP_LOGICAL_AND, Takes::kAll, true},
    {"logical_or", DEVRT_OP_LOGICAL_OR, Takes::kAll, true},
    {"maximum", DEVRT_OP_MAXIMUM, Takes::kNoComplex, false},
    {"minimum", DEVRT_OP_MINIMUM, Takes::kNoComplex, false},
};

bool Exists(BinaryOp op) {
  return static_cast<size_t>(op) < std::size(kBinaryRules);
}

const BinaryRule& RuleOf(BinaryOp op) {
  return kBinaryRules[static_cast<size_t>(op)];
}

absl::Status CheckExists(BinaryOp op) {
  if (ABSL_PREDICT_TRUE(Exists(op))) return absl::OkStatus();
  return internal::NoSuchOperation("Apply", op, kBinaryRules);
}

bool IsLogical(BinaryOp op) {
  return op == BinaryOp::kLogicalAnd || op == BinaryOp::kLogicalOr;
}

absl::Status NotFor(const char* name, DType dtype, const char* remedy) {
  return absl::UnimplementedError(
      absl::StrCat(name, " does not exist for ", dtype.name(), "; ", remedy));
}

absl::Status CheckTakes(const BinaryRule& rule, DType dtype) {
  switch (rule.takes) {
    case Takes::kAll:
      return absl::OkStatus();
    case Takes::kNoBool:
      if (dtype != kBool) return absl::OkStatus();
      return NotFor(rule.name, dtype, "use NotEqual, or Cast to an integer");
    case Takes::kNoComplex:
      if (!dtype.is_complex()) return absl::OkStatus();
      return NotFor(rule.name, dtype,
                    "complex numbers have no order; compare their Abs");
    case Takes::kIntegers:
      if (dtype.is_integer()) return absl::OkStatus();
      return NotFor(rule.name, dtype, "use Div, or Cast to an integer");
  }
  return absl::OkStatus();
}

DType DTypeOfNumber(const Scalar& number) {
  // An integer counts as Python's, which has no C++ type.
  const bool is_int64 =
      number.kind() == DTypeKind::kUnsigned && number.As(kInt64).ok();
  return is_int64 ? kInt64 : DefaultDType(number.kind());
}

absl::StatusOr<DType> PromoteNumbers(const Scalar& a, const Scalar& b) {
  const DType first = DTypeOfNumber(a);
  const DType second = DTypeOfNumber(b);
  if (first == second || !first.is_integer() || !second.is_integer()) {
    return PromoteTypes(first, second);
  }
  const Scalar& lower = first == kInt64 ? a : b;
  if (lower.As(kUInt64).ok()) return kUInt64;
  return absl::InvalidArgumentError(
      absl::StrCat("no integer dtype holds both ", a.ToString(), " and ",
                   b.ToString(), ": make one of them a float"));
}

absl::StatusOr<DType> Promote(const Term& a, const Term& b) {
  if (a.array() != nullptr && b.array() != nullptr) {
    if (a.array()->dtype() == b.array()->dtype()) return a.array()->dtype();
    return PromoteTypes(a.array()->dtype(), b.array()->dtype());
  }
  if (a.array() != nullptr) {
    return PromoteWithScalar(a.array()->dtype(), b.scalar()->kind());
  }
  if (b.array() != nullptr) {
    return PromoteWithScalar(b.array()->dtype(), a.scalar()->kind());
  }
  return PromoteNumbers(*a.scalar(), *b.scalar());
}

// The dtype in which `op` is computed.
absl::StatusOr<DType> ComputingType(BinaryOp op, const Term& a, const Term& b) {
  const BinaryRule& rule = RuleOf(op);
  if (a.array() == nullptr && b.array() == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(rule.name,
                     ": both operands are numbers; at least one has "
                     "to be an array, as Array::Full makes"));
  }
  for (const Term* operand : {&a, &b}) {
    if (operand->array() == nullptr) continue;
    DEVRT_RETURN_IF_ERROR(
        internal::CheckComputes(rule.name, operand->array()->dtype()));
  }
  if (IsLogical(op)) return kBool;
  DEVRT_ASSIGN_OR_RETURN(DType dtype, Promote(a, b));
  DEVRT_RETURN_IF_ERROR(CheckTakes(rule, dtype));
  const bool whole = dtype == kBool || dtype.is_integer();
  return op == BinaryOp::kDiv && whole ? kFloat64 : dtype;
}

absl::Status AddOperand(const Term& operand, DType dtype, Inputs* inputs) {
  if (operand.array() != nullptr) return inputs->Add(*operand.array(), dtype);
  // A conversion to bool is != 0, for numbers too.
  if (dtype == kBool && operand.scalar()->kind() != DTypeKind::kBool) {
    return inputs->Add(Scalar(operand.scalar()->Value<bool>()), dtype);
  }
  return inputs->Add(*operand.scalar(), dtype);
}

bool IsComparison(BinaryOp op) {
  return op >= BinaryOp::kEqual && op <= BinaryOp::kGreaterEqual;
}

// Returns true if a comparison has two integer dtypes that no integer dtype
// holds.
bool IsMixed(BinaryOp op, const Term& a, const Term& b, DType dtype) {
  return IsComparison(op) && dtype == kFloat64 && a.array() != nullptr &&
         b.array() != nullptr && a.array()->dtype().is_integer() &&
         b.array()->dtype().is_integer();
}

BinaryOp Mirrored(BinaryOp op) {
  switch (op) {
    case BinaryOp::kLess:
      return BinaryOp::kGreater;
    case BinaryOp::kLessEqual:
      return BinaryOp::kGreaterEqual;
    case BinaryOp::kGreater:
      return BinaryOp::kLess;
    case BinaryOp::kGreaterEqual:
      return BinaryOp::kLessEqual;
    default:
      return op;
  }
}

// Compares signed integers with uint64 by value, in one step.  float64 would
// round them.
absl::Status CompareMixed(BinaryOp op, const Array& a, const Array& b,
                          const Result& result, CallSite site) {
  if (a.dtype() == kUInt64) {
    return CompareMixed(Mirrored(op), b, a, result, site);
  }
  const BinaryRule& rule = RuleOf(op);
  const Device device = *a.place().device();
  DEVRT_ASSIGN_OR_RETURN(const Dims shape,
                         BroadcastShapes(a.shape(), b.shape()));
  DEVRT_ASSIGN_OR_RETURN(const Array zero,
                         Array::Empty({}, a.dtype(), device, site));
  DEVRT_ASSIGN_OR_RETURN(const Array decided,
                         Array::Empty(a.shape(), kBool, device, site));
  DEVRT_ASSIGN_OR_RETURN(const Array low_bits,
                         Array::Empty(a.shape(), kUInt64, device, site));
  DEVRT_ASSIGN_OR_RETURN(const Array rest,
                         Array::Empty(shape, kBool, device, site));
  Inputs inputs(rule.name, site);
  for (const Array* input : {&decided, &rest}) {
    DEVRT_RETURN_IF_ERROR(inputs.Note(*input));
    DEVRT_RETURN_IF_ERROR(inputs.Add(*input, kBool));
  }

  // A negative number is less than every uint64.
  const bool if_below = op == BinaryOp::kNotEqual || op == BinaryOp::kLess ||
                        op == BinaryOp::kLessEqual;
  const auto decide = [&](internal::Kernels* kernels) -> absl::Status {
    const Scalar::Element nothing = {};
    DEVRT_RETURN_IF_ERROR(
        kernels->Fill(internal::TensorOf(zero), nothing.bytes));
    internal::BroadcastStrides strides[2];
    const devrt_tensor_v0 sign[] = {internal::TensorOf(a),
                                    strides[0].Of(zero, a.shape())};
    DEVRT_RETURN_IF_ERROR(kernels->Apply(if_below ? DEVRT_OP_LT : DEVRT_OP_GE,
                                         internal::TensorOf(decided), sign, 2));
    DEVRT_RETURN_IF_ERROR(
        kernels->Apply(DEVRT_OP_COPY, internal::TensorOf(low_bits), sign, 1));
    const devrt_tensor_v0 values[] = {strides[0].Of(low_bits, shape),
                                      strides[1].Of(b, shape)};
    return kernels->Apply(rule.op, internal::TensorOf(rest), values, 2);
  };
  const internal::FirstKernels first = {{&a, &b}, decide};
  return ComputeTo(if_below ? DEVRT_OP_LOGICAL_OR : DEVRT_OP_LOGICAL_AND,
                   inputs, kBool, result, &first);
}

// The result of comparing every element with a number that `dtype` cannot hold;
// nullopt if `dtype` can hold the number.
std::optional<bool> Foregone(BinaryOp op, const Term& a, const Term& b,
                             DType dtype) {
  const Scalar* number = a.scalar() != nullptr ? a.scalar() : b.scalar();
  if (!IsComparison(op) || number == nullptr || !dtype.is_integer() ||
      number->As(dtype).ok()) {
    return std::nullopt;
  }
  if (a.scalar() != nullptr) op = Mirrored(op);
  const bool below =
      number->kind() == DTypeKind::kSigned && number->Value<int64_t>() < 0;
  switch (op) {
    case BinaryOp::kNotEqual:
      return true;
    case BinaryOp::kLess:
    case BinaryOp::kLessEqual:
      return !below;
    case BinaryOp::kGreater:
    case BinaryOp::kGreaterEqual:
      return below;
    default:
      return false;
  }
}

Scalar LeastOf(DType dtype) {
  if (dtype.kind() == DTypeKind::kUnsigned) return Scalar(0u);
  const int bits = static_cast<int>(dtype.size()) * 8;
  return Scalar(std::numeric_limits<int64_t>::min() >> (64 - bits));
}

struct UnaryRule {
  const char* name;
  uint32_t op;
};

constexpr UnaryRule kUnaryRules[] = {
    {"negative", DEVRT_OP_NEG},
    {"absolute", DEVRT_OP_ABS},
    {"logical_not", DEVRT_OP_LOGICAL_NOT},
};

bool Exists(UnaryOp op) {
  return static_cast<size_t>(op) < std::size(kUnaryRules);
}

const UnaryRule& RuleOf(UnaryOp op) {
  return kUnaryRules[static_cast<size_t>(op)];
}

DType ResultOf(UnaryOp op, DType dtype) {
  if (op == UnaryOp::kLogicalNot) return kBool;
  if (op == UnaryOp::kAbs && dtype == kComplex64) return kFloat32;
  if (op == UnaryOp::kAbs && dtype == kComplex128) return kFloat64;
  return dtype;
}

}  // namespace

const char* ToString(UnaryOp op) {
  return Exists(op) ? RuleOf(op).name : "unknown";
}
const char* ToString(BinaryOp op) {
  return Exists(op) ? RuleOf(op).name : "unknown";
}

absl::StatusOr<DType> ResultType(BinaryOp op, const Operand& a,
                                 const Operand& b) {
  DEVRT_RETURN_IF_ERROR(CheckExists(op));
  DEVRT_ASSIGN_OR_RETURN(DType dtype, ComputingType(op, Term(a), Term(b)));
  return RuleOf(op).to_bool ? kBool : dtype;
}

absl::StatusOr<Array> Apply(UnaryOp op, const Array& x, const Array* out,
                            CallSite site) {
  if (ABSL_PREDICT_FALSE(!Exists(op))) {
    return internal::NoSuchOperation("Apply", op, kUnaryRules);
  }
  const UnaryRule& rule = RuleOf(op);
  Inputs inputs(rule.name, site);
  DEVRT_RETURN_IF_ERROR(inputs.Note(x));
  if (out != nullptr) DEVRT_RETURN_IF_ERROR(inputs.NoteDevice(*out));
  if (op == UnaryOp::kNegate && x.dtype() == kBool) {
    return NotFor(rule.name, kBool, "use LogicalNot");
  }
  DEVRT_RETURN_IF_ERROR(inputs.Add(x, x.dtype()));
  return Compute(rule.op, inputs, ResultOf(op, x.dtype()), out);
}

namespace {

// Returns the dtype of the result for arrays of `dtype`, if the operation
// computes in that dtype.
std::optional<DType> PlainResult(BinaryOp op, DType dtype) {
  const BinaryRule& rule = RuleOf(op);
  if (!internal::CheckComputes(rule.name, dtype).ok() ||
      (IsLogical(op) && dtype != kBool) ||
      (rule.takes != Takes::kAll && !CheckTakes(rule, dtype).ok()) ||
      (op == BinaryOp::kDiv && (dtype == kBool || dtype.is_integer()))) {
    return std::nullopt;
  }
  return rule.to_bool ? kBool : dtype;
}

// Returns true if both arrays have elements in one shape, one dtype and one
// place, on a device that computes.
bool IsPlainPair(const Array& a, const Array& b) {
  if (a.size() == 0 || a.dtype() != b.dtype() ||
      !internal::AreEqual(a.shape(), b.shape()) || b.storage() == nullptr) {
    return false;
  }
  const Place& place = a.storage()->place();
  return place.kind() != MemoryKind::kHost && place == b.storage()->place() &&
         internal::HasElementwise(*place.device());
}

// Returns true if a kernel may write the result of `a` and `b` to `out`.
bool IsPlainTarget(const Array& out, const Array& a, const Array& b,
                   DType dtype) {
  return out.dtype() == dtype && internal::AreEqual(out.shape(), a.shape()) &&
         out.storage() != nullptr && !out.read_only() && out.IsContiguous() &&
         out.storage()->place() == a.storage()->place() &&
         internal::IsApart(out, a) && internal::IsApart(out, b);
}

// Applies the operation where nothing has to be cast, broadcast or refused:
// the usual case, in a tenth of the instructions.  Returns nullopt for others.
std::optional<absl::Status> ApplyPlain(const Result& result, BinaryOp op,
                                       const Array& a, const Array& b,
                                       CallSite site) {
  if (!IsPlainPair(a, b) || internal::InHostFunction()) return std::nullopt;
  const std::optional<DType> dtype = PlainResult(op, a.dtype());
  if (!dtype.has_value()) return std::nullopt;
  const Device device = *a.storage()->place().device();
  const Array* to = result.out;
  if (to == nullptr) {
    absl::StatusOr<Array> made = Array::Empty(a.shape(), *dtype, device, site);
    if (!made.ok()) return made.status();
    to = &result.made->emplace(*std::move(made));
  } else if (!IsPlainTarget(*to, a, b, *dtype)) {
    return std::nullopt;
  }
  const BinaryRule& rule = RuleOf(op);
  const internal::Touched touched[] = {{a.storage().get(), false},
                                       {b.storage().get(), false},
                                       {to->storage().get(), true}};
  const internal::Step step = {internal::CurrentStreamOf(device), site};
  return internal::RunOrdered(
      step, touched, [&](const internal::StreamTarget& target) {
        const devrt_tensor_v0 inputs[] = {internal::TensorOf(a),
                                          internal::TensorOf(b)};
        return internal::Kernels(rule.name, target)
            .Apply(rule.op, internal::TensorOf(*to), inputs, 2);
      });
}

// Applies the operation to operands of any kind.
absl::Status ApplyAny(const Result& result, BinaryOp op, const Term& a,
                      const Term& b, CallSite site) {
  DEVRT_RETURN_IF_ERROR(CheckExists(op));
  const BinaryRule& rule = RuleOf(op);
  DEVRT_ASSIGN_OR_RETURN(const DType dtype, ComputingType(op, a, b));
  Inputs inputs(rule.name, site);
  for (const Term* term : {&a, &b}) {
    if (term->array() == nullptr) continue;
    DEVRT_RETURN_IF_ERROR(inputs.Note(*term->array()));
  }
  if (result.out != nullptr) {
    DEVRT_RETURN_IF_ERROR(inputs.NoteDevice(*result.out));
  }
  if (IsMixed(op, a, b, dtype)) {
    return CompareMixed(op, *a.array(), *b.array(), result, site);
  }
  if (const auto all = Foregone(op, a, b, dtype)) {
    const Term& array = a.array() != nullptr ? a : b;
    DEVRT_RETURN_IF_ERROR(AddOperand(array, dtype, &inputs));
    DEVRT_RETURN_IF_ERROR(inputs.Add(LeastOf(dtype), dtype));
    return ComputeTo(*all ? DEVRT_OP_GE : DEVRT_OP_LT, inputs, kBool, result);
  }
  DEVRT_RETURN_IF_ERROR(AddOperand(a, dtype, &inputs));
  DEVRT_RETURN_IF_ERROR(AddOperand(b, dtype, &inputs));
  return ComputeTo(rule.op, inputs, rule.to_bool ? kBool : dtype, result);
}

// `Of` is Array or Operand.
template <typename Of>
absl::Status ApplyTo(const Result& result, BinaryOp op, const Of& a,
                     const Of& b, CallSite site) {
  const Term left(a), right(b);
  if (left.array() != nullptr && right.array() != nullptr && Exists(op)) {
    std::optional<absl::Status> plain =
        ApplyPlain(result, op, *left.array(), *right.array(), site);
    if (plain.has_value()) return *std::move(plain);
  }
  return ApplyAny(result, op, left, right, site);
}

template <typename Of>
absl::StatusOr<Array> ApplyOf(BinaryOp op, const Of& a, const Of& b,
                              const Array* out, CallSite site) {
  std::optional<Array> made;
  DEVRT_RETURN_IF_ERROR(ApplyTo({out, &made}, op, a, b, site));
  if (out != nullptr) return *out;
  return *std::move(made);
}

}  // namespace

absl::StatusOr<Array> Apply(BinaryOp op, const Operand& a, const Operand& b,
                            const Array* out, CallSite site) {
  return ApplyOf(op, a, b, out, site);
}

absl::StatusOr<Array> Apply(BinaryOp op, const Array& a, const Array& b,
                            const Array* out, CallSite site) {
  return ApplyOf(op, a, b, out, site);
}

absl::Status ApplyInto(BinaryOp op, const Array& out, const Operand& a,
                       const Operand& b, CallSite site) {
  std::optional<Array> apart;
  return ApplyTo({&out, &apart}, op, a, b, site);
}

absl::Status ApplyInto(BinaryOp op, const Array& out, const Array& a,
                       const Array& b, CallSite site) {
  std::optional<Array> apart;
  return ApplyTo({&out, &apart}, op, a, b, site);
}

absl::StatusOr<Array> Where(const Array& condition, const Operand& a,
                            const Operand& b, CallSite site) {
  Inputs inputs("where", site);
  DEVRT_RETURN_IF_ERROR(inputs.Note(condition));
  for (const Operand* operand : {&a, &b}) {
    if (operand->array() == nullptr) continue;
    DEVRT_RETURN_IF_ERROR(inputs.Note(*operand->array()));
  }
  DEVRT_ASSIGN_OR_RETURN(const DType dtype, Promote(Term(a), Term(b)));
  DEVRT_RETURN_IF_ERROR(inputs.Add(condition, kBool));
  DEVRT_RETURN_IF_ERROR(AddOperand(Term(a), dtype, &inputs));
  DEVRT_RETURN_IF_ERROR(AddOperand(Term(b), dtype, &inputs));
  return Compute(DEVRT_OP_WHERE, inputs, dtype, nullptr);
}

}  // namespace devrt
