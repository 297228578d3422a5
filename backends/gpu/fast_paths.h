// SPDX-License-Identifier: Apache-2.0
//
// Chooses the elementwise launches that have a kernel of their own, faster than
// the general one, and their parameters.

#ifndef DEVRT_BACKENDS_GPU_FAST_PATHS_H_
#define DEVRT_BACKENDS_GPU_FAST_PATHS_H_

#include <cstdint>

#include "backends/gpu/fast_args.h"
#include "backends/gpu/tensor_args.h"

namespace devrt::gpu {

// The kernels of kernel_tiles.inc: for elements of `item` bytes, in tiles of
// that many elements.
struct TileKernel {
  const char* name;
  uint32_t item, side_x, side_y;
  uint32_t lead;  // elements on y that a tile may leave to the one behind it
  bool is_turn;   // devrt_turn_<name>, else devrt_tile_<name>
  TurnRows rows;  // of devrt_turn_<name>
};
extern const TileKernel kTileKernels[kTileKernelCount];

struct FastApply {
  enum class Path {
    kNone,   // the general kernel
    kRows,   // devrt_rows_<dtype>
    kCast,   // devrt_cast_<dtype>
    kTiles,  // devrt_tile_<bytes> and devrt_turn_<bytes>
    kBytes,  // devrt_bytes
    kShift,  // devrt_shift
  };
  Path path = Path::kNone;
  uint32_t kernel = 0;  // a dtype, or the index in kernel_tiles.inc
  unsigned blocks = 0;
  RowsArgs rows;   // for kRows, kCast, kBytes and kShift
  TileArgs tiles;  // for kTiles
};

// Chooses for `op` on `walk`, which has `count` operands.  Operand 0 is the
// output.
void ChooseFast(uint32_t op, const Walk<ApplyArgs::kOperands>& walk,
                const Operand* operands, int count, FastApply* fast);

// ChooseFast for tensors that are all C-contiguous and of one shape, with so
// many elements, and for all operations but copies.
void ChooseFlat(uint32_t op, uint64_t elements,
                const devrt_tensor_v0* const* tensors, int count,
                FastApply* fast);

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_FAST_PATHS_H_
