// SPDX-License-Identifier: Apache-2.0
//
// The kernels of devrt.elementwise/0 for frequent cases: operations on rows,
// and copies by tiles.
#include "backends/gpu/rows_kernel.h"
#include "backends/gpu/tile_kernel.h"

namespace tensor = devrt::tensor;
using devrt::gpu::Block;

#define DEVRT_KERNEL_DTYPE(name, dtype, type)                             \
  extern "C" __global__ void __launch_bounds__(devrt::gpu::kThreads)      \
      devrt_rows_##name(const __grid_constant__ devrt::gpu::RowsArgs a) { \
    devrt::gpu::RowsBlock<type>(a, Block{blockIdx.x, gridDim.x});         \
  }
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE

#define DEVRT_KERNEL_TILE(name, type, group, side)                        \
  extern "C" __global__ void __launch_bounds__(devrt::gpu::kThreads)      \
      devrt_tile_##name(const __grid_constant__ devrt::gpu::TileArgs a) { \
    using Tile = devrt::gpu::Tile<type, group, side>;                     \
    __shared__ Tile::Shared shared;                                       \
    Tile::Run(a, Block{blockIdx.x, gridDim.x}, &shared);                  \
  }
#include "backends/gpu/kernel_tiles.inc"
#undef DEVRT_KERNEL_TILE
