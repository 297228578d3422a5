// SPDX-License-Identifier: Apache-2.0
//
// What operations on arrays have in common: on which device they run, in which
// form the kernel gets its operands, and where the result goes.
//
//   Inputs inputs("add", site);
//   DEVRT_RETURN_IF_ERROR(inputs.Add(a, kFloat32));   // cast if need be
//   DEVRT_RETURN_IF_ERROR(inputs.Add(b, kFloat32));
//   return Compute(DEVRT_OP_ADD, inputs, kFloat32, out);
//
// Operands in another dtype are cast to a temporary array, numbers become one
// without axes: kernels read memory only.  Temporaries are the stream's own, so
// that only operands and results need an order.

#ifndef DEVRT_ARRAYS_OPS_COMPUTE_H_
#define DEVRT_ARRAYS_OPS_COMPUTE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "arrays/ops/kernels.h"
#include "arrays/storage/storage.h"
#include "devrt/arrays/array.h"
#include "devrt/arrays/scalar.h"
#include "devrt/runtime/call_site.h"

namespace devrt::internal {

// INVALID_ARGUMENT: the target was moved from, is read-only, or two of its
// elements share memory.
absl::Status CheckTarget(const char* call, const Array& target);
// Whether writing elements of `out` may change elements of `in` that are still
// to be read: they share bytes, and are not the same view.
bool Interferes(const Array& out, const Array& in);
// UNIMPLEMENTED: a dtype that is storage only.
absl::Status NoArithmetic(const char* operation, DType dtype);
inline absl::Status CheckComputes(const char* operation, DType dtype) {
  if (ABSL_PREDICT_FALSE(dtype == kFloat8E4M3FN || dtype == kFloat8E5M2)) {
    return NoArithmetic(operation, dtype);
  }
  return absl::OkStatus();
}

// Strides of an array as one of `shape`, to which it broadcasts.
struct BroadcastStrides {
  std::array<int64_t, DEVRT_MAX_DIMS> strides;
  devrt_tensor_v0 Of(const Array& array, DimSpan shape);
};

class Inputs {
 public:
  static constexpr size_t kMost = 3;

  // `operation` is its name in errors, of static storage.
  Inputs(const char* operation, CallSite site)
      : operation_(operation), site_(site) {}
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  const char* operation() const { return operation_; }
  CallSite site() const { return site_; }
  size_t count() const { return count_; }
  Device device() const { return *device_; }
  DimSpan shape() const { return shape_; }

  // The device is that of all arrays; the shape what they broadcast to.  To be
  // called for each array, which must outlive this, before Add of any operand.
  absl::Status Note(const Array& array);
  // Only the device: of an array to be written to.
  absl::Status NoteDevice(const Array& array);
  // The next operand, which must outlive this, in `dtype`.
  absl::Status Add(const Array& array, DType dtype);
  absl::Status Add(const Scalar& number, DType dtype);

  // The array that the kernel reads.
  const Array& source(size_t i) const {
    return inputs_[i].temporary ? *inputs_[i].temporary : *inputs_[i].array;
  }
  // The operand, or nullptr for a number.
  const Array* array(size_t i) const { return inputs_[i].array; }
  // Whether the kernel reads the operand itself.
  bool direct(size_t i) const { return !inputs_[i].temporary; }
  // Enqueues what gives the temporary arrays their elements.
  absl::Status Fill(Kernels* kernels) const;

 private:
  struct Input {
    const Array* array = nullptr;
    std::optional<Array> temporary;
    Scalar::Element number;
  };

  const char* const operation_;
  const CallSite site_;
  std::optional<Device> device_;
  DimSpan shape_;
  Dims broadcast_;  // what it is of, if no array has it
  bool has_shape_ = false;
  size_t count_ = 0;
  Input inputs_[kMost];
};

// What an operation of several kernels enqueues before its last one, in the
// same step, and the memory that it reads for that.
struct FirstKernels {
  std::array<const Array*, 2> read;
  absl::FunctionRef<absl::Status(Kernels*)> enqueue;
};

// Where a result goes: into `out`, or a new array in `made`, which also holds
// what has to be computed apart from `out`.
struct Result {
  const Array* out;
  std::optional<Array>* made;
};

// result := op(inputs), of inputs.shape(), of `dtype` before it goes into `out`
// if that is given.
absl::Status ComputeTo(uint32_t op, const Inputs& inputs, DType dtype,
                       const Result& result,
                       const FirstKernels* first = nullptr);
// The same, with the array that it went into.
absl::StatusOr<Array> Compute(uint32_t op, const Inputs& inputs, DType dtype,
                              const Array* out);

// The elements in `dtype`, as a part of an operation: Cast without its name.
absl::StatusOr<Array> CastFor(const char* operation, const Array& array,
                              DType dtype, CallSite site);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_OPS_COMPUTE_H_
