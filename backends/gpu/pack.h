// SPDX-License-Identifier: Apache-2.0
//
// From checked tensors to the parameters of a launch.

#ifndef DEVRT_BACKENDS_GPU_PACK_H_
#define DEVRT_BACKENDS_GPU_PACK_H_

#include <cstddef>
#include <cstdint>

#include "backends/gpu/fast_paths.h"
#include "backends/gpu/tensor_args.h"
#include "backends/tensor/tensor.h"

namespace devrt::gpu {

// Where in kKernelDtypes, which has it.
size_t KernelIndex(uint32_t dtype);

// Each returns how many blocks to launch.  `out` has elements.
unsigned PackFill(const tensor::Tensor& out, const void* value, FillArgs* args);

// Where `fast` finds no path of its own for the call, `args` and `kernel` are
// set, to be launched with as many blocks as are returned.
unsigned PackApply(uint32_t op, const tensor::Tensor& out,
                   const tensor::TensorList& inputs, FastApply* fast,
                   ApplyArgs* args, uint32_t* kernel);

// By the general kernel: `*kernel` is the dtype whose apply kernel to launch, 0
// for devrt_convert.
unsigned PackApply(uint32_t op, const tensor::Tensor& out,
                   const tensor::TensorList& inputs, ApplyArgs* args,
                   uint32_t* kernel);

// How reductions share their work; benchmarks try others.
struct ReduceTuning {
  uint64_t blocks = 512;          // keep a device busy, of a reduce kernel
  uint64_t columns_blocks = 528;  // and of a columns kernel
  uint64_t across = 128;          // bytes of a row of its threads
};

// Reduces `in`, which has elements, over `axes`.  With args->parts > 1 a claim
// of the ticket, which is the caller's to fill in, must be launched before.
unsigned PackReduce(uint32_t op, const tensor::Tensor& out,
                    const tensor::Tensor& in, uint32_t axes, ReduceArgs* args,
                    const ReduceTuning& tuning = {});

// The reduction of no elements: a fill with its neutral value.
unsigned PackNeutral(uint32_t op, const tensor::Tensor& out, FillArgs* args);

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_PACK_H_
