// SPDX-License-Identifier: Apache-2.0
//
// GetPointerInfo of devrt/runtime/raw_memory.h.

#include <algorithm>
#include <optional>
#include <string>

#include "devrt/runtime/log.h"
#include "devrt/runtime/raw_memory.h"
#include "runtime/common/text.h"
#include "runtime/raw_memory/allocation_table.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/records.h"

namespace devrt {
namespace {

using internal::AllocationRange;
using internal::BackendRecord;
using internal::DeviceRecord;

// A device for calls to the backend, which also gets the blame for an error;
// nullptr if all devices are closed.
DeviceRecord* OpenDevice(const BackendRecord& backend) {
  const auto found = std::find_if(backend.devices.begin(),
                                  backend.devices.end(), internal::IsOpen);
  return found == backend.devices.end() ? nullptr : *found;
}

PointerInfo ToInfo(const AllocationRange& range) {
  PointerInfo info;
  info.kind = range.kind;
  info.device = Device(range.device);
  info.base = range.base;
  info.size = range.size;
  info.id = range.id;
  info.host_readable = range.kind != PointerKind::kDevice;
  return info;
}

// Returns true and fills `*info` if the backend knows the pointer.
bool AskBackend(const BackendRecord& backend, const void* pointer,
                PointerInfo* info) {
  DeviceRecord* asked = OpenDevice(backend);
  if (asked == nullptr ||
      (backend.capabilities & DEVRT_CAP_POINTER_INFO) == 0) {
    return false;
  }
  devrt_pointer_info_v0 answer = {};
  answer.struct_size = sizeof answer;
  answer.device = -1;
  const absl::Status status = internal::FromPlugin(
      asked, backend.ops.pointer_info(backend.self, pointer, &answer),
      "pointer query");
  if (!status.ok()) {
    DEVRT_LOG(kWarning, std::string(internal::ToStd(status.message())));
    return false;
  }
  const bool known = answer.device >= 0 && static_cast<size_t>(answer.device) <
                                               backend.devices.size();
  if (!known || answer.kind == DEVRT_POINTER_UNREGISTERED ||
      answer.kind > DEVRT_POINTER_MANAGED) {
    return false;
  }
  info->kind = static_cast<PointerKind>(answer.kind);
  info->device = Device(backend.devices[static_cast<size_t>(answer.device)]);
  info->base = answer.base;
  info->size = answer.size;
  info->host_readable = answer.host_readable != 0;
  return true;
}

// Builds the result in place, because a copy of PointerInfo costs time.
absl::StatusOr<PointerInfo> Find(const void* pointer) {
  absl::StatusOr<PointerInfo> found(absl::in_place);
  if (pointer == nullptr) return found;
  if (const std::optional<AllocationRange> own =
          internal::FindAllocation(pointer)) {
    *found = ToInfo(*own);
    return found;
  }
  for (const BackendRecord* backend : internal::OpenedBackends()) {
    if (AskBackend(*backend, pointer, &*found)) break;
  }
  return found;
}

}  // namespace

const char* ToString(PointerKind kind) {
  switch (kind) {
    case PointerKind::kUnregistered:
      return "unregistered";
    case PointerKind::kDevice:
      return "device";
    case PointerKind::kPinned:
      return "pinned";
    case PointerKind::kManaged:
      return "managed";
  }
  return "unknown";
}

absl::StatusOr<PointerInfo> GetPointerInfo(const void* pointer) {
  if (!internal::IsProcessOpen()) return internal::ProcessClosedError();
  return Find(pointer);
}

}  // namespace devrt
