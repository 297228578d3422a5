// SPDX-License-Identifier: Apache-2.0
//
// Tensors over host memory, for the kernels' own code.

#ifndef DEVRT_TESTS_GPU_TENSORS_H_
#define DEVRT_TESTS_GPU_TENSORS_H_

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "backends/tensor/tensor.h"

namespace devrt::gpu {

using Inputs = std::vector<tensor::Tensor>;

// C-contiguous where no strides are given.
inline tensor::Tensor TensorOf(const void* data, uint32_t dtype,
                               const std::vector<int64_t>& shape,
                               const std::vector<int64_t>& strides = {}) {
  const devrt_tensor_v0 described = {const_cast<void*>(data), shape.data(),
                                     strides.empty() ? nullptr : strides.data(),
                                     static_cast<uint32_t>(shape.size()),
                                     dtype};
  tensor::Tensor copy;
  std::string error;
  EXPECT_TRUE(tensor::CopyTensor(described, "tensor", &copy, &error)) << error;
  return copy;
}

}  // namespace devrt::gpu

#endif  // DEVRT_TESTS_GPU_TENSORS_H_
