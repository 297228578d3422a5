// SPDX-License-Identifier: Apache-2.0
//
// Reductions<Api>: devrt.reduce/0.
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_GPU_REDUCE_H_
#define DEVRT_BACKENDS_GPU_REDUCE_H_

#include <atomic>
#include <cstdint>
#include <string>

#include "backends/gpu/driver.h"
#include "backends/gpu/kernels.h"
#include "backends/gpu/objects.h"
#include "backends/gpu/pack.h"
#include "backends/tensor/tensor.h"

namespace devrt::gpu {

template <class Api>
class Reductions {
 public:
  using Stream = gpu::Stream<Api>;

  Reductions(Driver<Api>* driver, Kernels<Api>* kernels)
      : driver_(*driver), kernels_(*kernels) {}
  Reductions(const Reductions&) = delete;
  Reductions& operator=(const Reductions&) = delete;

  // devrt.reduce/0 of the plugin whose class is `Backend`.
  template <class Backend>
  const devrt_reduce_v0* ReduceTable() const {
    static constexpr devrt_reduce_v0 kTable = {
        sizeof(devrt_reduce_v0), 0,
        plugin::Thunk<&Reductions::ReduceSupports, Backend>,
        plugin::Thunk<&Reductions::Reduce, Backend>};
    return &kTable;
  }

 private:
  using Tensors = typename LoadedKernels<Api>::Tensors;
  struct Chosen {
    typename Api::Function claim, run;
  };

  static Chosen Choose(const Tensors& tensors, const ReduceArgs& args);
  uint32_t LeaseOf(Stream* stream);
  devrt_status ReduceSupports(uint32_t op, uint32_t in_dtype,
                              uint32_t out_dtype, uint32_t* yes);
  devrt_status Reduce(devrt_stream stream, uint32_t op,
                      const devrt_tensor_v0* out, const devrt_tensor_v0* in,
                      uint32_t axes);

  Driver<Api>& driver_;
  Kernels<Api>& kernels_;
  std::atomic<uint32_t> last_ticket_{0};  // of the last reduction in parts
};

template <class Api>
devrt_status Reductions<Api>::ReduceSupports(uint32_t op, uint32_t in_dtype,
                                             uint32_t out_dtype,
                                             uint32_t* yes) {
  *yes = tensor::ReduceSupports(op, in_dtype, out_dtype) ? 1 : 0;
  return nullptr;
}

template <class Api>
devrt_status Reductions<Api>::Reduce(devrt_stream handle, uint32_t op,
                                     const devrt_tensor_v0* out,
                                     const devrt_tensor_v0* in, uint32_t axes) {
  Stream* const stream = Stream::Of(handle);
  tensor::Tensor to, from;
  std::string error;
  if (!tensor::CopyTensor(*out, "out", &to, &error) ||
      !tensor::CopyTensor(*in, "in", &from, &error) ||
      !tensor::CheckReduce(op, to, from, axes, &error)) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT, "reduce: %s", error.c_str());
  }
  if (to.elements == 0) return driver_.EarlierFault("reduce", stream->device);
  if (devrt_status failed = kernels_.LoadTensors(stream->device)) return failed;
  const auto& tensors = stream->device->kernels.tensors;
  if (from.elements == 0) {
    FillArgs fill;
    const unsigned blocks = PackNeutral(op, to, &fill);
    void* arguments[] = {&fill};
    return kernels_.Launch(stream, tensors.fill, blocks, kThreads, arguments);
  }
  ReduceArgs args;
  const unsigned blocks = PackReduce(op, to, from, axes, &args);
  const Chosen chosen = Choose(stream->device->kernels.tensors, args);
  if (args.parts > 1 && LeasesOf(args.kind) != 0) {
    const uint32_t lease = LeaseOf(stream);
    if (lease <= LeasesOf(args.kind)) args.lease = lease;
  }
  if (args.parts > 1 && args.lease == 0) {
    while (args.ticket == 0) args.ticket = ++last_ticket_;
    void* arguments[] = {&args.ticket};
    if (devrt_status failed =
            kernels_.Launch(stream, chosen.claim, 1, 1, arguments)) {
      return failed;
    }
  }
  void* arguments[] = {&args};
  return kernels_.Launch(stream, chosen.run, blocks, kThreads, arguments);
}

// Only the work of a stream that devrt made is in order for as long as the
// object lives, and a captured launch runs on other streams later.
template <class Api>
uint32_t Reductions<Api>::LeaseOf(Stream* stream) {
  if constexpr (Api::kHasCaptures) {
    const Api& api = driver_.api();
    bool is_capturing = true;
    if (stream->kind == DEVRT_STREAM_CREATE && api.CanTellCaptures() &&
        api.IsCapturing(stream->native, &is_capturing) == Api::kSuccess &&
        !is_capturing) {
      return stream->lease.Get(&stream->device->leases);
    }
  }
  return 0;
}

template <class Api>
auto Reductions<Api>::Choose(const Tensors& tensors, const ReduceArgs& args)
    -> Chosen {
  const size_t dtype = KernelIndex(args.in.dtype), fold = FoldIndex(args.op);
  switch (args.kind) {
    case ReduceKind::kAdjacent:
      return {tensors.adjacent.claim, tensors.adjacent.run[fold][dtype]};
    case ReduceKind::kShort:
      return {{}, tensors.adjacent.run_short[fold][dtype]};
    case ReduceKind::kColumns:
      return {tensors.columns.claim, tensors.columns.run[dtype]};
    default:
      return {tensors.reduce.claim, tensors.reduce.run[dtype]};
  }
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_REDUCE_H_
