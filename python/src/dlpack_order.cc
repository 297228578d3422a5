// SPDX-License-Identifier: Apache-2.0

#include "python/src/dlpack_order.h"

#include <cstdint>

#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"
#include "devrt/streams/stream.h"
#include "python/src/dlpack.h"
#include "python/src/gil.h"

namespace devrt::python {

std::optional<Device> FindDevice(DLDevice device) {
  const std::optional<Device> known = KnownDLPackDevice(device);
  if (known.has_value()) return known;
  return WithoutLock([&] { return FindDLPackDevice(device); });
}

std::optional<Device> DeviceOfData(const DLTensor& tensor, DLDevice named,
                                   Device asked) {
  if (tensor.device.device_type == kDLCUDAManaged) {
    if (tensor.data == nullptr) return asked;
    const uintptr_t at =
        reinterpret_cast<uintptr_t>(tensor.data) + tensor.byte_offset;
    const absl::StatusOr<PointerInfo> info = WithoutLock([at] {
      // NOLINTNEXTLINE(performance-no-int-to-ptr): the sum may be anything
      return GetPointerInfo(reinterpret_cast<const void*>(at));
    });
    return info.ok() ? info->device : std::nullopt;
  }
  const bool as_named = tensor.device.device_type == named.device_type &&
                        tensor.device.device_id == named.device_id;
  return as_named ? asked : FindDevice(tensor.device);
}

absl::Status OrderData(std::optional<Device> data, Device asked,
                       CallSite site) {
  if (!data.has_value() || *data == asked) return absl::OkStatus();
  return CurrentStream(*data).Wait(CurrentStream(asked), site);
}

absl::Status OrderAfterWork(const WorkStream& work, CallSite site) {
  if (!work.device.has_value()) return absl::OkStatus();
  const StreamRef asked = CurrentStream(*work.device);
  if (!work.data.has_value() || work.data == work.device) {
    return OrderAfterNative(asked, work.native, site);
  }
  // A handle belongs to one of the two devices, and the attempt shows to which.
  // Null is a default stream, which each device has, so it counts as a stream
  // of the producer's device.
  const absl::Status status =
      OrderAfterNative(CurrentStream(*work.data), work.native, site);
  if (status.ok() == (work.native != nullptr)) return status;
  DEVRT_RETURN_IF_ERROR(OrderAfterNative(asked, work.native, site));
  return OrderData(work.data, *work.device, site);
}

}  // namespace devrt::python
