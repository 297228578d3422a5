// SPDX-License-Identifier: Apache-2.0
//
// The kernels of devrt.elementwise/0.
#include "backends/gpu/elementwise_kernel.h"

namespace tensor = devrt::tensor;
using devrt::gpu::Block;

#define DEVRT_KERNEL_DTYPE(name, dtype, type)                               \
  extern "C" __global__ void __launch_bounds__(devrt::gpu::kThreads)        \
      devrt_apply_##name(const __grid_constant__ devrt::gpu::ApplyArgs a) { \
    devrt::gpu::ApplyBlock<type>(a, Block{blockIdx.x, gridDim.x});          \
  }
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE

extern "C" __global__ void __launch_bounds__(devrt::gpu::kThreads)
    devrt_convert(const __grid_constant__ devrt::gpu::ApplyArgs args) {
  devrt::gpu::ConvertBlock(args, Block{blockIdx.x, gridDim.x});
}

extern "C" __global__ void __launch_bounds__(devrt::gpu::kThreads)
    devrt_fill(const __grid_constant__ devrt::gpu::FillArgs args) {
  devrt::gpu::FillBlock(args, Block{blockIdx.x, gridDim.x});
}
