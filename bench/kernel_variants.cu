// SPDX-License-Identifier: Apache-2.0
//
// The kernels of backends/gpu in other shapes than the plugin has, for
// kernels_bench to compare: what a thread loads at once, how many blocks fit a
// multiprocessor, tiles.
#include "backends/gpu/adjacent_kernel.h"
#include "backends/gpu/columns_kernel.h"
#include "backends/gpu/rows_kernel.h"
#include "backends/gpu/tile_kernel.h"
#include "backends/gpu/turn_kernel.h"

namespace tensor = devrt::tensor;
using devrt::gpu::Block;

#define KERNEL(blocks) \
  extern "C" __global__ void __launch_bounds__(devrt::gpu::kThreads, blocks)
#define BLOCK (Block{blockIdx.x, gridDim.x})

#define CAST(name, from, to, packs)                                       \
  KERNEL(1)                                                               \
  cast_##name##_##packs(const __grid_constant__ devrt::gpu::RowsArgs a) { \
    devrt::gpu::CastThread<from, to, packs>(a, blockIdx.x, threadIdx.x);  \
  }
#define CASTS(name, from, to) \
  CAST(name, from, to, 1)     \
  CAST(name, from, to, 2)     \
  CAST(name, from, to, 4)
CASTS(float32_float16, float, tensor::Float16)
CASTS(float16_float32, tensor::Float16, float)
CASTS(float32_int32, float, int32_t)
CASTS(uint8_float32, uint8_t, float)
CASTS(float64_float32, double, float)

#define BYTES(packs)                                                        \
  KERNEL(1) bytes_##packs(const __grid_constant__ devrt::gpu::RowsArgs a) { \
    devrt::gpu::BytesThread<packs>(a, blockIdx.x, threadIdx.x);             \
  }
BYTES(1)
BYTES(2)
BYTES(4)

#define TILE(name, type, side)                                           \
  KERNEL(1)                                                              \
  tile_##name##_##side(const __grid_constant__ devrt::gpu::TileArgs a) { \
    using Tile = devrt::gpu::Tile<type, side>;                           \
    __shared__ Tile::Shared shared;                                      \
    Tile::Run(a, BLOCK, &shared);                                        \
  }
TILE(4, uint32_t, 32)
TILE(4, uint32_t, 64)
TILE(8, uint64_t, 32)

#define TURN(name, type, x, y, rows, blocks)                               \
  KERNEL(blocks)                                                           \
  turn_##name##_##x##_##y##_##rows##_##blocks(                             \
      const __grid_constant__ devrt::gpu::TileArgs a) {                    \
    using Turn = devrt::gpu::Turn<type, x, y, devrt::gpu::TurnRows::rows>; \
    __shared__ Turn::Shared shared;                                        \
    Turn::Run(a, BLOCK, &shared);                                          \
  }
#define TURNS(name, type)             \
  TURN(name, type, 32, 64, kWhole, 4) \
  TURN(name, type, 32, 64, kAny, 4)   \
  TURN(name, type, 32, 72, kAny, 4)   \
  TURN(name, type, 32, 72, kAny, 5)
TURNS(1, uint8_t)
TURNS(2, uint16_t)
TURNS(4, uint32_t)
TURNS(8, uint64_t)
TURN(2, uint16_t, 32, 128, kAny, 4)
TURN(4, uint32_t, 32, 104, kAny, 4)

#define SHIFT(name, type, words, blocks)                              \
  KERNEL(blocks)                                                      \
  shift_##name##_##words##_##blocks(                                  \
      const __grid_constant__ devrt::gpu::RowsArgs a) {               \
    devrt::gpu::ShiftThread<type, words>(a, blockIdx.x, threadIdx.x); \
  }
SHIFT(4, uint32_t, 4, 1)
SHIFT(4, uint32_t, 8, 1)
SHIFT(8, uint64_t, 2, 1)
SHIFT(8, uint64_t, 4, 1)
SHIFT(8, uint64_t, 4, 6)
SHIFT(8, uint64_t, 4, 8)

#define COPIES(name, type)                                                \
  KERNEL(1) copy_##name(const __grid_constant__ devrt::gpu::RowsArgs a) { \
    devrt::gpu::CopyThread<type>(a, blockIdx.x, threadIdx.x);             \
  }
COPIES(1, uint8_t)
COPIES(2, uint16_t)
COPIES(4, uint32_t)
COPIES(8, uint64_t)

__device__ devrt::gpu::Slot g_slots[devrt::gpu::kSlots];
__device__ devrt::gpu::ColumnsSlot
    g_columns_slots[devrt::gpu::ColumnsSlot::kCount +
                    devrt::gpu::ColumnsSlot::kLeased];

extern "C" __global__ void claim(uint32_t ticket) {
  devrt::gpu::ClaimSlot(g_slots, ticket);
  devrt::gpu::ClaimSlot(g_columns_slots, ticket);
}

#define COLUMNS(name, type)                                             \
  KERNEL(1)                                                             \
  columns_##name(const __grid_constant__ devrt::gpu::ReduceArgs a) {    \
    __shared__ devrt::gpu::ColumnsShared<type> shared;                  \
    devrt::gpu::ColumnsBlock<type>(a, BLOCK, g_columns_slots, &shared); \
  }
#define ADJACENT(name, type)                                                  \
  KERNEL((devrt::gpu::kAdjacentBlocks<type, tensor::Add>))                    \
  adjacent_##name(const __grid_constant__ devrt::gpu::ReduceArgs a) {         \
    __shared__ devrt::gpu::AdjacentShared<type, tensor::Add> shared;          \
    devrt::gpu::AdjacentBlock<type, tensor::Add>(a, BLOCK, g_slots, &shared); \
  }
#define REDUCTIONS(name, type) \
  COLUMNS(name, type)          \
  ADJACENT(name, type)
REDUCTIONS(float32, float)
REDUCTIONS(float16, tensor::Float16)
REDUCTIONS(int32, int32_t)
REDUCTIONS(int8, int8_t)

// What reading alone costs: the sum of all words.
KERNEL(1) read(const uint4* from, uint64_t words, uint32_t* out) {
  uint32_t sum = 0;
  uint64_t at = blockIdx.x * uint64_t{blockDim.x} * 4 + threadIdx.x;
  const uint64_t step = uint64_t{gridDim.x} * blockDim.x * 4;
  for (; at + 3 * blockDim.x < words; at += step) {
    uint4 w[4];
    for (int i = 0; i < 4; ++i) w[i] = from[at + i * blockDim.x];
    for (int i = 0; i < 4; ++i) sum += w[i].x ^ w[i].y ^ w[i].z ^ w[i].w;
  }
  if (sum == 0x12345678u) *out = sum;
}
