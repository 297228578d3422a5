// SPDX-License-Identifier: Apache-2.0
//
// Runs an elementwise call's kernels over host memory, block by block.

#ifndef DEVRT_TESTS_GPU_RUN_APPLY_H_
#define DEVRT_TESTS_GPU_RUN_APPLY_H_

#include <memory>
#include <vector>

#include "backends/gpu/elementwise_kernel.h"
#include "backends/gpu/pack.h"
#include "backends/gpu/rows_kernel.h"
#include "backends/gpu/tile_kernel.h"
#include "backends/gpu/turn_kernel.h"

namespace devrt::gpu {

inline void RunGeneral(uint32_t op, const tensor::Tensor& out,
                       const std::vector<tensor::Tensor>& inputs) {
  ApplyArgs args;
  uint32_t kernel = 0;
  const unsigned blocks = PackApply(op, out, inputs, &args, &kernel);
  for (unsigned i = 0; i < blocks; ++i) {
    const Block block = {i, blocks};
    switch (kernel) {
#define DEVRT_KERNEL_DTYPE(name, dtype, type) \
  case dtype:                                 \
    ApplyBlock<type>(args, block);            \
    break;
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE
      default:
        ConvertBlock(args, block);
    }
  }
}

template <typename TheTile>
void RunTiles(const TileArgs& args, unsigned blocks) {
  const auto shared = std::make_unique<typename TheTile::Shared>();
  for (unsigned i = 0; i < blocks; ++i) {
    TheTile::Run(args, Block{i, blocks}, shared.get());
  }
}

inline void RunTiles(const FastApply& fast) {
  uint32_t kernel = 0;
#define DEVRT_KERNEL_TILE(name, type, side)              \
  if (kernel++ == fast.kernel) {                         \
    RunTiles<Tile<type, side>>(fast.tiles, fast.blocks); \
  }
#define DEVRT_KERNEL_TURN(name, type, x, y, rows)                        \
  if (kernel++ == fast.kernel) {                                         \
    RunTiles<Turn<type, x, y, TurnRows::rows>>(fast.tiles, fast.blocks); \
  }
#include "backends/gpu/kernel_tiles.inc"
#undef DEVRT_KERNEL_TURN
#undef DEVRT_KERNEL_TILE
}

inline void RunRows(const FastApply& fast) {
  for (unsigned i = 0; i < fast.blocks; ++i) {
    const Block block = {i, fast.blocks};
    switch (fast.kernel) {
#define DEVRT_KERNEL_DTYPE(name, dtype, type) \
  case dtype:                                 \
    RowsBlock<type>(fast.rows, block);        \
    break;
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE
    }
  }
}

inline void RunCast(const FastApply& fast) {
  for (unsigned i = 0; i < fast.blocks; ++i) {
    const Block block = {i, fast.blocks};
    switch (fast.kernel) {
#define DEVRT_REAL_DTYPES_ONLY
#define DEVRT_KERNEL_DTYPE(name, dtype, type) \
  case dtype:                                 \
    CastBlock<type>(fast.rows, block);        \
    break;
#include "backends/gpu/kernel_dtypes.inc"
#undef DEVRT_KERNEL_DTYPE
    }
  }
}

// Runs the operation by the path that PackApply chooses, and returns that path.
inline FastApply RunChosen(uint32_t op, const tensor::Tensor& out,
                           const std::vector<tensor::Tensor>& inputs) {
  FastApply fast;
  ApplyArgs args;
  uint32_t kernel = 0;
  (void)PackApply(op, out, inputs, &fast, &args, &kernel);
  switch (fast.path) {
    case FastApply::Path::kRows:
      RunRows(fast);
      break;
    case FastApply::Path::kCast:
      RunCast(fast);
      break;
    case FastApply::Path::kTiles:
      RunTiles(fast);
      break;
    case FastApply::Path::kBytes:
      for (unsigned i = 0; i < fast.blocks; ++i) {
        for (uint32_t t = 0; t < kThreads; ++t) BytesThread(fast.rows, i, t);
      }
      break;
    case FastApply::Path::kShift:
      for (unsigned i = 0; i < fast.blocks; ++i) {
        for (uint32_t t = 0; t < kThreads; ++t) ShiftThread(fast.rows, i, t);
      }
      break;
    default:
      RunGeneral(op, out, inputs);
  }
  return fast;
}

}  // namespace devrt::gpu

#endif  // DEVRT_TESTS_GPU_RUN_APPLY_H_
