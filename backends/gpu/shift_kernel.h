// SPDX-License-Identifier: Apache-2.0
//
// Copies of rows of adjacent bytes that begin and end anywhere, as functions of
// a block's number.  Threads write packs of 16 aligned bytes.  What such a pack
// takes lies in two packs of the input, and is shifted into place, in one way
// for all packs of a row.

#ifndef DEVRT_BACKENDS_GPU_SHIFT_KERNEL_H_
#define DEVRT_BACKENDS_GPU_SHIFT_KERNEL_H_

#include <cstdint>

#include "backends/gpu/across.h"
#include "backends/gpu/device_code.h"
#include "backends/gpu/elements.h"
#include "backends/gpu/fast_args.h"

namespace devrt::gpu {

// Where a row begins.
struct ShiftedRow {
  const char* from;
  char* to;

  DEVRT_HOST_DEVICE ShiftedRow(const ShiftArgs& args, uint32_t row)
      : from(static_cast<const char*>(args.in)),
        to(static_cast<char*>(args.out)) {
    const uint32_t last = args.axes - 1;
    DEVRT_NOT_UNROLLED
    for (uint32_t k = 0; k < args.axes; ++k) {
      const uint32_t rest = k < last ? args.extents[k].Divide(&row) : 0;
      from += static_cast<int64_t>(row) * args.strides[k][1];
      to += static_cast<int64_t>(row) * args.strides[k][0];
      row = rest;
    }
  }
};

// What one pack of the output takes: bytes `begin` to `end` of it are in the
// row.  None are if `begin` is not less.
struct ShiftedPack {
  int32_t begin, end;
  uint32_t words[8];

  // `from` is where the pack's first byte comes from.  Loads only packs that
  // have bytes of the row.
  DEVRT_HOST_DEVICE void Load(const char* from) {
    for (uint32_t& word : words) word = 0;
#if DEVRT_ON_DEVICE
    const auto shift =
        static_cast<int32_t>(reinterpret_cast<uintptr_t>(from) % 16);
    const auto* const packs =
        reinterpret_cast<const Pack<uint32_t, 4>*>(from - shift);
    const bool exists = begin < end;
    if (exists && begin + shift < 16) CopyBytes(words, packs, 16);
    if (exists && end + shift > 16) CopyBytes(words + 4, packs + 1, 16);
#else
    auto* const bytes = reinterpret_cast<char*>(words);
    for (int32_t i = begin; i < end; ++i) bytes[i] = from[i];
#endif
  }

  DEVRT_HOST_DEVICE void Store(char* to) const {
    if (begin == 0 && end == 16) {
      Pack<uint32_t, 4> whole;
      CopyBytes(&whole, words, sizeof whole);
      *reinterpret_cast<Pack<uint32_t, 4>*>(to) = whole;
    } else if ((begin | end) % 4 == 0) {
      DEVRT_UNROLLED
      for (int i = 0; i < 4; ++i) {
        if (4 * i < begin || 4 * i >= end) continue;
        reinterpret_cast<uint32_t*>(to)[i] = words[i];
      }
    } else {
      DEVRT_UNROLLED
      for (int i = 0; i < 16; ++i) {
        if (i < begin || i >= end) continue;
        to[i] = static_cast<char>(words[i / 4] >> (i % 4 * 8));
      }
    }
  }
};

// devrt_shift: args.lanes threads of a block take up to kUnits packs each of a
// row.
template <int kUnits = kShiftUnits>
DEVRT_HOST_DEVICE void ShiftThread(const ShiftArgs& args, uint32_t block,
                                   uint32_t thread) {
  const uint32_t together = block * kThreads + thread;
  uint32_t lane = together & (args.lanes - 1);
  uint32_t chunk = together >> args.lane_bits;
  const uint32_t row_number = args.chunks.Divide(&chunk);
  if (row_number >= args.rows) return;
  lane += (chunk * kUnits) << args.lane_bits;
  const ShiftedRow row(args, row_number);
  const auto skip =
      static_cast<int32_t>(reinterpret_cast<uintptr_t>(row.to) % 16);
  const int64_t first = int64_t{lane} * 16 - skip;
  const int64_t step = int64_t{args.lanes} * 16;
  const int64_t left = static_cast<int64_t>(args.bytes) - first;
  ShiftedPack packs[kUnits];
  DEVRT_UNROLLED
  for (int i = 0; i < kUnits; ++i) {
    const int64_t rest = left - step * i;
    packs[i].begin = first + step * i < 0 ? skip : 0;
    packs[i].end = static_cast<int32_t>(rest < 16 ? rest : 16);
    if (rest < 0) packs[i].end = 0;
    packs[i].Load(row.from + first + step * i);
  }
#if DEVRT_ON_DEVICE
  const auto shift =
      static_cast<uint32_t>(reinterpret_cast<uintptr_t>(row.from + first) % 16);
#endif
  DEVRT_UNROLLED
  for (int i = 0; i < kUnits; ++i) {
    if (packs[i].begin >= packs[i].end) return;
#if DEVRT_ON_DEVICE
    MoveAcross<4>(packs[i].words, shift);
#endif
    packs[i].Store(row.to + first + step * i);
  }
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_SHIFT_KERNEL_H_
