// SPDX-License-Identifier: Apache-2.0

#include "arrays/core/kernels.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/backend.h"
#include "streams/objects/device_streams.h"

namespace devrt::internal {
namespace {

DeviceStreams* StreamsOf(Device device) {
  return DeviceStreams::Of(device.record());
}

absl::Status Missing(Device device, const char* operation,
                     const char* extension) {
  return absl::UnimplementedError(absl::StrCat(
      operation, ": backend \"", device.backend().name(), "\" of ",
      device.name(), " has no \"", extension,
      "\", so that its devices cannot compute; copy the arrays to a device of "
      "another backend with To(device)"));
}

}  // namespace

bool HasElementwise(Device device) {
  return StreamsOf(device)->elementwise.table != nullptr;
}

bool HasReduce(Device device) {
  return StreamsOf(device)->reduce.table != nullptr;
}

absl::Status CheckElementwise(Device device, const char* operation) {
  if (HasElementwise(device)) return absl::OkStatus();
  return Missing(device, operation, DEVRT_ELEMENTWISE_EXTENSION);
}

absl::Status CheckReduce(Device device, const char* operation) {
  if (HasReduce(device)) return absl::OkStatus();
  return Missing(device, operation, DEVRT_REDUCE_EXTENSION);
}

// The error of a kernel.  If the backend has no such kernel for the dtype the
// text says so, with the remedy.
absl::Status Kernels::Explain(absl::Status error, const devrt_tensor_v0& in,
                              uint32_t supported) const {
  if (supported != 0) return error;
  const absl::StatusOr<DType> dtype =
      DType::FromDLPack(static_cast<uint8_t>(in.dtype >> 8),
                        static_cast<uint8_t>(in.dtype & 0xff));
  const Device device(target_.device);
  return absl::UnimplementedError(absl::StrCat(
      operation_, ": backend \"", device.backend().name(),
      "\" has no such kernel for ", dtype.ok() ? dtype->name() : "that dtype",
      "; Cast to another dtype first"));
}

absl::Status Kernels::Fill(const devrt_tensor_v0& out, const void* element) {
  const auto& extension = DeviceStreams::Of(target_.device)->elementwise;
  if (ABSL_PREDICT_FALSE(extension.table == nullptr)) {
    return CheckElementwise(Device(target_.device), operation_);
  }
  absl::Status status = FromPlugin(
      target_.device,
      extension.table->fill(extension.self, target_.handle, &out, element),
      operation_);
  target_.MarkDirty();
  return status;
}

absl::Status Kernels::Apply(uint32_t op, const devrt_tensor_v0& out,
                            const devrt_tensor_v0* inputs, size_t count) {
  const auto& extension = DeviceStreams::Of(target_.device)->elementwise;
  if (ABSL_PREDICT_FALSE(extension.table == nullptr)) {
    return CheckElementwise(Device(target_.device), operation_);
  }
  absl::Status status = FromPlugin(
      target_.device,
      extension.table->apply(extension.self, target_.handle, op, &out, inputs,
                             static_cast<uint32_t>(count)),
      operation_);
  target_.MarkDirty();
  if (ABSL_PREDICT_TRUE(status.ok())) return status;
  uint32_t supported = 1;
  FromPlugin(target_.device,
             extension.table->supports(extension.self, op,
                                       inputs[count - 1].dtype, &supported),
             operation_)
      .IgnoreError();
  return Explain(std::move(status), inputs[count - 1], supported);
}

absl::Status Kernels::Reduce(uint32_t op, const devrt_tensor_v0& out,
                             const devrt_tensor_v0& in, uint32_t axes) {
  const auto& extension = DeviceStreams::Of(target_.device)->reduce;
  if (ABSL_PREDICT_FALSE(extension.table == nullptr)) {
    return CheckReduce(Device(target_.device), operation_);
  }
  absl::Status status =
      FromPlugin(target_.device,
                 extension.table->reduce(extension.self, target_.handle, op,
                                         &out, &in, axes),
                 operation_);
  target_.MarkDirty();
  if (ABSL_PREDICT_TRUE(status.ok())) return status;
  uint32_t supported = 1;
  FromPlugin(target_.device,
             extension.table->supports(extension.self, op, in.dtype, out.dtype,
                                       &supported),
             operation_)
      .IgnoreError();
  return Explain(std::move(status), in, supported);
}

}  // namespace devrt::internal
