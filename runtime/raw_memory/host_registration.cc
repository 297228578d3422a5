// SPDX-License-Identifier: Apache-2.0
//
// RegisterHost and UnregisterHost of devrt/runtime/raw_memory.h.

#include <optional>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"
#include "runtime/common/text.h"
#include "runtime/raw_memory/blocks.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/records.h"

namespace devrt {
namespace {

using internal::AllocationRange;
using internal::AllocationTable;
using internal::DeviceName;
using internal::DeviceRecord;
using internal::FromPlugin;
using internal::Hex;

absl::Status Conflict(const AllocationRange& wanted,
                      const AllocationRange& in_the_way) {
  const std::string text = absl::StrCat(
      "RegisterHost: ", wanted.size, " bytes at ", Hex(wanted.base),
      " overlap ", internal::DescribeRange(in_the_way), ", ", in_the_way.size,
      " bytes at ", Hex(in_the_way.base));
  return in_the_way.registered ? absl::AlreadyExistsError(text)
                               : absl::InvalidArgumentError(text);
}

absl::Status NotRegistered(const DeviceRecord* device, const void* pointer,
                           const std::optional<AllocationRange>& found) {
  const std::string text = absl::StrCat("UnregisterHost: ", Hex(pointer));
  if (!found.has_value()) {
    return absl::NotFoundError(
        absl::StrCat(text, " is not registered with backend ",
                     internal::Quoted(device->backend->name)));
  }
  return absl::InvalidArgumentError(
      absl::StrCat(text, " is not the beginning of the registered range at ",
                   Hex(found->base)));
}

}  // namespace

absl::Status RegisterHost(Device device, void* pointer, uint64_t bytes,
                          CallSite site) {
  DeviceRecord* record = device.record();
  internal::LiveCount live(record);
  DEVRT_RETURN_IF_ERROR(internal::CheckRequest(record, 0, 0, "RegisterHost"));
  const uintptr_t begin = reinterpret_cast<uintptr_t>(pointer);
  if (pointer == nullptr || bytes == 0 || begin + bytes < begin) {
    return absl::InvalidArgumentError(
        absl::StrCat("RegisterHost needs a range of host memory, but got ",
                     bytes, " bytes at ", Hex(pointer)));
  }
  AllocationRange range = {
      record, PointerKind::kPinned, true, pointer, bytes, 0, site, {}};
  // Inserted before the registration, so that of two threads only one calls it.
  if (const auto in_the_way = AllocationTable::Get().Insert(&range)) {
    return Conflict(range, *in_the_way);
  }
  const internal::CallSiteScope noted(site);
  absl::Status status = FromPlugin(
      record,
      record->ops->host_register(record->self, record->ordinal, pointer, bytes),
      "host registration");
  if (status.ok()) {
    live.Keep();
  } else {
    AllocationTable::Get().Remove(range, site);
  }
  return status;
}

absl::Status UnregisterHost(Device device, void* pointer, CallSite site) {
  if (!internal::IsProcessOpen()) return internal::ProcessClosedError();
  if (internal::InHostFunction()) {
    return internal::HostFunctionError("UnregisterHost");
  }
  DeviceRecord* record = device.record();
  const std::optional<AllocationRange> range =
      AllocationTable::Get().FindRegistered(record->backend, pointer);
  if (!range.has_value() || range->base != pointer ||
      !AllocationTable::Get().Remove(*range, site)) {
    return NotRegistered(record, pointer, range);
  }
  const internal::CallSiteScope noted(site);
  devrt_status error = nullptr;
  if (!internal::IsLost(range->device)) {
    error = record->ops->host_unregister(record->self, pointer);
  }
  return internal::SettleFree(*range, error, "host unregistration");
}

}  // namespace devrt
