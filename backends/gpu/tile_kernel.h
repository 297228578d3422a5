// SPDX-License-Identifier: Apache-2.0
//
// Copies between tensors whose adjacent elements are on different axes, as
// functions of a block's number.  A copy goes tile by tile through shared
// memory, so that neighbouring threads read and write adjacent memory.

#ifndef DEVRT_BACKENDS_GPU_TILE_KERNEL_H_
#define DEVRT_BACKENDS_GPU_TILE_KERNEL_H_

#include <cstdint>

#include "backends/gpu/device_code.h"
#include "backends/gpu/elements.h"
#include "backends/gpu/fast_args.h"

namespace devrt::gpu {

inline constexpr uint32_t kTileLanes = 32;

// Tiles of kSide by kSide words.  A word is kGroup elements, and both extents
// are whole words.  A square of kGroup by kGroup elements is kGroup words,
// transposed in registers.
template <typename T, int kGroup, uint32_t kSide, bool kDownFirst = true>
struct Tile {
  struct alignas(sizeof(T) * kGroup) Word {
    T items[kGroup];
  };
  // One word more in a row, so that the words of a column are in different
  // banks.
  struct Shared {
    Word words[kGroup][kSide][kSide + 1];
  };
  static constexpr uint32_t kRows = kThreads / kTileLanes;  // at once
  static constexpr uint32_t kDown = kSide / kRows;
  static constexpr uint32_t kAcross = kSide / kTileLanes;

  // Where a tile begins, in groups, and its matrix.
  struct Place {
    uint32_t x, y;
    const char* in;
    char* out;

    DEVRT_HOST_DEVICE Place(const TileArgs& args, uint32_t tile) {
      const Divisor& inner = kDownFirst ? args.tiles_y : args.tiles_x;
      const Divisor& outer = kDownFirst ? args.tiles_x : args.tiles_y;
      uint32_t rest = inner.Divide(&tile);
      uint32_t matrix = outer.Divide(&rest);
      x = (kDownFirst ? rest : tile) * kSide;
      y = (kDownFirst ? tile : rest) * kSide;
      in = static_cast<const char*>(args.in);
      out = static_cast<char*>(args.out);
      for (uint32_t k = 0; k < args.batch_axes; ++k) {
        const uint32_t next = args.batch[k].Divide(&matrix);
        in += static_cast<int64_t>(matrix) * args.batch_strides[k][0];
        out += static_cast<int64_t>(matrix) * args.batch_strides[k][1];
        matrix = next;
      }
    }
  };

  DEVRT_HOST_DEVICE static int64_t Bytes(uint32_t groups, uint32_t rest,
                                         int64_t stride) {
    return (static_cast<int64_t>(groups) * kGroup + rest) * stride;
  }

  DEVRT_HOST_DEVICE static void Load(const TileArgs& args, const Place& place,
                                     uint32_t thread, Shared* shared) {
    const uint32_t lane = thread % kTileLanes, row = thread / kTileLanes;
    Word words[kDown][kAcross][kGroup] = {};
    for (uint32_t i = 0; i < kDown; ++i) {
      const uint32_t y = place.y + row + i * kRows;
      for (uint32_t k = 0; k < kAcross; ++k) {
        const uint32_t x = place.x + lane + k * kTileLanes;
        for (uint32_t j = 0; j < kGroup; ++j) {
          if (x < args.extent_x / kGroup && y < args.extent_y / kGroup) {
            words[i][k][j] = *reinterpret_cast<const Word*>(
                place.in + Bytes(x, 0, args.in_x) + Bytes(y, j, args.in_y));
          }
        }
      }
    }
    for (uint32_t i = 0; i < kDown; ++i) {
      for (uint32_t k = 0; k < kAcross; ++k) {
        for (uint32_t j = 0; j < kGroup; ++j) {
          Word turned;
          for (uint32_t m = 0; m < kGroup; ++m) {
            turned.items[m] = words[i][k][m].items[j];
          }
          shared->words[j][lane + k * kTileLanes][row + i * kRows] = turned;
        }
      }
    }
  }

  DEVRT_HOST_DEVICE static Word Normal(const TileArgs& args, Word word) {
    if constexpr (sizeof(T) == 1) {
      for (int m = 0; m < kGroup && args.is_bool != 0; ++m) {
        word.items[m] = word.items[m] != 0 ? 1 : 0;
      }
    }
    return word;
  }

  DEVRT_HOST_DEVICE static void Store(const TileArgs& args, const Place& place,
                                      uint32_t thread, const Shared& shared) {
    const uint32_t lane = thread % kTileLanes, row = thread / kTileLanes;
    for (uint32_t i = 0; i < kDown; ++i) {
      const uint32_t x = place.x + row + i * kRows;
      for (uint32_t j = 0; j < kGroup; ++j) {
        for (uint32_t k = 0; k < kAcross; ++k) {
          const uint32_t y = place.y + lane + k * kTileLanes;
          if (x >= args.extent_x / kGroup || y >= args.extent_y / kGroup) {
            continue;
          }
          *reinterpret_cast<Word*>(place.out + Bytes(x, j, args.out_x) +
                                   Bytes(y, 0, args.out_y)) =
              Normal(args,
                     shared.words[j][row + i * kRows][lane + k * kTileLanes]);
        }
      }
    }
  }

  DEVRT_HOST_DEVICE static void Run(const TileArgs& args, const Block& block,
                                    Shared* shared) {
    if (block.index >= args.tiles) return;
    const Place place(args, block.index);
    block.Together([&](uint32_t thread) { Load(args, place, thread, shared); });
    block.ForEachThread(
        [&](uint32_t thread) { Store(args, place, thread, *shared); });
  }
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_TILE_KERNEL_H_
