// SPDX-License-Identifier: Apache-2.0

#include "arrays/ops/compute.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "arrays/core/array_checks.h"
#include "arrays/core/geometry.h"
#include "arrays/storage/storage_order.h"
#include "devrt/runtime/status.h"

namespace devrt::internal {
namespace {

// The order of kinds in NumPy's casting="same_kind".
int Rank(DTypeKind kind) {
  switch (kind) {
    case DTypeKind::kBool:
      return 0;
    case DTypeKind::kUnsigned:
      return 1;
    case DTypeKind::kSigned:
      return 2;
    case DTypeKind::kFloat:
    case DTypeKind::kFloat8:
      return 3;
    case DTypeKind::kComplex:
      return 4;
  }
  return 4;
}

absl::Status CheckOut(const Inputs& inputs, DType dtype, const Array& out) {
  const char* const operation = inputs.operation();
  if (out.shape() != inputs.shape()) {
    return absl::InvalidArgumentError(absl::StrCat(
        operation, ": the result has shape ", ShapeText(inputs.shape()),
        ", but the array that it is to be written to has ",
        ShapeText(out.shape()), "; both must be the same"));
  }
  if (Rank(out.dtype().kind()) < Rank(dtype.kind())) {
    return absl::InvalidArgumentError(absl::StrCat(
        operation, ": the result is ", dtype.name(),
        ", which an array of dtype ", out.dtype().name(),
        " cannot hold; write to one of the same kind, or Cast the operands "
        "first"));
  }
  return CheckTarget(operation, out);
}

// Returns true if the kernel may write to `out` directly.
bool IsDirect(const Inputs& inputs, DType dtype, const Array& out) {
  if (out.dtype() != dtype) return false;
  for (size_t i = 0; i < inputs.count(); ++i) {
    if (inputs.direct(i) && Interferes(out, *inputs.array(i))) return false;
  }
  return true;
}

absl::Status EnqueueKernel(uint32_t op, const Inputs& inputs,
                           const Array& result, const Array* out,
                           Kernels* kernels) {
  DEVRT_RETURN_IF_ERROR(inputs.Fill(kernels));
  BroadcastStrides strides[Inputs::kMost];
  devrt_tensor_v0 tensors[Inputs::kMost];
  for (size_t i = 0; i < inputs.count(); ++i) {
    tensors[i] = strides[i].Of(inputs.source(i), inputs.shape());
  }
  DEVRT_RETURN_IF_ERROR(
      kernels->Apply(op, TensorOf(result), tensors, inputs.count()));
  if (out == nullptr) return absl::OkStatus();
  const devrt_tensor_v0 apart = TensorOf(result);
  return kernels->Apply(DEVRT_OP_COPY, TensorOf(*out), &apart, 1);
}

}  // namespace

bool Interferes(const Array& out, const Array& in) {
  if (out.data() == in.data() && out.dtype() == in.dtype() &&
      IsSameView(out, in)) {
    return false;
  }
  return MayOverlap(out, in);
}

bool IsApart(const Array& out, const Array& in) {
  const Storage& a = *out.storage();
  const Storage& b = *in.storage();
  const auto begin_a = reinterpret_cast<uintptr_t>(a.base());
  const auto begin_b = reinterpret_cast<uintptr_t>(b.base());
  const bool is_apart = begin_a < begin_b ? begin_b - begin_a >= a.bytes()
                                          : begin_a - begin_b >= b.bytes();
  return is_apart || !Interferes(out, in);
}

absl::Status NoArithmetic(const char* operation, DType dtype) {
  return absl::UnimplementedError(
      absl::StrCat(operation, ": there is no arithmetic of ", dtype.name(),
                   ", which is for storage; Cast to float16 or float32 first"));
}

devrt_tensor_v0 BroadcastStrides::Of(const Array& array, DimSpan shape) {
  if (array.shape() == shape) return TensorOf(array);
  const size_t ndim = shape.size();
  const size_t missing = ndim - array.shape().size();
  for (size_t axis = 0; axis < ndim; ++axis) {
    const bool repeated =
        axis < missing || array.shape()[axis - missing] != shape[axis];
    strides[axis] = repeated ? 0 : array.strides()[axis - missing];
  }
  return {array.data(), shape.data(), strides.data(),
          static_cast<uint32_t>(ndim), array.dtype().code()};
}

absl::Status Inputs::NoteDevice(const Array& array) {
  DEVRT_RETURN_IF_ERROR(CheckNotMovedFrom(array.storage(), operation_));
  const Place place = array.place();
  if (!place.device()) {
    return absl::UnimplementedError(
        absl::StrCat(operation_,
                     ": an array is in plain host memory, and devrt computes "
                     "on devices only; copy it there with To(device) first"));
  }
  if (!device_) {
    device_ = place.device();
    DEVRT_RETURN_IF_ERROR(CheckElementwise(*device_, operation_));
  } else if (ABSL_PREDICT_FALSE(*device_ != *place.device())) {
    return absl::InvalidArgumentError(absl::StrCat(
        operation_, ": arrays are on two devices, ", device_->name(), " and ",
        place.device()->name(),
        "; no operation moves an array: copy one of them with To(device) "
        "first"));
  }
  return absl::OkStatus();
}

absl::Status Inputs::Note(const Array& array) {
  DEVRT_RETURN_IF_ERROR(NoteDevice(array));
  DEVRT_RETURN_IF_ERROR(CheckComputes(operation_, array.dtype()));
  if (has_shape_ && shape_ != array.shape()) {
    absl::StatusOr<Dims> both = BroadcastShapes(shape_, array.shape());
    if (!both.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(operation_, ": ", both.status().message()));
    }
    broadcast_ = *std::move(both);
    shape_ = broadcast_;
  } else if (!has_shape_) {
    shape_ = array.shape();
    has_shape_ = true;
  }
  return absl::OkStatus();
}

