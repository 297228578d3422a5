// SPDX-License-Identifier: Apache-2.0
//
// Reduce of operations.h.

#include <cstdint>
#include <iterator>
#include <optional>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "arrays/copy/copy_layout.h"
#include "arrays/core/geometry.h"
#include "arrays/ops/compute.h"
#include "arrays/storage/storage_order.h"
#include "devrt/arrays/operations.h"
#include "devrt/runtime/status.h"

namespace devrt {
namespace {

using internal::Kernels;
using internal::TensorOf;

struct Rule {
  const char* name;
  uint32_t op;
};

constexpr Rule kRules[] = {
    {"sum", DEVRT_REDUCE_SUM},  {"prod", DEVRT_REDUCE_PROD},
    {"min", DEVRT_REDUCE_MIN},  {"max", DEVRT_REDUCE_MAX},
    {"mean", DEVRT_REDUCE_SUM}, {"any", DEVRT_REDUCE_ANY},
    {"all", DEVRT_REDUCE_ALL},
};

bool Exists(ReduceOp op) { return static_cast<size_t>(op) < std::size(kRules); }

// The axes that are reduced, and the shape of the result.
struct Axes {
  uint32_t bits = 0;
  int64_t count = 1;  // of elements that become one
  Dims kept;          // in's shape, with extent 1 on reduced axes
  Dims result;        // the result's shape
};

absl::StatusOr<Axes> ResolveAxes(const char* name, const Array& x,
                                 const ReduceOptions& options) {
  Axes axes;
  const int ndim = x.ndim();
  if (!options.axes) {
    axes.bits = static_cast<uint32_t>((uint64_t{1} << ndim) - 1);
  } else {
    for (int axis : *options.axes) {
      DEVRT_ASSIGN_OR_RETURN(const int from_begin,
                             internal::NormalAxis(name, axis, x.shape()));
      const uint32_t bit = uint32_t{1} << from_begin;
      if ((axes.bits & bit) != 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            name, ": axis ", axis, " is given twice; name each axis once"));
      }
      axes.bits |= bit;
    }
  }
  for (int axis = 0; axis < ndim; ++axis) {
    const bool reduced = (axes.bits >> axis & 1) != 0;
    const int64_t extent = x.shape()[axis];
    axes.kept.push_back(reduced ? 1 : extent);
    if (reduced) axes.count *= extent;
    if (!reduced || options.keep_dims) axes.result.push_back(axes.kept.back());
  }
  return axes;
}

// The dtypes of the steps of a reduction.
struct Steps {
  DType in;      // the elements are cast to it first
  DType out;     // the kernel's result
  DType result;  // the kernel's result is cast to it
};

bool IsWhole(DType t) { return t == kBool || t.is_integer(); }

// The dtype of sums and products in NumPy, and in the kernel.
DType SumType(DType t) {
  if (!IsWhole(t)) return t;
  return t.kind() == DTypeKind::kUnsigned ? kUInt64 : kInt64;
}

absl::StatusOr<Steps> SumSteps(const char* name, DType in,
                               std::optional<DType> wanted) {
  const DType sum = SumType(in);
  const DType result = wanted.value_or(sum);
  if (result == kBool || result.kind() == DTypeKind::kFloat8) {
    return absl::UnimplementedError(
        absl::StrCat(name, " does not exist in ", result.name(),
                     "; use Any or All, or Cast the result"));
  }
  // The low bits of an integer sum do not depend on the high bits.
  if (IsWhole(in) && IsWhole(result)) return Steps{in, sum, result};
  return Steps{result, result, result};
}

// 16-bit floats are summed in float32, because their sums overflow; sums of
// short integers are exact.
absl::StatusOr<Steps> MeanSteps(DType in, int64_t count,
                                std::optional<DType> wanted) {
  const DType result = wanted.value_or(IsWhole(in) ? kFloat64 : in);
  if (IsWhole(result) || result.kind() == DTypeKind::kFloat8) {
    return absl::UnimplementedError(
        absl::StrCat("mean does not exist in ", result.name(),
                     "; Cast the mean, which is a float"));
  }
  constexpr int64_t kMostExact = int64_t{1} << 31;
  if (IsWhole(in) && in.size() <= 4 && count <= kMostExact &&
      result == kFloat64) {
    return Steps{in, SumType(in), kFloat64};
  }
  const DType computing = result.size() == 2 ? kFloat32 : result;
  return Steps{computing, computing, computing};
}

absl::Status CheckOptions(const Rule& rule, ReduceOp op, const Array& x,
                          const Axes& axes, const ReduceOptions& options) {
  const bool extremum = op == ReduceOp::kMin || op == ReduceOp::kMax;
  const bool has_dtype =
      !extremum && op != ReduceOp::kAny && op != ReduceOp::kAll;
  if (options.dtype && !has_dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat(rule.name, ": takes no dtype; Cast the result"));
  }
  if (extremum && x.dtype().is_complex()) {
    return absl::UnimplementedError(
        absl::StrCat(rule.name, " does not exist for ", x.dtype().name(),
                     "; complex numbers have no order, reduce their Abs"));
  }
  if (!extremum || axes.count > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      rule.name, ": of no elements, along axes of shape ", ShapeText(x.shape()),
      "; there is no such number: look at the array's size first"));
}

