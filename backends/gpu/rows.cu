// SPDX-License-Identifier: Apache-2.0
//
// The kernels of devrt.elementwise/0 for frequent cases: operations on rows,
// and copies by tiles.
#include <type_traits>

#include "backends/gpu/rows_kernel.h"
#include "backends/gpu/tile_kernel.h"
#include "backends/gpu/turn_kernel.h"

namespace tensor = devrt::tensor;
using devrt::gpu::Block;

namespace {

// How many blocks shall fit a multiprocessor.  Without a bound these kernels
// take so many registers that too few fit.  On H200 an add of float16 is 17 %
// faster with the bound, one of int16 13 %, one of int32 7 %.
template <typename T>
constexpr int kRowsBlocks = sizeof(T) == 2
                                ? (std::is_integral_v<T> ? 5 : 6)
                                : (std::is_same_v<T, int32_t> ? 5 : 1);

}  // namespace

#define DEVRT_KERNEL_DTYPE(name, dtype, type)                             \
  extern "C" __global__ void __launch_bounds__(devrt::gpu::kThreads,      \
                                               kRowsBlocks<type>)         \
      devrt_rows_##name(const __grid_constant__ devrt::gpu::RowsArgs a) { \
    devrt::gpu::RowsBlock<type>(a, Block{blockIdx.x, gridDim.x});         \
  }
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE

#define DEVRT_KERNEL_TILE(name, type, side)                               \
  extern "C" __global__ void __launch_bounds__(devrt::gpu::kThreads)      \
      devrt_tile_##name(const __grid_constant__ devrt::gpu::TileArgs a) { \
    using Tile = devrt::gpu::Tile<type, side>;                            \
    __shared__ Tile::Shared shared;                                       \
    Tile::Run(a, Block{blockIdx.x, gridDim.x}, &shared);                  \
  }
#define DEVRT_KERNEL_TURN(name, type, side_x, side_y, rows)                 \
  extern "C" __global__ void __launch_bounds__(                             \
      devrt::gpu::kThreads,                                                 \
      (devrt::gpu::Turn<type, side_x, side_y,                               \
                        devrt::gpu::TurnRows::rows>::kBlocks))              \
      devrt_turn_##name(const __grid_constant__ devrt::gpu::TileArgs a) {   \
    using Turn =                                                            \
        devrt::gpu::Turn<type, side_x, side_y, devrt::gpu::TurnRows::rows>; \
    __shared__ Turn::Shared shared;                                         \
    Turn::Run(a, Block{blockIdx.x, gridDim.x}, &shared);                    \
  }
#include "backends/gpu/kernel_tiles.inc"
#undef DEVRT_KERNEL_TURN
#undef DEVRT_KERNEL_TILE

extern "C" __global__ void __launch_bounds__(devrt::gpu::kThreads)
    devrt_bytes(const __grid_constant__ devrt::gpu::RowsArgs a) {
  devrt::gpu::BytesThread(a, blockIdx.x, threadIdx.x);
}

extern "C" __global__ void __launch_bounds__(devrt::gpu::kThreads)
    devrt_shift(const __grid_constant__ devrt::gpu::RowsArgs a) {
  devrt::gpu::ShiftThread(a, blockIdx.x, threadIdx.x);
}
