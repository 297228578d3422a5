// SPDX-License-Identifier: Apache-2.0
//
// Turns checked tensors into the parameters of a launch.

#ifndef DEVRT_BACKENDS_GPU_PACK_H_
#define DEVRT_BACKENDS_GPU_PACK_H_

#include <cstddef>
#include <cstdint>

#include "backends/gpu/fast_paths.h"
#include "backends/gpu/tensor_args.h"
#include "backends/tensor/tensor.h"

namespace devrt::gpu {

// Returns the index of the dtype in kKernelDtypes, which must list it.
size_t KernelIndex(uint32_t dtype);

// The functions return the number of blocks to launch.  `out` must have
// elements.
unsigned PackFill(const tensor::Tensor& out, const void* value, FillArgs* args);

// If `fast` finds no fast path, sets `args` and `kernel` for a launch with the
// returned number of blocks.
unsigned PackApply(uint32_t op, const tensor::Tensor& out,
                   const tensor::TensorList& inputs, FastApply* fast,
                   ApplyArgs* args, uint32_t* kernel);

// PackApply for a call whose tensors are all C-contiguous and of one shape,
// without copies of their descriptors, which it checks.  Returns 0 for every
// other call: those without elements, and those that are refused.
unsigned PackFlat(uint32_t op, const devrt_tensor_v0& out,
                  const devrt_tensor_v0* inputs, uint32_t input_count,
                  FastApply* fast);

// Packs for the general kernel.  `*kernel` is the dtype of the apply kernel, or
// 0 for devrt_convert.
unsigned PackApply(uint32_t op, const tensor::Tensor& out,
                   const tensor::TensorList& inputs, ApplyArgs* args,
                   uint32_t* kernel);

// How reductions share their work.  Benchmarks try other values.
struct ReduceTuning {
  uint64_t blocks = 512;  // enough for a reduce kernel to keep a device busy
  uint64_t adjacent_blocks = 528;        // enough for an adjacent kernel
  uint64_t adjacent_float_blocks = 396;  // enough for one of sums of floats
  uint64_t lane_bytes = 128;  // of one result that are worth a lane of it
  uint64_t short_rows = kShortRows;
  uint64_t columns_blocks = 264;  // enough for a columns kernel
  uint64_t across = 256;  // bytes of a row of threads of a columns kernel
};

// Packs a reduction of `in`, which has elements, over `axes`.  With args->parts
// > 1 the caller must set args->ticket, and must first launch the kernel that
// claims a slot for that ticket (devrt_reduce_claim or devrt_columns_claim).
unsigned PackReduce(uint32_t op, const tensor::Tensor& out,
                    const tensor::Tensor& in, uint32_t axes, ReduceArgs* args,
                    const ReduceTuning& tuning = {});

// Packs the reduction of no elements, a fill with the neutral value.
unsigned PackNeutral(uint32_t op, const tensor::Tensor& out, FillArgs* args);

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_PACK_H_
