// SPDX-License-Identifier: Apache-2.0
//
// Copies descriptors, computes the bytes that a tensor covers, and orders its
// axes.

#include "backends/tensor/tensor.h"

#include <string>

namespace devrt::tensor {
namespace {

std::string At(const char* list, uint32_t k, int64_t value) {
  return std::string(list) + "[" + std::to_string(k) + "] is " +
         std::to_string(value);
}

bool CopyShape(const devrt_tensor_v0& in, Tensor* out, std::string* error) {
  if (in.ndim > DEVRT_MAX_DIMS) {
    *error = "ndim is " + std::to_string(in.ndim) + ", expected 0 to " +
             std::to_string(DEVRT_MAX_DIMS);
    return false;
  }
  if (in.ndim > 0 && in.shape == nullptr) {
    *error = "shape is NULL, expected " + std::to_string(in.ndim) + " extents";
    return false;
  }
  bool empty = false;
  for (uint32_t k = 0; k < in.ndim; ++k) {
    if (in.shape[k] < 0) {
      *error = At("shape", k, in.shape[k]) + ", expected 0 or more";
      return false;
    }
    empty = empty || in.shape[k] == 0;
  }
  out->shape.assign(in.shape, in.shape + in.ndim);
  out->elements = empty ? 0 : 1;
  for (uint32_t k = 0; k < in.ndim; ++k) {
    if (__builtin_mul_overflow(out->elements, in.shape[k], &out->elements)) {
      *error = At("shape", k, in.shape[k]) +
               ": the number of elements exceeds 2^63 - 1";
      return false;
    }
  }
  return true;
}

bool ContiguousStrides(int64_t item, Tensor* out, std::string* error) {
  out->strides.assign(out->shape.size(), 0);
  if (out->elements == 0) return true;
  int64_t bytes = item;
  for (size_t k = out->shape.size(); k-- > 0;) {
    out->strides[k] = bytes;
    if (__builtin_mul_overflow(bytes, out->shape[k], &bytes)) {
      *error = At("shape", static_cast<uint32_t>(k), out->shape[k]) +
               ": the size in bytes exceeds 2^63 - 1";
      return false;
    }
  }
  return true;
}

bool ComputeRange(int64_t item, Tensor* out, std::string* error) {
  out->lo = 0;
  out->hi = 0;
  if (out->elements == 0) return true;
  out->hi = item;
  for (size_t k = 0; k < out->shape.size(); ++k) {
    const int64_t stride = out->strides[k];
    int64_t span = 0;
    int64_t* const end = stride < 0 ? &out->lo : &out->hi;
    if (__builtin_mul_overflow(out->shape[k] - 1, stride, &span) ||
        __builtin_add_overflow(*end, span, end)) {
      const uint32_t axis = static_cast<uint32_t>(k);
      *error = At("shape", axis, out->shape[k]) + " and " +
               At("strides", axis, stride) +
               ": the span in bytes exceeds 2^63 - 1";
      return false;
    }
  }
  return true;
}

// Checks that hi - lo and the addresses of the range do not overflow.
bool CheckAddresses(const Tensor& tensor, std::string* error) {
  if (tensor.elements == 0) return true;
  if (tensor.data == nullptr) {
    *error = "data is NULL, expected the address of " +
             std::to_string(tensor.elements) +
             (tensor.elements == 1 ? " element" : " elements");
    return false;
  }
  const uintptr_t data = reinterpret_cast<uintptr_t>(tensor.data);
  int64_t span = 0;
  uintptr_t end = 0;
  if (__builtin_sub_overflow(tensor.hi, tensor.lo, &span) ||
      uintptr_t{0} - static_cast<uintptr_t>(tensor.lo) > data ||
      __builtin_add_overflow(data, static_cast<uintptr_t>(tensor.hi), &end)) {
    *error = "bytes " + std::to_string(tensor.lo) + " to " +
             std::to_string(tensor.hi) +
             " from data are outside the address space";
    return false;
  }
  return true;
}

bool CopyFields(const devrt_tensor_v0& in, Tensor* out, std::string* error) {
  const int64_t item = DtypeSize(in.dtype);
  if (item == 0) {
    *error = "dtype " + DtypeName(in.dtype) + " is not known";
    return false;
  }
  out->data = in.data;
  out->dtype = in.dtype;
  if (!CopyShape(in, out, error)) return false;
  if (in.ndim > 0 && in.strides == nullptr) {
    if (!ContiguousStrides(item, out, error)) return false;
  } else {
    out->strides.assign(in.strides, in.strides + in.ndim);
  }
  return ComputeRange(item, out, error) && CheckAddresses(*out, error);
}

}  // namespace

bool CopyTensor(const devrt_tensor_v0& in, const char* what, Tensor* out,
                std::string* error) {
  if (CopyFields(in, out, error)) return true;
  *error = std::string(what) + ": " + *error;
  return false;
}

Axes OrderAxes(const Tensor& tensor, uint32_t mask) {
  Axes axes;
  for (uint32_t k = 0; k < tensor.shape.size(); ++k) {
    if ((mask >> k & 1) != 0) axes.push_back(k);
  }
  // Insertion sort, because most tensors have their axes in order.
  for (size_t i = 1; i < axes.size(); ++i) {
    const uint32_t axis = axes[i];
    const uint64_t stride = Magnitude(tensor.strides[axis]);
    size_t to = i;
    for (; to > 0 && Magnitude(tensor.strides[axes[to - 1]]) < stride; --to) {
      axes[to] = axes[to - 1];
    }
    axes[to] = axis;
  }
  return axes;
}

}  // namespace devrt::tensor
