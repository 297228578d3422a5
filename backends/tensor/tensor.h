// SPDX-License-Identifier: Apache-2.0
//
// The device-independent half of devrt.elementwise/0 and devrt.reduce/0: copies
// of descriptors, the supported operations, and the checks of a call.

#ifndef DEVRT_BACKENDS_TENSOR_TENSOR_H_
#define DEVRT_BACKENDS_TENSOR_TENSOR_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "backends/tensor/inline_list.h"
#include "devrt/backends/abi/devrt_tensor.h"

namespace devrt::tensor {

using Dims = InlineList<int64_t, DEVRT_MAX_DIMS>;

// An owned copy of a devrt_tensor_v0 with explicit strides.  `data` is the
// address in the descriptor.  `lo`..`hi` is the range of bytes that the tensor
// covers, relative to data; [0, 0) for an empty tensor.
struct Tensor {
  void* data = nullptr;
  uint32_t dtype = 0;
  Dims shape;
  Dims strides;  // bytes
  int64_t lo = 0;
  int64_t hi = 0;
  int64_t elements = 0;
};

// The inputs of a call; not owned.
class TensorList {
 public:
  TensorList(const Tensor* first, size_t count) : first_(first), size_(count) {}
  TensorList(const std::vector<Tensor>& tensors)
      : TensorList(tensors.data(), tensors.size()) {}

  size_t size() const { return size_; }
  const Tensor& operator[](size_t i) const { return first_[i]; }
  const Tensor* begin() const { return first_; }
  const Tensor* end() const { return first_ + size_; }

 private:
  const Tensor* first_;
  size_t size_;
};

uint32_t DtypeSize(uint32_t dtype);     // bytes; 0: unknown dtype
std::string DtypeName(uint32_t dtype);  // "float32"

// Functions below return false and set `*error` (tensor, value, expectation).
// `what` is the tensor's name in messages: "out", "input 1".
bool CopyTensor(const devrt_tensor_v0& in, const char* what, Tensor* out,
                std::string* error);

bool ElementwiseSupports(uint32_t op, uint32_t dtype);
bool CheckElementwise(uint32_t op, const Tensor& out, const TensorList& inputs,
                      std::string* error);
// Returns true if the operation takes so many inputs of these dtypes, and gives
// `out_dtype`.  Looks at no other field.
bool ElementwiseTakes(uint32_t op, uint32_t out_dtype,
                      const devrt_tensor_v0* inputs, uint32_t input_count);
// Copies and checks all tensors of a call.  `input_copies` has room for
// input_count tensors.  More than kMostInputs inputs are an error.
inline constexpr uint32_t kMostInputs = 3;
bool CopyElementwise(uint32_t op, const devrt_tensor_v0& out,
                     const devrt_tensor_v0* inputs, uint32_t input_count,
                     Tensor* out_copy, Tensor* input_copies,
                     std::string* error);

bool ReduceSupports(uint32_t op, uint32_t in_dtype, uint32_t out_dtype);
bool CheckReduce(uint32_t op, const Tensor& out, const Tensor& in,
                 uint32_t axes, std::string* error);
// The dtype of partial results; float32 for 16-bit floats.
uint32_t PartialDtype(uint32_t op, uint32_t dtype);

// The mask of all axes.
inline constexpr uint32_t kAllAxes = ~uint32_t{0};

// |stride|, also for the smallest int64_t.
inline uint64_t Magnitude(int64_t stride) {
  const uint64_t bits = static_cast<uint64_t>(stride);
  return stride < 0 ? 0 - bits : bits;
}

// Axes, outermost first.
using Axes = InlineList<uint32_t, DEVRT_MAX_DIMS>;

// The axes of `tensor` whose bit in `mask` is set, smallest stride innermost.
Axes OrderAxes(const Tensor& tensor, uint32_t mask);

}  // namespace devrt::tensor

#endif  // DEVRT_BACKENDS_TENSOR_TENSOR_H_
