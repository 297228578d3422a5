// SPDX-License-Identifier: Apache-2.0
//
// Elementwise<Api>: devrt.elementwise/0.
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_GPU_ELEMENTWISE_H_
#define DEVRT_BACKENDS_GPU_ELEMENTWISE_H_

#include <cstdint>
#include <string>

#include "backends/gpu/driver.h"
#include "backends/gpu/kernels.h"
#include "backends/gpu/objects.h"
#include "backends/gpu/pack.h"
#include "backends/tensor/tensor.h"

namespace devrt::gpu {

template <class Api>
class Elementwise {
 public:
  using Stream = gpu::Stream<Api>;

  Elementwise(Driver<Api>* driver, Kernels<Api>* kernels)
      : driver_(*driver), kernels_(*kernels) {}
  Elementwise(const Elementwise&) = delete;
  Elementwise& operator=(const Elementwise&) = delete;

  // devrt.elementwise/0 of the plugin whose class is `Backend`.
  template <class Backend>
  const devrt_elementwise_v0* ElementwiseTable() const {
    static constexpr devrt_elementwise_v0 kTable = {
        sizeof(devrt_elementwise_v0), 0,
        plugin::Thunk<&Elementwise::ElementwiseSupports, Backend>,
        plugin::Thunk<&Elementwise::ElementwiseFill, Backend>,
        plugin::Thunk<&Elementwise::ElementwiseApply, Backend>};
    return &kTable;
  }

 private:
  devrt_status ElementwiseSupports(uint32_t op, uint32_t dtype, uint32_t* yes);
  devrt_status ElementwiseFill(devrt_stream stream, const devrt_tensor_v0* out,
                               const void* value);
  devrt_status ElementwiseApply(devrt_stream stream, uint32_t op,
                                const devrt_tensor_v0* out,
                                const devrt_tensor_v0* inputs,
                                uint32_t input_count);

  // ElementwiseApply for tensors of any layout, and for what is refused.
  [[gnu::noinline]] devrt_status ApplyAny(Stream* stream, uint32_t op,
                                          const devrt_tensor_v0& out,
                                          const devrt_tensor_v0* inputs,
                                          uint32_t input_count);
  devrt_status LaunchFast(Stream* stream, FastApply* fast);

  Driver<Api>& driver_;
  Kernels<Api>& kernels_;
};

template <class Api>
devrt_status Elementwise<Api>::ElementwiseSupports(uint32_t op, uint32_t dtype,
                                                   uint32_t* yes) {
  *yes = tensor::ElementwiseSupports(op, dtype) ? 1 : 0;
  return nullptr;
}

template <class Api>
devrt_status Elementwise<Api>::ElementwiseFill(devrt_stream handle,
                                               const devrt_tensor_v0* out,
                                               const void* value) {
  Stream* const stream = Stream::Of(handle);
  tensor::Tensor copy;
  std::string error;
  if (!tensor::CopyTensor(*out, "out", &copy, &error)) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT, "fill: %s", error.c_str());
  }
  if (copy.elements == 0) return driver_.EarlierFault("fill", stream->device);
  if (devrt_status failed = kernels_.LoadTensors(stream->device)) return failed;
  FillArgs args;
  const unsigned blocks = PackFill(copy, value, &args);
  void* arguments[] = {&args};
  return kernels_.Launch(stream, stream->device->kernels.tensors.fill, blocks,
                         kThreads, arguments);
}

template <class Api>
devrt_status Elementwise<Api>::ElementwiseApply(devrt_stream handle,
                                                uint32_t op,
                                                const devrt_tensor_v0* out,
                                                const devrt_tensor_v0* inputs,
                                                uint32_t input_count) {
  Stream* const stream = Stream::Of(handle);
  FastApply fast;
  if (PackFlat(op, *out, inputs, input_count, &fast) == 0) {
    return ApplyAny(stream, op, *out, inputs, input_count);
  }
  if (devrt_status failed = kernels_.LoadTensors(stream->device)) return failed;
  return LaunchFast(stream, &fast);
}

template <class Api>
devrt_status Elementwise<Api>::LaunchFast(Stream* stream, FastApply* fast) {
  const auto& tensors = stream->device->kernels.tensors;
  const auto launch = [&](typename Api::Function function, void* arguments) {
    return kernels_.Launch(stream, function, fast->blocks, kThreads,
                           &arguments);
  };
  switch (fast->path) {
    case FastApply::Path::kCast:
      return launch(tensors.cast[KernelIndex(fast->kernel)], &fast->rows);
    case FastApply::Path::kTiles:
      return launch(tensors.tiles[fast->kernel], &fast->tiles);
    case FastApply::Path::kBytes:
      return launch(tensors.bytes, &fast->rows);
    case FastApply::Path::kShift:
      return launch(tensors.shift, &fast->rows);
    default:
      return launch(tensors.rows[KernelIndex(fast->kernel)], &fast->rows);
  }
}

template <class Api>
devrt_status Elementwise<Api>::ApplyAny(Stream* stream, uint32_t op,
                                        const devrt_tensor_v0& out,
                                        const devrt_tensor_v0* inputs,
                                        uint32_t input_count) {
  tensor::Tensor out_copy, input_copies[tensor::kMostInputs];
  std::string error;
  if (!tensor::CopyElementwise(op, out, inputs, input_count, &out_copy,
                               input_copies, &error)) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT, "apply: %s", error.c_str());
  }
  if (out_copy.elements == 0)
    return driver_.EarlierFault("apply", stream->device);
  if (devrt_status failed = kernels_.LoadTensors(stream->device)) return failed;
  FastApply fast;
  ApplyArgs args;
  uint32_t kernel = 0;
  const unsigned blocks = PackApply(op, out_copy, {input_copies, input_count},
                                    &fast, &args, &kernel);
  if (fast.path != FastApply::Path::kNone) return LaunchFast(stream, &fast);
  const auto& tensors = stream->device->kernels.tensors;
  void* arguments[] = {&args};
  return kernels_.Launch(
      stream,
      kernel == 0 ? tensors.convert : tensors.apply[KernelIndex(kernel)],
      blocks, kThreads, arguments);
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_ELEMENTWISE_H_
