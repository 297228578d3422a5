// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: devrt.elementwise/0.

#ifndef DEVRT_BACKENDS_GPU_ELEMENTWISE_H_
#define DEVRT_BACKENDS_GPU_ELEMENTWISE_H_

#include <string>

#include "backends/gpu/backend.h"
#include "backends/gpu/pack.h"
#include "backends/tensor/tensor.h"

namespace devrt::gpu {

template <class Api>
devrt_status Backend<Api>::ElementwiseSupports(uint32_t op, uint32_t dtype,
                                               uint32_t* yes) {
  *yes = tensor::ElementwiseSupports(op, dtype) ? 1 : 0;
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::ElementwiseFill(devrt_stream handle,
                                           const devrt_tensor_v0* out,
                                           const void* value) {
  Stream* const stream = Of(handle);
  tensor::Tensor copy;
  std::string error;
  if (!tensor::CopyTensor(*out, "out", &copy, &error)) {
    return Refuse(DEVRT_INVALID_ARGUMENT, "fill: %s", error.c_str());
  }
  if (copy.elements == 0) return Fault("fill", stream->device);
  if (devrt_status failed = LoadTensors(stream->device)) return failed;
  FillArgs args;
  const unsigned blocks = PackFill(copy, value, &args);
  void* arguments[] = {&args};
  return Launch(stream, stream->device->tensors.fill, blocks, kThreads,
                arguments);
}

template <class Api>
devrt_status Backend<Api>::ElementwiseApply(devrt_stream handle, uint32_t op,
                                            const devrt_tensor_v0* out,
                                            const devrt_tensor_v0* inputs,
                                            uint32_t input_count) {
  Stream* const stream = Of(handle);
  tensor::Tensor out_copy, input_copies[tensor::kMostInputs];
  std::string error;
  if (!tensor::CopyElementwise(op, *out, inputs, input_count, &out_copy,
                               input_copies, &error)) {
    return Refuse(DEVRT_INVALID_ARGUMENT, "apply: %s", error.c_str());
  }
  if (out_copy.elements == 0) return Fault("apply", stream->device);
  if (devrt_status failed = LoadTensors(stream->device)) return failed;
  FastApply fast;
  ApplyArgs args;
  uint32_t kernel = 0;
  const unsigned blocks = PackApply(op, out_copy, {input_copies, input_count},
                                    &fast, &args, &kernel);
  const auto& tensors = stream->device->tensors;
  const auto launch = [&](typename Api::Function function, void* arguments) {
    return Launch(stream, function, blocks, kThreads, &arguments);
  };
  switch (fast.path) {
    case FastApply::Path::kRows:
      return launch(tensors.rows[KernelIndex(fast.kernel)], &fast.rows);
    case FastApply::Path::kCast:
      return launch(tensors.cast[KernelIndex(fast.kernel)], &fast.rows);
    case FastApply::Path::kTiles:
      return launch(tensors.tiles[fast.kernel], &fast.tiles);
    default:
      return launch(
          kernel == 0 ? tensors.convert : tensors.apply[KernelIndex(kernel)],
          &args);
  }
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_ELEMENTWISE_H_
