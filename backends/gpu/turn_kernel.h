// SPDX-License-Identifier: Apache-2.0
//
// Copies of small elements between tensors whose adjacent elements are on
// different axes, as functions of a block's number: as tile_kernel.h, but by
// words of several elements, wherever rows begin and end.  Where rows are not
// whole words, the kernels load words whole, with up to 3 bytes before a row
// and behind it.  They store whole words too: a tile then stores, of each row
// of the output, the words that begin in it, and loads what these need of the
// next tile.  Only the ends of rows are stored element by element.

#ifndef DEVRT_BACKENDS_GPU_TURN_KERNEL_H_
#define DEVRT_BACKENDS_GPU_TURN_KERNEL_H_

#include <cstdint>

#include "backends/gpu/device_code.h"
#include "backends/gpu/tile_kernel.h"

namespace devrt::gpu {

// Returns the word that begins `bytes` behind the beginning of `low`.
DEVRT_HOST_DEVICE inline uint32_t WordAcross(uint32_t low, uint32_t high,
                                             uint32_t bytes) {
#if defined(__CUDA_ARCH__)
  return __funnelshift_r(low, high, bytes * 8);
#else
  return static_cast<uint32_t>((uint64_t{high} << 32 | low) >> (8 * bytes));
#endif
}

// Returns four of the eight bytes of `low` and `high`: the digits of `picks`
// say which, the last digit for the first byte.
DEVRT_HOST_DEVICE inline uint32_t PickBytes(uint32_t low, uint32_t high,
                                            uint32_t picks) {
#if defined(__CUDA_ARCH__)
  return __byte_perm(low, high, picks);
#else
  const uint64_t all = uint64_t{high} << 32 | low;
  uint32_t word = 0;
  for (uint32_t i = 0; i < 4; ++i) {
    const uint32_t byte = picks >> (4 * i) & 7;
    word |= static_cast<uint32_t>(all >> (8 * byte) & 0xff) << (8 * i);
  }
  return word;
#endif
}

// Tiles of kX by kY words of kGroup elements of type T, of which the last word
// on y belongs to the next tile unless kIsWhole.  If extents and rows are whole
// words, kIsWhole spares the work of moving words into place.
template <typename T, uint32_t kX, uint32_t kY, bool kIsWhole>
struct Turn {
  static constexpr uint32_t kGroup = 4 / sizeof(T);
  static constexpr uint32_t kSideX = kX * kGroup;
  static constexpr uint32_t kStored = kIsWhole ? kY : kY - 1;  // words on y
  static constexpr uint32_t kSideY = kStored * kGroup;
  static constexpr uint32_t kRows = kThreads / kTileLanes;  // at once
  static constexpr uint32_t kWordsAtOnce = 16;  // that a thread loads
  // One word more in a row, so that the words of a column are in different
  // banks.
  struct Shared {
    uint32_t words[kGroup][kX][kY + 1];
  };
  struct Place {
    uint32_t width, height;  // the elements that are loaded
    bool is_first, is_last;  // on y
    const char* in;
    char* out;

    DEVRT_HOST_DEVICE Place(const TileArgs& args, uint32_t tile) {
      uint32_t rest = args.tiles_y.Divide(&tile);
      uint32_t matrix = args.tiles_x.Divide(&rest);
      const uint32_t x = rest * kSideX, y = tile * kSideY;
      width = args.extent_x - x < kSideX ? args.extent_x - x : kSideX;
      constexpr uint32_t kLoaded = kY * kGroup;
      height = args.extent_y - y < kLoaded ? args.extent_y - y : kLoaded;
      is_first = y == 0;
      // Rows of the output end in this tile, or in the word behind it.
      is_last = height < kLoaded;
      in = static_cast<const char*>(args.in) + x * sizeof(T) + y * args.in_y;
      out = static_cast<char*>(args.out) + x * args.out_x + y * sizeof(T);
      for (uint32_t k = 0; k < args.batch_axes; ++k) {
        const uint32_t next = args.batch[k].Divide(&matrix);
        in += static_cast<int64_t>(matrix) * args.batch_strides[k][0];
        out += static_cast<int64_t>(matrix) * args.batch_strides[k][1];
        matrix = next;
      }
    }
    DEVRT_HOST_DEVICE bool IsWhole() const {
      return width == kSideX && height == kY * kGroup;
    }
  };

