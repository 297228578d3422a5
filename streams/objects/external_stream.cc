// SPDX-License-Identifier: Apache-2.0

#include "devrt/streams/external_stream.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "runtime/common/text.h"
#include "runtime/registry/records.h"

namespace devrt {

namespace {

constexpr const char kCuda[] = "cuda";
constexpr const char kHip[] = "hip";

// Returns true if 0 names a default stream.  1 and 2 do so on cuda only.
bool HasNullStream(const Backend& backend) {
  return backend.name() == kCuda || backend.name() == kHip;
}

absl::StatusOr<Backend> BackendFor(const AdoptOptions& options) {
  if (options.device.has_value()) return options.device->backend();
  if (!options.backend.empty()) return GetBackend(options.backend);
  const auto opened = internal::OpenedBackends();
  for (internal::BackendRecord* record : opened) {
    if (record->name == kCuda) return internal::BackendRecord::Wrap(record);
  }
  if (opened.size() == 1) return internal::BackendRecord::Wrap(opened[0]);
  return GetBackend(kCuda);
}

absl::StatusOr<ExternalStream> DefaultStreamOf(int64_t handle,
                                               const Backend& backend,
                                               std::optional<Device> device) {
  if (!device.has_value()) {
    DEVRT_ASSIGN_OR_RETURN(device, CurrentDevice(backend));
  }
  if (handle != 0 && backend.name() != kCuda) {
    return absl::InvalidArgumentError(absl::StrCat(
        "native stream ", handle, " names a default stream on cuda only, and ",
        device->name(), " is of another backend: pass 0 or a created stream"));
  }
  if (handle < 2) return ExternalStream(DefaultStream(*device));
  DEVRT_ASSIGN_OR_RETURN(StreamRef own, PerThreadDefaultStream(*device));
  return ExternalStream(own);
}

// Finds the device: the backend lets only that device adopt the stream.
absl::StatusOr<ExternalStream> Discover(void* native, const Backend& backend,
                                        std::shared_ptr<void> owner) {
  const std::vector<Device> devices = backend.devices();
  std::optional<Stream> found;
  absl::Status refused = absl::InvalidArgumentError(
      absl::StrCat("backend \"", backend.name(), "\" has no devices"));
  for (Device device : devices) {
    absl::StatusOr<Stream> adopted = Stream::FromNative(device, native, owner);
    if (!adopted.ok()) {
      if (!absl::IsInvalidArgument(adopted.status())) return adopted.status();
      refused = adopted.status();
      continue;
    }
    if (found.has_value()) {
      return absl::UnimplementedError(absl::StrCat(
          "backend \"", backend.name(),
          "\" cannot tell which device a native stream belongs to: both ",
          found->device().name(), " and ", device.name(),
          " take it; name the device"));
    }
    found = *std::move(adopted);
  }
  if (!found.has_value()) return refused;
  return ExternalStream(*std::move(found));
}

}  // namespace

absl::StatusOr<ExternalStream> AdoptNativeStream(int64_t handle,
                                                 AdoptOptions options) {
  if (handle < 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "native stream ", handle, ": a stream's handle is not negative"));
  }
  DEVRT_ASSIGN_OR_RETURN(const Backend backend, BackendFor(options));
  if (handle == 0 || (HasNullStream(backend) && handle <= 2)) {
    return DefaultStreamOf(handle, backend, options.device);
  }
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the protocol passes numbers
  void* const native = reinterpret_cast<void*>(static_cast<uintptr_t>(handle));
  if (!options.device.has_value()) {
    return Discover(native, backend, std::move(options.owner));
  }
  DEVRT_ASSIGN_OR_RETURN(
      Stream adopted,
      Stream::FromNative(*options.device, native, std::move(options.owner)));
  return ExternalStream(std::move(adopted));
}

absl::StatusOr<CudaStreamHandle> GetCudaStream(StreamRef stream) {
  const std::string& backend = stream.device().backend().name();
  if (backend != kCuda) {
    return absl::UnimplementedError(absl::StrCat(
        "streams of ", stream.device().name(),
        " have no __cuda_stream__: they are of backend \"", backend, "\""));
  }
  CudaStreamHandle answer;
  switch (stream.kind()) {
    case StreamKind::kDefault:
      answer.handle = 1;
      break;
    case StreamKind::kPerThread:
      answer.handle = 2;
      break;
    default: {
      DEVRT_ASSIGN_OR_RETURN(void* const native, stream.Native());
      answer.handle = reinterpret_cast<uintptr_t>(native);
    }
  }
  return answer;
}

}  // namespace devrt
