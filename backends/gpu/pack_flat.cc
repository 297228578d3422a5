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

// Returns true if the tensor has the extents, the strides and the size of
// elements of `out`, which CountFlat has counted, and its bytes fit too.
inline bool IsLike(const devrt_tensor_v0& tensor, const devrt_tensor_v0& out,
                   uint64_t bytes) {
  if (ItemSize(tensor.dtype) != ItemSize(out.dtype) ||
      tensor.strides == nullptr || out.strides == nullptr) {
    return false;
  }
  for (uint32_t k = 0; k < out.ndim; ++k) {
    if (tensor.shape[k] != out.shape[k] ||
        tensor.strides[k] != out.strides[k]) {
      return false;
    }
  }
  const auto data = reinterpret_cast<uintptr_t>(tensor.data);
  return data != 0 && data + bytes >= data;
}

bool HasShape(const devrt_tensor_v0& tensor) {
  return tensor.ndim <= DEVRT_MAX_DIMS &&
         (tensor.ndim == 0 || tensor.shape != nullptr);
}

// ChooseFast for a copy of a C-contiguous tensor to another one.
void ChooseCopy(uint64_t elements, const devrt_tensor_v0* const* tensors,
                FastApply* fast) {
  Walk<ApplyArgs::kOperands> walk;
  walk.elements = elements;
  walk.axes = 1;
  walk.is_small = elements <= UINT32_MAX ? 1 : 0;
  walk.extents[0] = static_cast<int64_t>(elements);
  Operand operands[2];
  for (int i = 0; i < 2; ++i) {
    const uint32_t item = ItemSize(tensors[i]->dtype);
    const bool is_aligned =
        reinterpret_cast<uintptr_t>(tensors[i]->data) % item == 0;
    walk.strides[0][i] = item;
    operands[i] = {tensors[i]->data, tensors[i]->dtype, is_aligned ? 1u : 0u};
  }
  ChooseFast(DEVRT_OP_COPY, walk, operands, 2, fast);
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
  const uint64_t bytes = elements * ItemSize(out.dtype);
  const devrt_tensor_v0* tensors[kMost] = {&out};
  for (uint32_t i = 0; i < input_count; ++i) {
    const devrt_tensor_v0& input = inputs[i];
    if (input.ndim != out.ndim || !HasShape(input) ||
        (!IsLike(input, out, bytes) && CountFlat(input, out.shape) == 0)) {
      return 0;
    }
    tensors[1 + i] = &input;
  }
  if (op == DEVRT_OP_COPY) {
    ChooseCopy(elements, tensors, fast);
  } else {
    ChooseFlat(op, elements, tensors, static_cast<int>(1 + input_count), fast);
  }
  return fast->path == FastApply::Path::kNone ? 0 : fast->blocks;
}

}  // namespace devrt::gpu
