// SPDX-License-Identifier: Apache-2.0

#include "streams/internal/stream_record.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"

namespace devrt::internal {

absl::Status ObtainHandle(StreamRecord* record, const char* call) {
  if (record->kind != StreamKind::kDefault) {
    return absl::InvalidArgumentError(absl::StrCat(
        call, " on a stream of ", DeviceName(record->device),
        " that another thread destroys: keep its Stream alive while it is "
        "used"));
  }
  if (InHostFunction()) {
    const std::string text =
        absl::StrCat(call, ", the first look at the default stream of ",
                     DeviceName(record->device), ",");
    return HostFunctionError(text.c_str());
  }
  devrt_stream_desc_v0 desc{};
  desc.struct_size = sizeof desc;
  desc.kind = DEVRT_STREAM_LEGACY;
  desc.flags = DEVRT_STREAM_BLOCKING;
  devrt_stream handle = nullptr;
  DeviceRecord* device = record->device;
  absl::Status status = FromPlugin(
      device,
      device->ops->stream_create(device->self, device->ordinal, &desc, &handle),
      "default stream");
  // Two threads that come here at once get one handle: the device has only one.
  if (!status.ok()) return status;
  record->timeline.load()->native().Attach(handle, nullptr, false, true);
  record->handle.store(handle, std::memory_order_release);
  return status;
}

}  // namespace devrt::internal
