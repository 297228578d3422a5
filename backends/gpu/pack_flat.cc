// SPDX-License-Identifier: Apache-2.0
//
// The short way to a launch, for the tensors that programs have most.

#include <cstdint>

#include "backends/gpu/pack.h"
#include "backends/tensor/tensor.h"

namespace devrt::gpu {
namespace {

// The bytes of an element.  The dtype is known to exist.
constexpr uint32_t ItemSize(uint32_t dtype) { return (dtype & 0xff) / 8; }

// Returns the number of elements of a C-contiguous tensor with the extents of
// `shape`, which has as many.  Returns 0 for any other tensor, and for one that
// CopyTensor refuses.
inline uint64_t CountFlat(const devrt_tensor_v0& tensor, const int64_t* shape) {
  auto bytes = static_cast<int64_t>(ItemSize(tensor.dtype));
  int64_t count = 1;
  for (uint32_t k = tensor.ndim; k-- > 0;) {
    const int64_t extent = tensor.shape[k];
    if (extent <= 0 || extent != shape[k]) return 0;
    if (tensor.strides != nullptr && extent != 1 &&
        tensor.strides[k] != bytes) {
      return 0;
    }
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return 0;
    count *= extent;
  }
  const auto data = reinterpret_cast<uintptr_t>(tensor.data);
  uintptr_t end = 0;
  const bool is_outside =
      __builtin_add_overflow(data, static_cast<uintptr_t>(bytes), &end);
  return data == 0 || is_outside ? 0 : static_cast<uint64_t>(count);
}

bool HasShape(const devrt_tensor_v0& tensor) {
  return tensor.ndim <= DEVRT_MAX_DIMS &&
         (tensor.ndim == 0 || tensor.shape != nullptr);
}

inline Operand FlatOperand(const devrt_tensor_v0& tensor) {
  const bool is_aligned =
      reinterpret_cast<uintptr_t>(tensor.data) % ItemSize(tensor.dtype) == 0;
  return {tensor.data, tensor.dtype, is_aligned ? 1u : 0u};
}

}  // namespace

unsigned PackFlat(uint32_t op, const devrt_tensor_v0& out,
                  const devrt_tensor_v0* inputs, uint32_t input_count,
                  FastApply* fast) {
  constexpr uint32_t kMost = ApplyArgs::kOperands;
  if (!tensor::ElementwiseTakes(op, out.dtype, inputs, input_count)) return 0;
  if (!HasShape(out)) return 0;
  const uint64_t elements = CountFlat(out, out.shape);
  if (elements == 0) return 0;
  Walk<kMost> walk;
  walk.elements = elements;
  walk.axes = 1;
  walk.is_small = elements <= UINT32_MAX ? 1 : 0;
  walk.extents[0] = static_cast<int64_t>(elements);
  Operand operands[kMost];
  operands[0] = FlatOperand(out);
  walk.strides[0][0] = ItemSize(out.dtype);
  for (uint32_t i = 1; i < kMost; ++i) {
    if (i > input_count) {
      walk.strides[0][i] = 0;
      continue;
    }
    const devrt_tensor_v0& input = inputs[i - 1];
    if (input.ndim != out.ndim || !HasShape(input) ||
        CountFlat(input, out.shape) == 0) {
      return 0;
    }
    operands[i] = FlatOperand(input);
    walk.strides[0][i] = ItemSize(input.dtype);
  }
  ChooseFast(op, walk, operands, static_cast<int>(1 + input_count), fast);
  return fast->path == FastApply::Path::kNone ? 0 : fast->blocks;
}

}  // namespace devrt::gpu