  // A word of elements, and the words that it lies in.
  struct Halves {
    uint32_t low = 0, high = 0, bits = 0;

    // Loads the elements from `from` on, of which `count` exist.  On the device
    // the words are loaded whole, with what lies around the elements.
    DEVRT_HOST_DEVICE void Load(const char* from, uint32_t count) {
#if DEVRT_ON_DEVICE
      if constexpr (kIsWhole) {
        if (count != 0) low = *reinterpret_cast<const uint32_t*>(from);
        return;
      }
      const auto skip = static_cast<uint32_t>(
          reinterpret_cast<uintptr_t>(from) % sizeof(uint32_t));
      const auto* const words = reinterpret_cast<const uint32_t*>(
          reinterpret_cast<uintptr_t>(from) & ~uintptr_t{3});
      if (count != 0) low = words[0];
      if (skip != 0 && skip + count * sizeof(T) > sizeof(uint32_t)) {
        high = words[1];
      }
      bits = skip;
#else
      for (uint32_t i = 0; i < kGroup && i < count; ++i) {
        const T item = *reinterpret_cast<const T*>(from + i * sizeof(T));
        low |= static_cast<uint32_t>(item) << (i * sizeof(T) * 8);
      }
#endif
    }
    DEVRT_HOST_DEVICE uint32_t Word() const {
      return kIsWhole ? low : WordAcross(low, high, bits);
    }
  };

  // Makes columns of the rows of a square of elements.
  DEVRT_HOST_DEVICE static void Transpose(const uint32_t* rows,
                                          uint32_t* columns) {
    if constexpr (kGroup == 2) {
      columns[0] = PickBytes(rows[0], rows[1], 0x5410);
      columns[1] = PickBytes(rows[0], rows[1], 0x7632);
    } else {
      const uint32_t a = PickBytes(rows[0], rows[1], 0x5140);
      const uint32_t b = PickBytes(rows[2], rows[3], 0x5140);
      const uint32_t c = PickBytes(rows[0], rows[1], 0x7362);
      const uint32_t d = PickBytes(rows[2], rows[3], 0x7362);
      columns[0] = PickBytes(a, b, 0x5410);
      columns[1] = PickBytes(a, b, 0x7632);
      columns[2] = PickBytes(c, d, 0x5410);
      columns[3] = PickBytes(c, d, 0x7632);
    }
  }

  DEVRT_HOST_DEVICE static uint32_t Normal(const TileArgs& args,
                                           uint32_t word) {
    if (sizeof(T) != 1 || args.is_bool == 0) return word;
    // The upper bit of each byte that has a bit.
    return (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) >> 7 & 0x01010101u;
  }

  template <bool kWhole>
  DEVRT_HOST_DEVICE static void Load(const TileArgs& args, const Place& place,
                                     uint32_t thread, Shared* shared) {
    constexpr uint32_t kAtOnce =
        kWordsAtOnce / kGroup < kY / kRows ? kWordsAtOnce / kGroup : kY / kRows;
    const uint32_t lane = thread % kTileLanes, row = thread / kTileLanes;
    for (uint32_t k = 0; k < kX; k += kTileLanes) {
      const uint32_t x = (lane + k) * kGroup;
      uint32_t count = kGroup;
      if (!kWhole) count = x < place.width ? place.width - x : 0;
      const char* from = place.in + row * kGroup * args.in_y + x * sizeof(T);
      const int64_t step = args.in_y * (kRows * kGroup);
      DEVRT_NOT_UNROLLED
      for (uint32_t first = row; first < kY; first += kRows * kAtOnce) {
        Halves halves[kAtOnce][kGroup];
        for (uint32_t i = 0; i < kAtOnce; ++i, from += step) {
          const char* at = from;
          for (uint32_t j = 0; j < kGroup; ++j, at += args.in_y) {
            const uint32_t y = (first + i * kRows) * kGroup + j;
            halves[i][j].Load(at, kWhole || y < place.height ? count : 0);
          }
        }
        for (uint32_t i = 0; i < kAtOnce; ++i) {
          uint32_t rows[kGroup], columns[kGroup];
          for (uint32_t j = 0; j < kGroup; ++j) rows[j] = halves[i][j].Word();
          Transpose(rows, columns);
          for (uint32_t j = 0; j < kGroup; ++j) {
            shared->words[j][lane + k][first + i * kRows] =
                Normal(args, columns[j]);
          }
        }
      }
    }
  }

