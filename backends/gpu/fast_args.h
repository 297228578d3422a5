// SPDX-License-Identifier: Apache-2.0
//
// The parameters of the kernels for frequent cases: devrt_rows_<dtype>,
// devrt_cast_<dtype> and devrt_tile_<bytes> read them.  They are small, because
// every launch passes them all, and spare the kernels divisions.

#ifndef DEVRT_BACKENDS_GPU_FAST_ARGS_H_
#define DEVRT_BACKENDS_GPU_FAST_ARGS_H_

#include <cstddef>
#include <cstdint>

#include "backends/gpu/tensor_args.h"
#include "backends/tensor/host_device.h"

namespace devrt::gpu {

// Dividends and divisors are below this.
inline constexpr uint64_t kDivisibleEnd = uint64_t{1} << 31;

// Division by multiplication (Granlund and Montgomery 1994).  With s =
// ceil(log2(d)) for the divisor d, n / d = floor(n * (1 + f / 2^32) / 2^s),
// where f = floor(2^32 * (2^s - d) / d) + 1.
struct Divisor {
  uint32_t number;
  uint32_t factor;
  uint32_t shift;

  static Divisor Of(uint64_t number) {
    uint32_t shift = 0;
    while ((uint64_t{1} << shift) < number) ++shift;
    const uint64_t rest = (uint64_t{1} << shift) - number;
    return {static_cast<uint32_t>(number),
            static_cast<uint32_t>((rest << 32) / number + 1), shift};
  }
  // Returns the quotient and leaves the remainder in `*n`.
  DEVRT_HOST_DEVICE uint32_t Divide(uint32_t* n) const {
    const auto high =
        static_cast<uint32_t>(static_cast<uint64_t>(*n) * factor >> 32);
    const uint32_t quotient = (high + *n) >> shift;
    *n -= quotient * number;
    return quotient;
  }
};

// The arguments of devrt_rows_<dtype> and devrt_cast_<dtype>.  Operand 0 is the
// output.  A unit is what one access moves: a pack of elements that are
// adjacent on the innermost axis, or one element.
struct RowsArgs {
  static constexpr int kOperands = 4;
  static constexpr uint32_t kMostAxes = 6;
  uint32_t op;
  uint32_t out_dtype;
  uint32_t units;      // below kDivisibleEnd; devrt_shift: the bytes of a row
  uint32_t is_packed;  // units are packs, aligned to min(size, 16)
  uint32_t is_same;    // bit k: operand k repeats one element
  uint32_t axes;       // at least 1; innermost first
  void* data[kOperands];
  Divisor extents[kMostAxes - 1];         // in units; without the last axis
  int64_t strides[kMostAxes][kOperands];  // bytes, from unit to unit

  DEVRT_HOST_DEVICE int64_t OffsetOf(uint32_t unit, int operand) const {
    int64_t offset = 0;
    const uint32_t last = axes - 1;
    for (uint32_t k = 0; k < last; ++k) {
      const uint32_t rest = extents[k].Divide(&unit);
      offset += static_cast<int64_t>(unit) * strides[k][operand];
      unit = rest;
    }
    return offset + static_cast<int64_t>(unit) * strides[last][operand];
  }
};

// The offsets of every `kStep`-th unit of the first kCount operands.
template <int kCount, uint32_t kStep>
struct RowsCursor {
  uint32_t unit;
  uint32_t inner;  // on the innermost axis
  int64_t offsets[kCount];

  DEVRT_HOST_DEVICE RowsCursor(const RowsArgs& args, uint32_t first) {
    Locate(args, first);
  }
  DEVRT_HOST_DEVICE void Advance(const RowsArgs& args) {
    inner += kStep;
    if (args.axes > 1 && inner >= args.extents[0].number) {
      return Locate(args, unit + kStep);
    }
    unit += kStep;
    for (int i = 0; i < kCount; ++i) {
      offsets[i] += args.strides[0][i] * int64_t{kStep};
    }
  }

 private:
  DEVRT_HOST_DEVICE void Locate(const RowsArgs& args, uint32_t at) {
    unit = at;
    inner = at;
    for (int i = 0; i < kCount; ++i) offsets[i] = 0;
    const uint32_t last = args.axes - 1;
#if defined(__CUDA_ARCH__) || defined(__HIP_DEVICE_COMPILE__)
#pragma unroll 1
#endif
    for (uint32_t k = 0; k < last; ++k) {
      const uint32_t rest = args.extents[k].Divide(&at);
      if (k == 0) inner = at;
      for (int i = 0; i < kCount; ++i) {
        offsets[i] += static_cast<int64_t>(at) * args.strides[k][i];
      }
      at = rest;
    }
    for (int i = 0; i < kCount; ++i) {
      offsets[i] += static_cast<int64_t>(at) * args.strides[last][i];
    }
  }
};

// Where the rows of a transpose's output begin and end.
enum class TurnRows {
  kAny,    // anywhere
  kWhole,  // at multiples of 32 bytes
};

// The arguments of devrt_tile_<bytes> and devrt_turn_<bytes>, a copy whose
// input is adjacent on one axis, x, and whose output is adjacent on another, y.
struct TileArgs {
  static constexpr uint32_t kMostBatchAxes = 4;
  uint32_t extent_x, extent_y;
  uint32_t tiles;            // below kDivisibleEnd
  uint32_t is_bool;          // bytes become 0 or 1
  Divisor tiles_x, tiles_y;  // of one matrix
  uint32_t batch_axes;
  Divisor batch[kMostBatchAxes];
  int64_t batch_strides[kMostBatchAxes][2];  // of in, then out
  const void* in;
  void* out;
  int64_t in_x, in_y;  // bytes from element to element
  int64_t out_x, out_y;
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_FAST_ARGS_H_
