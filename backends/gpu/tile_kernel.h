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

// Tiles of kSide by kSide elements.
template <typename T, uint32_t kSide>
struct Tile {
  // One element more in a row, so that the elements of a column are in
  // different banks.
  struct Shared {
    T items[kSide][kSide + 1];
  };
  static constexpr uint32_t kRows = kThreads / kTileLanes;  // at once
  static constexpr uint32_t kDown = kSide / kRows;
  static constexpr uint32_t kAcross = kSide / kTileLanes;

  // Where a tile begins, and its matrix.
  struct Place {
    uint32_t x, y;
    const char* in;
    char* out;

    DEVRT_HOST_DEVICE Place(const TileArgs& args, uint32_t tile) {
      uint32_t rest = args.tiles_y.Divide(&tile);
      uint32_t matrix = args.tiles_x.Divide(&rest);
      x = rest * kSide;
      y = tile * kSide;
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

  DEVRT_HOST_DEVICE static void Load(const TileArgs& args, const Place& place,
                                     uint32_t thread, Shared* shared) {
    const uint32_t lane = thread % kTileLanes, row = thread / kTileLanes;
    T items[kDown][kAcross] = {};
    for (uint32_t i = 0; i < kDown; ++i) {
      const uint32_t y = place.y + row + i * kRows;
      for (uint32_t k = 0; k < kAcross; ++k) {
        const uint32_t x = place.x + lane + k * kTileLanes;
        if (x < args.extent_x && y < args.extent_y) {
          items[i][k] = *reinterpret_cast<const T*>(
              place.in + int64_t{x} * args.in_x + int64_t{y} * args.in_y);
        }
      }
    }
    for (uint32_t i = 0; i < kDown; ++i) {
      for (uint32_t k = 0; k < kAcross; ++k) {
        shared->items[lane + k * kTileLanes][row + i * kRows] = items[i][k];
      }
    }
  }

  DEVRT_HOST_DEVICE static T Normal(const TileArgs& args, T item) {
    if constexpr (sizeof(T) == 1) {
      if (args.is_bool != 0) return item != 0 ? 1 : 0;
    }
    return item;
  }

  DEVRT_HOST_DEVICE static void Store(const TileArgs& args, const Place& place,
                                      uint32_t thread, const Shared& shared) {
    const uint32_t lane = thread % kTileLanes, row = thread / kTileLanes;
    for (uint32_t i = 0; i < kDown; ++i) {
      const uint32_t x = place.x + row + i * kRows;
      for (uint32_t k = 0; k < kAcross; ++k) {
        const uint32_t y = place.y + lane + k * kTileLanes;
        if (x >= args.extent_x || y >= args.extent_y) continue;
        *reinterpret_cast<T*>(place.out + int64_t{x} * args.out_x +
                              int64_t{y} * args.out_y) =
            Normal(args, shared.items[row + i * kRows][lane + k * kTileLanes]);
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
