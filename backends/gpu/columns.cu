// SPDX-License-Identifier: Apache-2.0
//
// The kernels of devrt.reduce/0 for results that are adjacent.
#include "backends/gpu/columns_kernel.h"

namespace tensor = devrt::tensor;
using devrt::gpu::Block;

namespace {

__device__ devrt::gpu::ColumnsSlot
    g_slots[devrt::gpu::ColumnsSlot::kCount + devrt::gpu::ColumnsSlot::kLeased];

}  // namespace

// Without the bound the kernels of bytes take so many registers that one block
// fits a multiprocessor, and reach 64 to 84 % of what two do on H200.
#define DEVRT_KERNEL_DTYPE(name, dtype, type)                                  \
  extern "C" __global__ void __launch_bounds__(devrt::gpu::kThreads,           \
                                               sizeof(type) == 1 ? 2 : 1)      \
      devrt_columns_##name(const __grid_constant__ devrt::gpu::ReduceArgs a) { \
    __shared__ devrt::gpu::ColumnsShared<type> shared;                         \
    devrt::gpu::ColumnsBlock<type>(a, Block{blockIdx.x, gridDim.x}, g_slots,   \
                                   &shared);                                   \
  }
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE

extern "C" __global__ void devrt_columns_claim(uint32_t ticket) {
  devrt::gpu::ClaimSlot(g_slots, ticket);
}
