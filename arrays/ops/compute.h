// SPDX-License-Identifier: Apache-2.0
//
// Parts of every operation on arrays: the device that it runs on, the form in
// which the kernel gets the operands, and the array that gets the result.
//
//   Inputs inputs("add", site);
//   DEVRT_RETURN_IF_ERROR(inputs.Add(a, kFloat32));   // cast if need be
//   DEVRT_RETURN_IF_ERROR(inputs.Add(b, kFloat32));
//   return Compute(DEVRT_OP_ADD, inputs, kFloat32, out);
//
// Kernels read memory only.  So an operand of another dtype is cast into a
// temporary array, and a number becomes a temporary array without axes.  Only
// the operation's stream uses temporaries, so they need no order.

#ifndef DEVRT_ARRAYS_OPS_COMPUTE_H_
#define DEVRT_ARRAYS_OPS_COMPUTE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/base/optimization.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "arrays/core/kernels.h"
#include "arrays/storage/storage.h"
#include "devrt/arrays/array.h"
#include "devrt/arrays/scalar.h"
#include "devrt/runtime/call_site.h"

namespace devrt::internal {

// Returns true if a kernel that writes `out` could change elements of `in`
// before it reads them: the two share bytes and are not one view.
bool Interferes(const Array& out, const Array& in);
// Returns false if the two interfere.  Both have memory.  The usual case, two
// storages, is decided by their addresses.
bool IsApart(const Array& out, const Array& in);
// The INVALID_ARGUMENT error for a number that is no index of `rules`, which
// has the names of the operations.
template <typename Op, typename Rule, size_t kCount>
absl::Status NoSuchOperation(const char* call, Op op,
                             const Rule (&rules)[kCount]) {
  std::string text =
      absl::StrCat(call, ": operation ", static_cast<int64_t>(op),
                   " does not exist: it is ");
  for (size_t i = 0; i < kCount; ++i) {
    const char* const mark = i == 0 ? "" : i + 1 == kCount ? " or " : ", ";
    absl::StrAppend(&text, mark, i, " (", rules[i].name, ")");
  }
  return absl::InvalidArgumentError(text);
}
// The UNIMPLEMENTED error for a dtype that is for storage only.
absl::Status NoArithmetic(const char* operation, DType dtype);
inline absl::Status CheckComputes(const char* operation, DType dtype) {
  if (ABSL_PREDICT_FALSE(dtype == kFloat8E4M3FN || dtype == kFloat8E5M2)) {
    return NoArithmetic(operation, dtype);
  }
  return absl::OkStatus();
}

// Compares without a call, as most arrays have few axes.
inline bool AreEqual(DimSpan a, DimSpan b) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) return false;
  }
  return true;
}

// The strides of an array that is broadcast to `shape`.
struct BroadcastStrides {
  std::array<int64_t, DEVRT_MAX_DIMS> strides;
  devrt_tensor_v0 Of(const Array& array, DimSpan shape);
};

class Inputs {
 public:
  static constexpr size_t kMost = 3;

  // `operation` is the name in errors; the text must live as long as the
  // process.
  Inputs(const char* operation, CallSite site)
      : operation_(operation), site_(site) {}
  Inputs(const Inputs&) = delete;
  Inputs& operator=(const Inputs&) = delete;

  const char* operation() const { return operation_; }
  CallSite site() const { return site_; }
  size_t count() const { return count_; }
  Device device() const { return *device_; }
  DimSpan shape() const { return shape_; }

  // Finds the device that all arrays share, and the shape that they broadcast
  // to.  Call Note for each array before the first Add.  The arrays must
  // outlive this object.
  absl::Status Note(const Array& array);
  // Finds the device only, for an array that the operation writes.
  absl::Status NoteDevice(const Array& array);
  // Adds the next operand, which the kernel reads in `dtype`.  It must outlive
  // this object.
  absl::Status Add(const Array& array, DType dtype);
  absl::Status Add(const Scalar& number, DType dtype);

  // The array that the kernel reads.
  const Array& source(size_t i) const {
    return inputs_[i].temporary ? *inputs_[i].temporary : *inputs_[i].array;
  }
  // The operand, or nullptr for a number.
  const Array* array(size_t i) const { return inputs_[i].array; }
  // Returns true if the kernel reads the operand itself, and no temporary.
  bool direct(size_t i) const { return !inputs_[i].temporary; }
  // Enqueues the kernels that fill the temporary arrays.
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
  Dims broadcast_;  // the memory behind shape_, if no array has that shape
  bool has_shape_ = false;
  size_t count_ = 0;
  Input inputs_[kMost];
};

// The kernels of an operation before its last one, which are enqueued in the
// same step, and the arrays that they read.
struct FirstKernels {
  std::array<const Array*, 2> read;
  absl::FunctionRef<absl::Status(Kernels*)> enqueue;
};

// Where a result goes: to `out`, or to a new array in `made`.  If `out`
// overlaps an operand, `made` holds the result until it is copied to `out`.
struct Result {
  const Array* out;
  std::optional<Array>* made;
};

// Computes op(inputs) with the shape of the inputs and in `dtype`, which is
// cast to the dtype of `out` if that is given.
absl::Status ComputeTo(uint32_t op, const Inputs& inputs, DType dtype,
                       const Result& result,
                       const FirstKernels* first = nullptr);
// ComputeTo that returns the array with the result.
absl::StatusOr<Array> Compute(uint32_t op, const Inputs& inputs, DType dtype,
                              const Array* out);

// Calls Cast as a part of `operation`, which errors name instead of Cast.
absl::StatusOr<Array> CastFor(const char* operation, const Array& array,
                              DType dtype, CallSite site);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_OPS_COMPUTE_H_
