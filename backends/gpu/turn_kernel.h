// SPDX-License-Identifier: Apache-2.0
//
// Copies between tensors whose adjacent elements are on different axes, as
// functions of a block's number: as tile_kernel.h, but by words of several
// elements, wherever rows begin and end.  Where rows of the output begin
// anywhere, a tile stores of each row the elements that begin at a multiple of
// 32 bytes, and so for each row others: what memory is written in is 32 bytes,
// and one that two tiles write is read and written twice.  The tile loads what
// the row that begins first needs, and what the row that ends last needs.  Only
// the ends of rows are stored element by element.

#ifndef DEVRT_BACKENDS_GPU_TURN_KERNEL_H_
#define DEVRT_BACKENDS_GPU_TURN_KERNEL_H_

#include <cstdint>
#include <type_traits>

#include "backends/gpu/device_code.h"
#include "backends/gpu/tile_kernel.h"

namespace devrt::gpu {

// Where rows begin anywhere, tiles store from multiples of these bytes on.
inline constexpr uint32_t kTurnLead = 32;

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

// What is moved at once: 4 bytes, or an element of 8.
template <typename T>
using TurnWord = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

// Tiles of kX by kY words of kGroup elements of type T.  With kAny the first
// kLead words on y are stored by the tile before, but for those that share
// kTurnLead bytes of the output with what this tile stores.  A thread stores
// kTogether words at once.
template <typename T, uint32_t kX, uint32_t kY, TurnRows kRowsAre,
          uint32_t kTogether =
              (sizeof(T) < 4 && kRowsAre == TurnRows::kAny) ? 2 : 1>
struct Turn {
  using Word = TurnWord<T>;
  static constexpr uint32_t kGroup = sizeof(Word) / sizeof(T);
  static constexpr uint32_t kSideX = kX * kGroup;
  static constexpr uint32_t kLead =
      kRowsAre == TurnRows::kWhole ? 0 : kTurnLead / sizeof(Word);
  static constexpr uint32_t kLeading = kLead * kGroup;  // elements
  static constexpr uint32_t kStored = kY - kLead;       // words on y
  static constexpr uint32_t kSideY = kStored * kGroup;
  static constexpr uint32_t kRows = kThreads / kTileLanes;  // at once
  static constexpr uint32_t kWordsAtOnce = 18;  // that a thread loads
  // How many blocks shall fit a multiprocessor.
  static constexpr int kBlocks = sizeof(T) == 1 && kLead != 0 ? 5 : 4;
  static_assert(kStored * sizeof(Word) % kTurnLead == 0);
  // One word more in a row, so that the words of a column are in different
  // banks.
  struct Shared {
    Word words[kGroup][kX][kY + 1];
  };
  // The elements on y are counted from the first that the tile may load.
  struct Place {
    uint32_t width;       // the elements that exist, on x
    uint32_t begin, end;  // the elements that exist, on y
    const char* in;
    char* out;

    DEVRT_HOST_DEVICE Place(const TileArgs& args, uint32_t tile) {
      uint32_t rest = args.tiles_y.Divide(&tile);
      uint32_t matrix = args.tiles_x.Divide(&rest);
      constexpr uint32_t kLoaded = kY * kGroup;
      const uint32_t x = rest * kSideX, y = tile * kSideY;
      width = args.extent_x - x < kSideX ? args.extent_x - x : kSideX;
      begin = y == 0 ? kLeading : 0;
      const uint32_t left = args.extent_y + kLeading - y;
      end = left < kLoaded ? left : kLoaded;
      const int64_t first = int64_t{y} - int64_t{kLeading};
      in =
          static_cast<const char*>(args.in) + x * sizeof(T) + first * args.in_y;
      out = static_cast<char*>(args.out) + x * args.out_x +
            first * static_cast<int64_t>(sizeof(T));
      for (uint32_t k = 0; k < args.batch_axes; ++k) {
        const uint32_t next = args.batch[k].Divide(&matrix);
        in += static_cast<int64_t>(matrix) * args.batch_strides[k][0];
        out += static_cast<int64_t>(matrix) * args.batch_strides[k][1];
        matrix = next;
      }
    }
    DEVRT_HOST_DEVICE bool IsWhole() const {
      return width == kSideX && begin == 0 && end == kY * kGroup;
    }
  };

  // A word of elements, and the words that it lies in.
  struct Halves {
    Word low = 0, high = 0;
    uint32_t bits = 0;

    // Loads the elements from `from` on, of which `count` exist.  On the device
    // the words are loaded whole, with what lies around the elements.
    DEVRT_HOST_DEVICE void Load(const char* from, uint32_t count) {
#if DEVRT_ON_DEVICE
      const auto skip =
          kGroup == 1 ? 0u
                      : static_cast<uint32_t>(
                            reinterpret_cast<uintptr_t>(from) % sizeof(Word));
      const auto* const words = reinterpret_cast<const Word*>(from - skip);
      if (count != 0) low = words[0];
      if (skip != 0 && skip + count * sizeof(T) > sizeof(Word)) {
        high = words[1];
      }
      bits = skip;
#else
      for (uint32_t i = 0; i < kGroup && i < count; ++i) {
        const T item = *reinterpret_cast<const T*>(from + i * sizeof(T));
        low |= static_cast<Word>(item) << (i * sizeof(T) * 8);
      }
#endif
    }
    DEVRT_HOST_DEVICE Word Whole() const {
      if constexpr (kGroup == 1) {
        return low;
      } else {
        return WordAcross(low, high, bits);
      }
    }
  };

