// SPDX-License-Identifier: Apache-2.0
//
// The kernels of devrt.reduce/0 for adjacent elements.
#include "backends/gpu/adjacent_kernel.h"

namespace tensor = devrt::tensor;
using devrt::gpu::Block;

namespace {

__device__ devrt::gpu::Slot
    g_slots[devrt::gpu::kSlots + devrt::gpu::kLeasedSlots];

}  // namespace

// The bounds leave room for enough blocks on a multiprocessor to hide the time
// of loads.  More would leave too few registers.
#define ADJACENT(operation, name, type, Op)                              \
  extern "C" __global__ void __launch_bounds__(                          \
      devrt::gpu::kThreads, (devrt::gpu::kAdjacentBlocks<type, Op>))     \
      devrt_adjacent_##operation##_##name(                               \
          const __grid_constant__ devrt::gpu::ReduceArgs a) {            \
    __shared__ devrt::gpu::AdjacentShared<type, Op> shared;              \
    devrt::gpu::AdjacentBlock<type, Op>(a, Block{blockIdx.x, gridDim.x}, \
                                        g_slots, &shared);               \
  }                                                                      \
  extern "C" __global__ void __launch_bounds__(devrt::gpu::kThreads, 4)  \
      devrt_short_##operation##_##name(                                  \
          const __grid_constant__ devrt::gpu::ReduceArgs a) {            \
    devrt::gpu::ShortBlock<type, Op>(a, Block{blockIdx.x, gridDim.x},    \
                                     nullptr);                           \
  }

#define DEVRT_KERNEL_DTYPE(name, dtype, type)  \
  ADJACENT(sum, name, type, tensor::Add)       \
  ADJACENT(prod, name, type, tensor::Multiply) \
  ADJACENT(truth, name, type, devrt::gpu::BitOr)
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE

#define DEVRT_KERNEL_DTYPE(name, dtype, type) \
  ADJACENT(min, name, type, tensor::Minimum)  \
  ADJACENT(max, name, type, tensor::Maximum)
#define DEVRT_REAL_DTYPES_ONLY
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE

extern "C" __global__ void devrt_adjacent_claim(uint32_t ticket) {
  devrt::gpu::ClaimSlot(g_slots, ticket);
}