  // Stores the whole words of a row of the tile: `to` is where the tile's row
  // begins in the output, `bytes` how many are loaded.
  DEVRT_HOST_DEVICE static void StoreRow(char* to, const uint32_t* words,
                                         uint32_t lane, uint32_t bytes) {
    const auto skip =
        kIsWhole ? 0u
                 : static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to) % 4);
    auto* const aligned = reinterpret_cast<uint32_t*>(
        reinterpret_cast<uintptr_t>(to) & ~uintptr_t{3});
    // The first word begins in the tile before, which stores it.
    const uint32_t first = skip != 0 ? 1 : 0;
    DEVRT_UNROLLED
    for (uint32_t i = lane; i < kStored; i += kTileLanes) {
      const uint32_t k = i + first;
      if (k * 4 + 4 > bytes + skip) continue;
      aligned[k] =
          skip == 0 ? words[k] : WordAcross(words[k - 1], words[k], 4 - skip);
    }
  }

  DEVRT_HOST_DEVICE static void StoreWords(const TileArgs& args,
                                           const Place& place, uint32_t thread,
                                           const Shared& shared) {
    const uint32_t lane = thread % kTileLanes, row = thread / kTileLanes;
    const auto bytes = static_cast<uint32_t>(place.height * sizeof(T));
    // The rows of a thread have one number within their groups.
    const auto& words = shared.words[row % kGroup];
    char* to = place.out + row * args.out_x;
    const int64_t step = args.out_x * kRows;
    for (uint32_t x = row; x < place.width; x += kRows, to += step) {
      StoreRow(to, words[x / kGroup], lane, bytes);
    }
  }

  // Stores the elements of the output's rows before their first whole word and
  // behind the last.
  DEVRT_HOST_DEVICE static void StoreEnds(const TileArgs& args,
                                          const Place& place, uint32_t thread,
                                          const Shared& shared) {
    if (!place.is_first && !place.is_last) return;
    constexpr uint32_t kMost = 2 * kGroup;  // at both ends of a row
    for (uint32_t i = thread; i < place.width * kMost; i += kThreads) {
      const uint32_t x = i / kMost, k = i % kGroup;
      const bool is_end = i % kMost >= kGroup;
      char* const to = place.out + x * args.out_x;
      const auto skipped = static_cast<uint32_t>(
          reinterpret_cast<uintptr_t>(to) % 4 / sizeof(T));
      uint32_t y = k;
      if (is_end) {
        const uint32_t end = (place.height + skipped) / kGroup * kGroup;
        if (!place.is_last) continue;
        y += end > skipped ? end - skipped : 0;
      } else if (!place.is_first || skipped == 0 || y >= kGroup - skipped) {
        continue;
      }
      if (y >= place.height) continue;
      const uint32_t word = shared.words[x % kGroup][x / kGroup][y / kGroup];
      reinterpret_cast<T*>(to)[y] =
          static_cast<T>(word >> (y % kGroup * sizeof(T) * 8));
    }
  }

  DEVRT_HOST_DEVICE static void Run(const TileArgs& args, const Block& block,
                                    Shared* shared) {
    if (block.index >= args.tiles) return;
    const Place place(args, block.index);
    block.Together([&](uint32_t thread) {
      if (place.IsWhole()) {
        Load<true>(args, place, thread, shared);
      } else {
        Load<false>(args, place, thread, shared);
      }
    });
    block.ForEachThread([&](uint32_t thread) {
      StoreWords(args, place, thread, *shared);
      if (!kIsWhole) StoreEnds(args, place, thread, *shared);
    });
  }
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_TURN_KERNEL_H_