absl::StatusOr<Steps> StepsOf(const Rule& rule, ReduceOp op, DType in,
                              int64_t count, std::optional<DType> wanted) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kProd:
      return SumSteps(rule.name, in, wanted);
    case ReduceOp::kMean:
      return MeanSteps(in, count, wanted);
    case ReduceOp::kMin:
    case ReduceOp::kMax:
      return Steps{in, in, in};
    case ReduceOp::kAny:
    case ReduceOp::kAll:
      return Steps{in, kBool, kBool};
  }
  return absl::InternalError("no such reduction");
}

// The arrays of one reduction.
struct Operands {
  explicit Operands(const Array& of)
      : x(of), once(internal::WithoutRepeats(of)) {}

  absl::Status Allocate(const Axes& axes, const Steps& steps, CallSite site);
  const Array& result() const { return last ? *last : *out; }

  const Array& x;
  const Array once;           // x without repeated elements
  std::optional<Array> cast;  // of `once`, if the kernel takes another dtype
  std::optional<Array> out;   // what the kernel writes
  std::optional<Array> last;  // of `out`, if the result has another dtype
};

absl::Status Operands::Allocate(const Axes& axes, const Steps& steps,
                                CallSite site) {
  const Device device = *x.place().device();
  if (steps.in != x.dtype()) {
    DEVRT_ASSIGN_OR_RETURN(cast,
                           Array::Empty(once.shape(), steps.in, device, site));
  }
  DEVRT_ASSIGN_OR_RETURN(out,
                         Array::Empty(axes.result, steps.out, device, site));
  if (steps.result != steps.out) {
    DEVRT_ASSIGN_OR_RETURN(
        last, Array::Empty(axes.result, steps.result, device, site));
  }
  return absl::OkStatus();
}

// Enqueues the kernels of one reduction: cast, reduce, cast.
absl::Status EnqueueSteps(Kernels* kernels, uint32_t op, const Axes& axes,
                          const Operands& operands) {
  devrt_tensor_v0 from = TensorOf(operands.x);
  internal::BroadcastStrides repeated;
  if (operands.cast) {
    const devrt_tensor_v0 elements = TensorOf(operands.once);
    DEVRT_RETURN_IF_ERROR(
        kernels->Apply(DEVRT_OP_COPY, TensorOf(*operands.cast), &elements, 1));
    from = repeated.Of(*operands.cast, operands.x.shape());
  }
  // The kernel wants reduced axes with extent 1, also where the result has
  // none.
  devrt_tensor_v0 to = TensorOf(*operands.out);
  to.shape = axes.kept.data();
  to.strides = nullptr;
  to.ndim = static_cast<uint32_t>(axes.kept.size());
  DEVRT_RETURN_IF_ERROR(kernels->Reduce(op, to, from, axes.bits));
  if (!operands.last) return absl::OkStatus();
  const devrt_tensor_v0 reduced = TensorOf(*operands.out);
  return kernels->Apply(DEVRT_OP_COPY, TensorOf(*operands.last), &reduced, 1);
}

absl::StatusOr<Array> RunSteps(const Rule& rule, const Array& x,
                               const Axes& axes, const Steps& steps,
                               CallSite site) {
  Operands operands(x);
  DEVRT_RETURN_IF_ERROR(operands.Allocate(axes, steps, site));
  const Array& result = operands.result();
  if (result.size() == 0) return result;
  const StreamRef stream = internal::CurrentStreamOf(x.place());
  const internal::Touched touched[] = {{x.storage().get(), false},
                                       {result.storage().get(), true}};
  if (internal::InHostFunction()) return internal::HostFunctionError(rule.name);
  DEVRT_RETURN_IF_ERROR(internal::RunOrdered(
      {stream, site}, touched, [&](const internal::StreamTarget& target) {
        Kernels kernels(rule.name, target);
        return EnqueueSteps(&kernels, rule.op, axes, operands);
      }));
  return result;
}

}  // namespace

const char* ToString(ReduceOp op) {
  return Exists(op) ? kRules[static_cast<size_t>(op)].name : "unknown";
}

absl::StatusOr<Array> Reduce(ReduceOp op, const Array& x,
                             const ReduceOptions& options, CallSite site) {
  if (ABSL_PREDICT_FALSE(!Exists(op))) {
    return internal::NoSuchOperation("Reduce", op, kRules);
  }
  const Rule& rule = kRules[static_cast<size_t>(op)];
  internal::Inputs inputs(rule.name, site);
  DEVRT_RETURN_IF_ERROR(inputs.Note(x));
  DEVRT_RETURN_IF_ERROR(internal::CheckReduce(inputs.device(), rule.name));
  DEVRT_ASSIGN_OR_RETURN(const Axes axes, ResolveAxes(rule.name, x, options));
  DEVRT_RETURN_IF_ERROR(CheckOptions(rule, op, x, axes, options));
  DEVRT_ASSIGN_OR_RETURN(const Steps steps, StepsOf(rule, op, x.dtype(),
                                                    axes.count, options.dtype));
  DEVRT_ASSIGN_OR_RETURN(Array out, RunSteps(rule, x, axes, steps, site));
  if (op != ReduceOp::kMean) return out;
  DEVRT_ASSIGN_OR_RETURN(
      out,
      Apply(BinaryOp::kDiv, out, static_cast<double>(axes.count), &out, site));
  const DType result =
      options.dtype.value_or(IsWhole(x.dtype()) ? kFloat64 : x.dtype());
  if (out.dtype() == result) return out;
  return internal::CastFor(rule.name, out, result, site);
}

}  // namespace devrt
