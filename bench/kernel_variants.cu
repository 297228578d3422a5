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

#define TURN(name, type, x, y, is_whole, blocks)         \
  KERNEL(blocks)                                         \
  turn_##name##_##x##_##y##_##is_whole##_##blocks(       \
      const __grid_constant__ devrt::gpu::TileArgs a) {  \
    using Turn = devrt::gpu::Turn<type, x, y, is_whole>; \
    __shared__ Turn::Shared shared;                      \
    Turn::Run(a, BLOCK, &shared);                        \
  }
#define TURNS(name, type)            \
  TURN(name, type, 32, 64, true, 4)  \
  TURN(name, type, 32, 64, false, 3) \
  TURN(name, type, 32, 64, false, 4) \
  TURN(name, type, 32, 64, false, 5) \
  TURN(name, type, 32, 32, false, 4) \
  TURN(name, type, 32, 32, false, 6)
TURNS(1, uint8_t)
TURNS(2, uint16_t)

namespace {

// Returns the word that begins `bytes` behind the beginning of `low`.
template <typename Word>
__device__ Word ShiftedWord(Word low, Word high, uint32_t bytes) {
  constexpr uint32_t kBits = sizeof(Word) * 8;
  return bytes == 0 ? low : low >> 8 * bytes | high << (kBits - 8 * bytes);
}

// Copies a part of a row of args.units bytes that begins anywhere, in both
// operands.  extents[0] is the number of parts of a row.  The words of the
// output are stored whole, but those at the row's ends.
template <typename Word, int kWords>
__device__ void ShiftThread(const devrt::gpu::RowsArgs& args, uint32_t tile,
                            uint32_t thread) {
  constexpr uint32_t kSize = sizeof(Word);
  int64_t to_row = 0, from_row = 0;
  uint32_t row = args.extents[0].Divide(&tile);
  for (uint32_t k = 1; k < args.axes; ++k) {
    uint32_t at = row;
    if (k + 1 < args.axes) row = args.extents[k].Divide(&at);
    to_row += static_cast<int64_t>(at) * args.strides[k][0];
    from_row += static_cast<int64_t>(at) * args.strides[k][1];
  }
  char* const to = static_cast<char*>(args.data[0]) + to_row;
  const char* const from = static_cast<const char*>(args.data[1]) + from_row;
  const auto skip =
      static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to) % kSize);
  const auto begin = reinterpret_cast<uintptr_t>(from) - skip;
  const auto shift = static_cast<uint32_t>(begin % kSize);
  const auto* const words = reinterpret_cast<const Word*>(begin - shift);
  auto* const out = reinterpret_cast<Word*>(to - skip);
  const uint32_t end = args.units + skip;  // from `out` on
  const uint32_t first = tile * devrt::gpu::kThreads * kWords + thread;
  Word low[kWords] = {}, high[kWords] = {};
  DEVRT_UNROLLED
  for (int i = 0; i < kWords; ++i) {
    const uint32_t k = first + static_cast<uint32_t>(i) * devrt::gpu::kThreads;
    if (k * kSize >= end) break;
    // Neither word lies outside of the words that elements are in.
    if (k * kSize + kSize - shift > skip) low[i] = words[k];
    if (shift != 0 && k * kSize + kSize - shift < end) high[i] = words[k + 1];
  }
  DEVRT_UNROLLED
  for (int i = 0; i < kWords; ++i) {
    const uint32_t k = first + static_cast<uint32_t>(i) * devrt::gpu::kThreads;
    if (k * kSize >= end) break;
    const Word word = ShiftedWord(low[i], high[i], shift);
    if (k * kSize >= skip && k * kSize + kSize <= end) {
      out[k] = word;
      continue;
    }
    for (uint32_t j = 0; j < kSize; ++j) {
      const uint32_t at = k * kSize + j;
      if (at >= skip && at < end) {
        reinterpret_cast<uint8_t*>(out)[at] =
            static_cast<uint8_t>(word >> 8 * j);
      }
    }
  }
}

}  // namespace

#define SHIFT(name, type, words, blocks)                  \
  KERNEL(blocks)                                          \
  shift_##name##_##words##_##blocks(                      \
      const __grid_constant__ devrt::gpu::RowsArgs a) {   \
    ShiftThread<type, words>(a, blockIdx.x, threadIdx.x); \
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