  // Makes columns of the rows of a square of elements.
  DEVRT_HOST_DEVICE static void Transpose(const Word* rows, Word* columns) {
    if constexpr (kGroup == 1) {
      columns[0] = rows[0];
    } else if constexpr (kGroup == 2) {
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

  DEVRT_HOST_DEVICE static Word Normal(const TileArgs& args, Word word) {
    if constexpr (sizeof(T) == 1) {
      // The upper bit of each byte that has a bit.
      if (args.is_bool != 0) {
        return (((word & 0x7f7f7f7fu) + 0x7f7f7f7fu) | word) >> 7 & 0x01010101u;
      }
    }
    return word;
  }

  template <bool kWhole>
  DEVRT_HOST_DEVICE static void Load(const TileArgs& args, const Place& place,
                                     uint32_t thread, Shared* shared) {
    constexpr uint32_t kAll = kY / kRows, kMost = kWordsAtOnce / kGroup;
    constexpr uint32_t kAtOnce = AtOnce(kAll, kMost);
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
            const bool exists = kWhole || (y >= place.begin && y < place.end);
            halves[i][j].Load(at, exists ? count : 0);
          }
        }
        for (uint32_t i = 0; i < kAtOnce; ++i) {
          Word rows[kGroup], columns[kGroup];
          for (uint32_t j = 0; j < kGroup; ++j) rows[j] = halves[i][j].Whole();
          Transpose(rows, columns);
          for (uint32_t j = 0; j < kGroup; ++j) {
            shared->words[j][lane + k][first + i * kRows] =
                Normal(args, columns[j]);
          }
        }
      }
    }
  }

  // Stores the elements that exist of a word of the output, which begins with
  // element `y` of the tile's row.
  DEVRT_HOST_DEVICE static void StoreSome(const Place& place, char* to,
                                          uint32_t y, Word word) {
    DEVRT_NOT_UNROLLED
    for (uint32_t i = 0; i < kGroup; ++i) {
      if (y + i < place.begin || y + i >= place.end) continue;
      reinterpret_cast<T*>(to)[i] = static_cast<T>(word >> (i * sizeof(T) * 8));
    }
  }

  // Stores a row of the tile: `row` is where it begins in the output.
  DEVRT_HOST_DEVICE static void StoreRow(const Place& place, char* row,
                                         const Word* words, uint32_t lane) {
    // The bytes that the tile before stores.
    uint32_t skip = 0;
    if constexpr (kLead != 0) {
      skip = kTurnLead - static_cast<uint32_t>(
                             reinterpret_cast<uintptr_t>(row) % kTurnLead);
    }
    words += skip / sizeof(Word);
    DEVRT_UNROLLED
    for (uint32_t i = lane * kTogether; i < kStored;
         i += kTileLanes * kTogether) {
      Pack<Word, kTogether> pack;
      for (uint32_t k = 0; k < kTogether; ++k) {
        pack.items[k] = words[i + k];
        // The word behind it is there: a row has one more, and skips fewer than
        // kLead if they are not whole.
        if constexpr (kLead != 0 && kGroup != 1) {
          pack.items[k] =
              WordAcross(pack.items[k], words[i + k + 1], skip % sizeof(Word));
        }
      }
      char* const to = row + skip + i * sizeof(Word);
      const auto y = static_cast<uint32_t>(skip / sizeof(T)) + i * kGroup;
      if (y >= place.begin && y + kGroup * kTogether <= place.end) {
        *reinterpret_cast<Pack<Word, kTogether>*>(to) = pack;
        continue;
      }
      for (uint32_t k = 0; k < kTogether; ++k) {
        StoreSome(place, to + k * sizeof(Word), y + k * kGroup, pack.items[k]);
      }
    }
  }

  DEVRT_HOST_DEVICE static void Store(const TileArgs& args, const Place& place,
                                      uint32_t thread, const Shared& shared) {
    const uint32_t lane = thread % kTileLanes, row = thread / kTileLanes;
    // The rows of a thread have one number within their groups.
    const auto& words = shared.words[row % kGroup];
    char* to = place.out + row * args.out_x;
    const int64_t step = args.out_x * kRows;
    for (uint32_t x = row; x < place.width; x += kRows, to += step) {
      StoreRow(place, to, words[x / kGroup], lane);
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
    block.ForEachThread(
        [&](uint32_t thread) { Store(args, place, thread, *shared); });
  }

 private:
  // The largest number up to `most` that divides `all`.
  static constexpr uint32_t AtOnce(uint32_t all, uint32_t most) {
    while (all % most != 0) --most;
    return most;
  }
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_TURN_KERNEL_H_
