// SPDX-License-Identifier: Apache-2.0
//
// Copies of rows of adjacent bytes that begin and end anywhere, as functions of
// a block's number.  Threads write packs of 16 aligned bytes.  What such a pack
// takes lies in two packs of the input, and is shifted into place.

#ifndef DEVRT_BACKENDS_GPU_SHIFT_KERNEL_H_
#define DEVRT_BACKENDS_GPU_SHIFT_KERNEL_H_

#include <cstdint>

#include "backends/gpu/device_code.h"
#include "backends/gpu/elements.h"
#include "backends/gpu/fast_args.h"
#include "backends/gpu/turn_kernel.h"

namespace devrt::gpu {

// One pack of the output, and where its bytes come from.
struct ShiftedPack {
  const char* from;    // of the pack's first byte
  char* to;            // aligned
  int32_t begin, end;  // the bytes of it that are in the row

  DEVRT_HOST_DEVICE ShiftedPack(const ShiftArgs& args, uint32_t unit) {
    uint32_t row = args.per_row.Divide(&unit);
    from = static_cast<const char*>(args.in);
    to = static_cast<char*>(args.out);
    const uint32_t last = args.axes - 1;
    DEVRT_NOT_UNROLLED
    for (uint32_t k = 0; k < args.axes; ++k) {
      const uint32_t rest = k < last ? args.extents[k].Divide(&row) : 0;
      from += static_cast<int64_t>(row) * args.strides[k][1];
      to += static_cast<int64_t>(row) * args.strides[k][0];
      row = rest;
    }
    const auto skip =
        static_cast<int32_t>(reinterpret_cast<uintptr_t>(to) % 16);
    const int64_t at = int64_t{unit} * 16 - skip;
    const int64_t left = static_cast<int64_t>(args.bytes) - at;
    begin = unit == 0 ? skip : 0;
    end = static_cast<int32_t>(left < 16 ? left : 16);
    from += at;
    to += at;
  }
};

// The two packs of the input.
struct ShiftedInput {
  uint32_t words[8];

  // Loads only packs that have bytes of the row.
  DEVRT_HOST_DEVICE void Load(const ShiftedPack& pack) {
    for (uint32_t& word : words) word = 0;
#if DEVRT_ON_DEVICE
    const auto shift =
        static_cast<int32_t>(reinterpret_cast<uintptr_t>(pack.from) % 16);
    const auto* const packs =
        reinterpret_cast<const Pack<uint32_t, 4>*>(pack.from - shift);
    const bool exists = pack.begin < pack.end;
    if (exists && pack.begin + shift < 16) CopyBytes(words, packs, 16);
    if (exists && pack.end + shift > 16) CopyBytes(words + 4, packs + 1, 16);
#else
    auto* const bytes = reinterpret_cast<char*>(words);
    for (int32_t i = pack.begin; i < pack.end; ++i) bytes[i] = pack.from[i];
#endif
  }

  DEVRT_HOST_DEVICE void Store(const ShiftedPack& pack) {
#if DEVRT_ON_DEVICE
    const auto shift =
        static_cast<uint32_t>(reinterpret_cast<uintptr_t>(pack.from) % 16);
    // By two words, one word, and bytes.
    for (int i = 0; i < 6; ++i) {
      words[i] = (shift & 8) != 0 ? words[i + 2] : words[i];
    }
    for (int i = 0; i < 5; ++i) {
      words[i] = (shift & 4) != 0 ? words[i + 1] : words[i];
    }
    for (int i = 0; i < 4; ++i) {
      words[i] = WordAcross(words[i], words[i + 1], shift % 4);
    }
#endif
    if (pack.begin == 0 && pack.end == 16) {
      Pack<uint32_t, 4> whole;
      CopyBytes(&whole, words, sizeof whole);
      *reinterpret_cast<Pack<uint32_t, 4>*>(pack.to) = whole;
      return;
    }
    if ((pack.begin | pack.end) % 4 == 0) {
      for (int i = 0; i < 4; ++i) {
        if (4 * i < pack.begin || 4 * i >= pack.end) continue;
        reinterpret_cast<uint32_t*>(pack.to)[i] = words[i];
      }
      return;
    }
    for (int i = 0; i < 16; ++i) {
      if (i < pack.begin || i >= pack.end) continue;
      pack.to[i] = static_cast<char>(words[i / 4] >> (i % 4 * 8));
    }
  }
};

// devrt_shift
template <int kUnits = kShiftUnits>
DEVRT_HOST_DEVICE void ShiftThread(const ShiftArgs& args, uint32_t tile,
                                   uint32_t thread) {
  const uint32_t first = tile * kThreads * kUnits + thread;
  ShiftedInput inputs[kUnits];
  DEVRT_UNROLLED
  for (uint32_t i = 0; i < kUnits; ++i) {
    const uint32_t unit = first + i * kThreads;
    if (unit < args.units) inputs[i].Load(ShiftedPack(args, unit));
  }
  DEVRT_UNROLLED
  for (uint32_t i = 0; i < kUnits; ++i) {
    const uint32_t unit = first + i * kThreads;
    if (unit < args.units) inputs[i].Store(ShiftedPack(args, unit));
  }
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_SHIFT_KERNEL_H_
