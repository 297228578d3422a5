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

#define TILE(name, type, group, side)                                    \
  KERNEL(1)                                                              \
  tile_##name##_##side(const __grid_constant__ devrt::gpu::TileArgs a) { \
    using Tile = devrt::gpu::Tile<type, group, side>;                    \
    __shared__ Tile::Shared shared;                                      \
    Tile::Run(a, BLOCK, &shared);                                        \
  }
TILE(2x2, uint16_t, 2, 32)
TILE(4, uint32_t, 1, 32)
TILE(4, uint32_t, 1, 64)
TILE(8, uint64_t, 1, 32)

#define TURN(name, type, is_whole)                                           \
  KERNEL(4)                                                                  \
  turn_##name##_##is_whole(const __grid_constant__ devrt::gpu::TileArgs a) { \
    using Turn = devrt::gpu::Turn<type, 32, 64, is_whole>;                   \
    __shared__ Turn::Shared shared;                                          \
    Turn::Run(a, BLOCK, &shared);                                            \
  }
TURN(1, uint8_t, true)
TURN(1, uint8_t, false)
TURN(2, uint16_t, true)
TURN(2, uint16_t, false)

__device__ devrt::gpu::Slot g_slots[devrt::gpu::kSlots];

extern "C" __global__ void claim(uint32_t ticket) {
  devrt::gpu::ClaimSlot(g_slots, ticket);
}

#define COLUMNS(name, type)                                          \
  KERNEL(1)                                                          \
  columns_##name(const __grid_constant__ devrt::gpu::ReduceArgs a) { \
    __shared__ devrt::gpu::ColumnsShared<type> shared;               \
    devrt::gpu::ColumnsBlock<type>(a, BLOCK, g_slots, &shared);      \
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
