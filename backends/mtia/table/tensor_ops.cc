// SPDX-License-Identifier: Apache-2.0
//
// devrt.elementwise/0 and devrt.reduce/0: the kernels of kernels.h, launched
// with the ranges of their tensors as declared accesses.
#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backends/mtia/kernels/kernels.h"
#include "backends/mtia/table/backend.h"
#include "backends/mtia/table/launch.h"
#include "devrt/backends/abi/devrt_plugin_helper.h"

namespace devrt::mtia {
namespace {

constexpr uint64_t kLargestElement = 16;

enum class Work { kFill, kApply, kReduce };

struct TensorKernel {
  Work work;
  uint32_t op = 0;
  uint32_t axes = 0;
  Tensor out;
  std::vector<Tensor> inputs;
  std::byte value[kLargestElement] = {};
};

std::byte* Local(const devrt_kernel_context_v0* context, const Tensor& tensor,
                 uint32_t mode) {
  auto* const first = static_cast<std::byte*>(tensor.data) + tensor.lo;
  void* const local = context->local(
      context, first, static_cast<uint64_t>(tensor.hi - tensor.lo), mode);
  // The kernels expect the local address of the element at `data`.
  return local == nullptr ? nullptr
                          : static_cast<std::byte*>(local) - tensor.lo;
}

void RunTensorKernel(void* arg, const devrt_kernel_context_v0* context) {
  const auto* const k = static_cast<const TensorKernel*>(arg);
  if (k->out.elements == 0) return;
  std::byte* const out = Local(context, k->out, DEVRT_ACCESS_WRITE);
  if (out == nullptr) return;
  std::vector<const std::byte*> inputs;
  for (const Tensor& tensor : k->inputs) {
    const std::byte* in = nullptr;
    if (tensor.hi > tensor.lo) {
      in = Local(context, tensor, DEVRT_ACCESS_READ);
      if (in == nullptr) return;
    }
    inputs.push_back(in);
  }
  switch (k->work) {
    case Work::kFill:
      RunFill(k->out, out, k->value);
      break;
    case Work::kApply:
      RunElementwise(k->op, k->out, out, k->inputs, inputs);
      break;
    case Work::kReduce:
      RunReduce(k->op, k->out, out, k->inputs[0], inputs[0], k->axes);
      break;
  }
}

void DestroyTensorKernel(void* arg) { delete static_cast<TensorKernel*>(arg); }

devrt_status SubmitTensorKernel(Slot slot, devrt_stream stream,
                                std::unique_ptr<TensorKernel> kernel,
                                const char* name) {
  std::vector<devrt_access_v0> accesses;
  const auto add = [&accesses](const Tensor& t, uint32_t mode) {
    if (t.hi > t.lo) {
      accesses.push_back({static_cast<std::byte*>(t.data) + t.lo,
                          static_cast<uint64_t>(t.hi - t.lo), mode, 0});
    }
  };
  add(kernel->out, DEVRT_ACCESS_READ | DEVRT_ACCESS_WRITE);
  for (const Tensor& t : kernel->inputs) add(t, DEVRT_ACCESS_READ);
  devrt_launch_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.access_count = static_cast<uint32_t>(accesses.size());
  desc.accesses = accesses.data();
  desc.name = name;
  desc.body = &RunTensorKernel;
  desc.destroy = &DestroyTensorKernel;
  desc.arg = kernel.get();
  Submission submission(slot, stream);
  if (!submission.ok()) return submission.error();
  if (kernel->out.elements == 0) return nullptr;
  devrt_status error = SubmitKernel(&submission, desc);
  if (error == nullptr) kernel.release();
  return error;
}

}  // namespace

devrt_status Backend::elementwise_supports(uint32_t op, uint32_t dtype,
                                           uint32_t* yes) {
  *yes = ElementwiseSupports(op, dtype) ? 1 : 0;
  return nullptr;
}

devrt_status Backend::elementwise_fill(devrt_stream stream,
                                       const devrt_tensor_v0* out,
                                       const void* value) {
  auto kernel = std::make_unique<TensorKernel>();
  kernel->work = Work::kFill;
  std::string error;
  if (!CopyTensor(*out, "out", &kernel->out, &error)) {
    return InvalidArgument("fill: " + error);
  }
  std::memcpy(kernel->value, value, DtypeSize(kernel->out.dtype));
  return SubmitTensorKernel(Slot::tensor_fill, stream, std::move(kernel),
                            "elementwise fill");
}

devrt_status Backend::elementwise_apply(devrt_stream stream, uint32_t op,
                                        const devrt_tensor_v0* out,
                                        const devrt_tensor_v0* inputs,
                                        uint32_t input_count) {
  auto kernel = std::make_unique<TensorKernel>();
  kernel->work = Work::kApply;
  kernel->op = op;
  std::string error;
  kernel->inputs.resize(std::min(input_count, tensor::kMostInputs));
  if (!tensor::CopyElementwise(op, *out, inputs, input_count, &kernel->out,
                               kernel->inputs.data(), &error)) {
    return InvalidArgument("apply: " + error);
  }
  return SubmitTensorKernel(Slot::tensor_apply, stream, std::move(kernel),
                            "elementwise apply");
}

devrt_status Backend::reduce_supports(uint32_t op, uint32_t in_dtype,
                                      uint32_t out_dtype, uint32_t* yes) {
  *yes = ReduceSupports(op, in_dtype, out_dtype) ? 1 : 0;
  return nullptr;
}

devrt_status Backend::reduce(devrt_stream stream, uint32_t op,
                             const devrt_tensor_v0* out,
                             const devrt_tensor_v0* in, uint32_t axes) {
  auto kernel = std::make_unique<TensorKernel>();
  kernel->work = Work::kReduce;
  kernel->op = op;
  kernel->axes = axes;
  kernel->inputs.resize(1);
  std::string error;
  if (!CopyTensor(*out, "out", &kernel->out, &error) ||
      !CopyTensor(*in, "in", &kernel->inputs[0], &error) ||
      !CheckReduce(op, kernel->out, kernel->inputs[0], axes, &error)) {
    return InvalidArgument("reduce: " + error);
  }
  return SubmitTensorKernel(Slot::tensor_reduce, stream, std::move(kernel),
                            "reduce");
}

const devrt_elementwise_v0 kElementwiseTable = {
    sizeof(devrt_elementwise_v0), 0,
    devrt::plugin::Thunk<&Backend::elementwise_supports>,
    devrt::plugin::Thunk<&Backend::elementwise_fill>,
    devrt::plugin::Thunk<&Backend::elementwise_apply>};
const devrt_reduce_v0 kReduceTable = {
    sizeof(devrt_reduce_v0), 0, devrt::plugin::Thunk<&Backend::reduce_supports>,
    devrt::plugin::Thunk<&Backend::reduce>};

}  // namespace devrt::mtia