absl::Status Inputs::Add(const Array& array, DType dtype) {
  Input& input = inputs_[count_++];
  input.array = &array;
  if (array.dtype() == dtype) return absl::OkStatus();
  DEVRT_ASSIGN_OR_RETURN(input.temporary,
                         Array::Empty(array.shape(), dtype, *device_, site_));
  return absl::OkStatus();
}

absl::Status Inputs::Add(const Scalar& number, DType dtype) {
  Input& input = inputs_[count_];
  DEVRT_ASSIGN_OR_RETURN(input.number, number.As(dtype));
  DEVRT_ASSIGN_OR_RETURN(input.temporary,
                         Array::Empty({}, dtype, *device_, site_));
  ++count_;
  return absl::OkStatus();
}

absl::Status Inputs::Fill(Kernels* kernels) const {
  for (size_t i = 0; i < count_; ++i) {
    const Input& input = inputs_[i];
    if (!input.temporary) continue;
    const devrt_tensor_v0 to = TensorOf(*input.temporary);
    if (input.array == nullptr) {
      DEVRT_RETURN_IF_ERROR(kernels->Fill(to, input.number.bytes));
      continue;
    }
    const devrt_tensor_v0 from = TensorOf(*input.array);
    DEVRT_RETURN_IF_ERROR(kernels->Apply(DEVRT_OP_COPY, to, &from, 1));
  }
  return absl::OkStatus();
}

absl::Status ComputeTo(uint32_t op, const Inputs& inputs, DType dtype,
                       const Result& to, const FirstKernels* first) {
  const Array* const out = to.out;
  bool direct = false;
  if (out != nullptr) {
    DEVRT_RETURN_IF_ERROR(CheckOut(inputs, dtype, *out));
    direct = IsDirect(inputs, dtype, *out);
  }
  if (!direct) {
    DEVRT_ASSIGN_OR_RETURN(
        *to.made,
        Array::Empty(inputs.shape(), dtype, inputs.device(), inputs.site()));
  }
  const Array& result = direct ? *out : **to.made;
  const Array& written = out != nullptr ? *out : result;
  if (result.size() == 0) return absl::OkStatus();

  Touched touched[Inputs::kMost + 3];
  size_t count = 0;
  if (first != nullptr) {
    for (const Array* read : first->read) {
      touched[count++] = {read->storage().get(), false};
    }
  }
  for (size_t i = 0; i < inputs.count(); ++i) {
    if (inputs.array(i) == nullptr) continue;
    touched[count++] = {inputs.array(i)->storage().get(), false};
  }
  touched[count++] = {written.storage().get(), true};
  const StreamRef stream = CurrentStreamOf(inputs.device());
  const auto enqueue = [&](const StreamTarget& target) -> absl::Status {
    Kernels kernels(inputs.operation(), target);
    if (first != nullptr) DEVRT_RETURN_IF_ERROR(first->enqueue(&kernels));
    return EnqueueKernel(op, inputs, result, direct ? nullptr : out, &kernels);
  };
  if (InHostFunction()) return HostFunctionError(inputs.operation());
  return RunOrdered({stream, inputs.site()}, {touched, count}, enqueue);
}

absl::StatusOr<Array> Compute(uint32_t op, const Inputs& inputs, DType dtype,
                              const Array* out) {
  std::optional<Array> made;
  DEVRT_RETURN_IF_ERROR(ComputeTo(op, inputs, dtype, {out, &made}));
  if (out != nullptr) return *out;
  return *std::move(made);
}

absl::StatusOr<Array> CastFor(const char* operation, const Array& array,
                              DType dtype, CallSite site) {
  Inputs inputs(operation, site);
  DEVRT_RETURN_IF_ERROR(inputs.Note(array));
  DEVRT_RETURN_IF_ERROR(inputs.Add(array, array.dtype()));
  return Compute(DEVRT_OP_COPY, inputs, dtype, nullptr);
}

}  // namespace devrt::internal
