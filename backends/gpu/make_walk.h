// SPDX-License-Identifier: Apache-2.0
//
// The axes of tensors as kernels walk them.  Axes that all operands can merge
// are merged, so most walks have one or two.

#ifndef DEVRT_BACKENDS_GPU_MAKE_WALK_H_
#define DEVRT_BACKENDS_GPU_MAKE_WALK_H_

#include <cstddef>
#include <cstdint>

#include "backends/gpu/tensor_args.h"
#include "backends/tensor/tensor.h"

namespace devrt::gpu {

inline Operand OperandOf(const tensor::Tensor& tensor) {
  const auto item = static_cast<uint64_t>(tensor::DtypeSize(tensor.dtype));
  uint64_t bits = reinterpret_cast<uintptr_t>(tensor.data);
  for (size_t k = 0; k < tensor.shape.size(); ++k) {
    if (tensor.shape[k] > 1) bits |= static_cast<uint64_t>(tensor.strides[k]);
  }
  return {tensor.data, tensor.dtype, bits % item == 0 ? 1u : 0u};
}

template <int kOperands>
void AppendAxis(int64_t extent, const int64_t* strides, Walk<kOperands>* walk) {
  const uint32_t last = walk->axes - 1;
  bool is_one = true;  // with the axis before
  for (int i = 0; i < kOperands; ++i) {
    int64_t span = 0;
    is_one = is_one &&
             !__builtin_mul_overflow(walk->extents[last],
                                     walk->strides[last][i], &span) &&
             span == strides[i];
  }
  uint32_t to = walk->axes;
  if (walk->extents[last] == 1) {
    to = last;
  } else if (is_one) {
    walk->extents[last] *= extent;
    return;
  } else {
    ++walk->axes;
  }
  walk->extents[to] = extent;
  for (int i = 0; i < kOperands; ++i) walk->strides[to][i] = strides[i];
}

// Makes a walk over `axes`, outermost first, of tensors that have elements and
// equal extents on these axes.
template <int kOperands>
void MakeWalk(const tensor::Tensor* const* tensors, size_t count,
              const tensor::Axes& axes, Walk<kOperands>* walk) {
  walk->elements = 1;
  walk->axes = 1;
  walk->extents[0] = 1;
  for (int i = 0; i < kOperands; ++i) walk->strides[0][i] = 0;
  for (size_t k = axes.size(); k-- > 0;) {
    const uint32_t axis = axes[k];
    const int64_t extent = tensors[0]->shape[axis];
    if (extent == 1) continue;
    int64_t strides[kOperands] = {};
    for (size_t i = 0; i < count; ++i) {
      strides[i] = tensors[i]->strides[axis];
    }
    AppendAxis(extent, strides, walk);
    walk->elements *= static_cast<uint64_t>(extent);
  }
  walk->is_small = walk->elements <= UINT32_MAX;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_MAKE_WALK_H_
