// SPDX-License-Identifier: Apache-2.0
//
// The kernels of devrt.elementwise/0 for casts of rows.
#include "backends/gpu/rows_kernel.h"

namespace tensor = devrt::tensor;
using devrt::gpu::Block;

#define DEVRT_KERNEL_DTYPE(name, dtype, type)                             \
  extern "C" __global__ void __launch_bounds__(devrt::gpu::kThreads)      \
      devrt_cast_##name(const __grid_constant__ devrt::gpu::RowsArgs a) { \
    devrt::gpu::CastBlock<type>(a, Block{blockIdx.x, gridDim.x});         \
  }
#define DEVRT_REAL_DTYPES_ONLY
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE
