// SPDX-License-Identifier: Apache-2.0
//
// From checked tensors to the parameters of a launch.

#ifndef DEVRT_BACKENDS_GPU_PACK_H_
#define DEVRT_BACKENDS_GPU_PACK_H_

#include <cstdint>
#include <vector>

#include "backends/gpu/tensor_args.h"
#include "backends/tensor/tensor.h"

namespace devrt::gpu {

// Each returns how many blocks to launch.  `out` has elements.
unsigned PackFill(const tensor::Tensor& out, const void* value, FillArgs* args);

// `*kernel` is the dtype whose apply kernel to launch, 0 for devrt_convert.
unsigned PackApply(uint32_t op, const tensor::Tensor& out,
                   const std::vector<tensor::Tensor>& inputs, ApplyArgs* args,
                   uint32_t* kernel);

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_PACK_H_
