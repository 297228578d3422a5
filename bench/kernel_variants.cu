// SPDX-License-Identifier: Apache-2.0
//
// The kernels of backends/gpu in other shapes than the plugin has, for
// kernels_bench to compare: packs of a thread, tiles, depths.
#include "backends/gpu/columns_kernel.h"
#include "backends/gpu/reduce_kernel.h"
#include "backends/gpu/rows_kernel.h"
#include "backends/gpu/tile_kernel.h"

namespace tensor = devrt::tensor;
using devrt::gpu::Block;

#define KERNEL \
  extern "C" __global__ void __launch_bounds__(devrt::gpu::kThreads)
#define BLOCK (Block{blockIdx.x, gridDim.x})

#define CAST(name, from, to, packs)                                      \
  KERNEL cast_##name##_##packs(                                          \
      const __grid_constant__ devrt::gpu::RowsArgs a) {                  \
    devrt::gpu::CastThread<from, to, packs>(a, blockIdx.x, threadIdx.x); \
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

#define TILE(name, type, group, side, down)                 \
  KERNEL tile_##name##_##side##_##down(                     \
      const __grid_constant__ devrt::gpu::TileArgs a) {     \
    using Tile = devrt::gpu::Tile<type, group, side, down>; \
    __shared__ Tile::Shared shared;                         \
    Tile::Run(a, BLOCK, &shared);                           \
  }
#define TILES(name, type, group)     \
  TILE(name, type, group, 32, false) \
  TILE(name, type, group, 32, true)  \
  TILE(name, type, group, 64, false) \
  TILE(name, type, group, 64, true)
TILES(4, uint32_t, 1)
TILES(8, uint64_t, 1)
TILE(1, uint8_t, 1, 32, true)
TILE(1, uint8_t, 1, 64, true)
TILES(2x2, uint16_t, 2)
TILE(1x4, uint8_t, 4, 32, false)
TILE(1x4, uint8_t, 4, 32, true)

__device__ devrt::gpu::Slot g_slots[devrt::gpu::kSlots];

KERNEL claim(uint32_t ticket) {
  if (threadIdx.x == 0) devrt::gpu::ClaimSlot(g_slots, ticket);
}

#define COLUMNS(name, type, deep)                                     \
  KERNEL columns_##name##_##deep(                                     \
      const __grid_constant__ devrt::gpu::ReduceArgs a) {             \
    __shared__ devrt::gpu::ColumnsShared<type> shared;                \
    devrt::gpu::ColumnsBlock<type, deep>(a, BLOCK, g_slots, &shared); \
  }
COLUMNS(float32, float, 4)
COLUMNS(float32, float, 8)
COLUMNS(float16, tensor::Float16, 4)
COLUMNS(float16, tensor::Float16, 8)
COLUMNS(int32, int32_t, 4)
COLUMNS(int32, int32_t, 8)
COLUMNS(int8, int8_t, 4)
COLUMNS(int8, int8_t, 8)

#define REDUCE(name, type)                                                 \
  KERNEL reduce_##name(const __grid_constant__ devrt::gpu::ReduceArgs a) { \
    __shared__ devrt::gpu::Shared<devrt::gpu::PartialType<type>> s;        \
    devrt::gpu::ReduceBlock<type>(a, BLOCK, g_slots, &s);                  \
  }
REDUCE(float32, float)
REDUCE(float16, tensor::Float16)
REDUCE(int32, int32_t)
REDUCE(int8, int8_t)

// What reading alone costs: the sum of all words.
KERNEL read(const uint4* from, uint64_t words, uint32_t* out) {
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
