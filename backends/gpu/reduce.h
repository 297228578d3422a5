// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: devrt.reduce/0.

#ifndef DEVRT_BACKENDS_GPU_REDUCE_H_
#define DEVRT_BACKENDS_GPU_REDUCE_H_

#include <string>

#include "backends/gpu/backend.h"
#include "backends/gpu/pack.h"
#include "backends/tensor/tensor.h"

namespace devrt::gpu {

template <class Api>
devrt_status Backend<Api>::ReduceSupports(uint32_t op, uint32_t in_dtype,
                                          uint32_t out_dtype, uint32_t* yes) {
  *yes = tensor::ReduceSupports(op, in_dtype, out_dtype) ? 1 : 0;
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::Reduce(devrt_stream handle, uint32_t op,
                                  const devrt_tensor_v0* out,
                                  const devrt_tensor_v0* in, uint32_t axes) {
  Stream* const stream = Of(handle);
  tensor::Tensor to, from;
  std::string error;
  if (!tensor::CopyTensor(*out, "out", &to, &error) ||
      !tensor::CopyTensor(*in, "in", &from, &error) ||
      !tensor::CheckReduce(op, to, from, axes, &error)) {
    return Refuse(DEVRT_INVALID_ARGUMENT, "reduce: %s", error.c_str());
  }
  if (to.elements == 0) return Fault("reduce", stream->device);
  if (devrt_status failed = LoadTensors(stream->device)) return failed;
  const auto& tensors = stream->device->tensors;
  if (from.elements == 0) {
    FillArgs fill;
    const unsigned blocks = PackNeutral(op, to, &fill);
    void* arguments[] = {&fill};
    return Launch(stream, tensors.fill, blocks, kThreads, arguments);
  }
  ReduceArgs args;
  const unsigned blocks = PackReduce(op, to, from, axes, &args);
  const auto& kernels =
      args.columns_pack != 0 ? tensors.columns : tensors.reduce;
  if (args.parts > 1) {
    while (args.ticket == 0) args.ticket = ++last_ticket_;
    void* arguments[] = {&args.ticket};
    if (devrt_status failed = Launch(stream, kernels.claim, 1, 1, arguments)) {
      return failed;
    }
  }
  void* arguments[] = {&args};
  return Launch(stream, kernels.run[KernelIndex(from.dtype)], blocks, kThreads,
                arguments);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_REDUCE_H_
