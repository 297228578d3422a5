// SPDX-License-Identifier: Apache-2.0
#include "devrt/runtime/raw_memory.h"

#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "runtime/plugins/host_table.h"
#include "runtime/raw_memory/blocks.h"
#include "runtime/raw_memory/out_of_memory.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/records.h"

namespace devrt {
namespace {

using internal::AllocationRange;
using internal::CheckRequest;
using internal::ClaimBlock;
using internal::DeviceRecord;
using internal::FromPlugin;
using internal::HostFunctionError;
using internal::InHostFunction;
using internal::IsLost;
using internal::IsProcessOpen;
using internal::OutOfMemoryError;
using internal::ProcessClosedError;
using internal::RecordBlock;
using internal::SettleFree;

// Takes an error of an allocation; adds the device's memory figures if it says
// RESOURCE_EXHAUSTED.
absl::Status AllocationError(DeviceRecord* device, uint64_t bytes,
                             devrt_status error, const char* call) {
  absl::Status status = internal::TakeError(device, error, call);
  if (!absl::IsResourceExhausted(status)) return status;
  OutOfMemoryInfo info;
  devrt_status no_info = device->ops->mem_info(device->self, device->ordinal,
                                               &info.free, &info.total);
  internal::DestroyError(no_info);
  info.requested = bytes;
  return OutOfMemoryError(device, info, status);
}

// Refuses a null or misaligned block, which breaks contract P10.
absl::Status CheckBlock(DeviceRecord* device, const void* pointer,
                        uint64_t alignment, const char* slot) {
  const uint64_t mask = alignment == 0 ? 0 : alignment - 1;
  if (pointer != nullptr &&
      (reinterpret_cast<uintptr_t>(pointer) & mask) == 0) {
    return absl::OkStatus();
  }
  return absl::InternalError(
      absl::StrCat(slot, " of backend \"", device->backend->name, "\" gave ",
                   pointer == nullptr
                       ? "a null pointer"
                       : absl::StrCat("a block that is not aligned to the ",
                                      alignment, " bytes that were asked for"),
                   " (contract P10)"));
}

}  // namespace

absl::StatusOr<void*> Allocate(Device device, uint64_t bytes,
                               uint64_t alignment, CallSite site) {
  DeviceRecord* record = device.record();
  internal::LiveCount live(record);
  DEVRT_RETURN_IF_ERROR(CheckRequest(record, bytes, alignment, "Allocate"));
  if (bytes == 0) return nullptr;
  const internal::CallSiteScope noted(site);
  void* pointer = nullptr;
  if (devrt_status error = record->ops->alloc(record->self, record->ordinal,
                                              bytes, alignment, &pointer)) {
    return AllocationError(record, bytes, error, "allocation");
  }
  DEVRT_RETURN_IF_ERROR(CheckBlock(record, pointer, alignment, "alloc"));
  return RecordBlock(
      {record, PointerKind::kDevice, false, pointer, bytes, 0, site, {}},
      &live);
}

absl::Status Free(Device device, void* pointer, CallSite site) {
  if (!IsProcessOpen()) return ProcessClosedError();
  if (pointer == nullptr) return absl::OkStatus();
  if (InHostFunction()) return HostFunctionError("Free");
  DeviceRecord* record = device.record();
  DEVRT_ASSIGN_OR_RETURN(
      const AllocationRange range,
      ClaimBlock(pointer, PointerKind::kDevice, record, "Free", site));
  const internal::CallSiteScope noted(site);
  devrt_status error = nullptr;
  if (!IsLost(record)) {
    error = record->ops->dealloc(record->self, record->ordinal, pointer,
                                 range.size);
  }
  return SettleFree(range, error, "free");
}

absl::StatusOr<void*> AllocateHost(Device device, uint64_t bytes,
                                   uint64_t alignment, CallSite site) {
  DeviceRecord* record = device.record();
  internal::LiveCount live(record);
  DEVRT_RETURN_IF_ERROR(CheckRequest(record, bytes, alignment, "AllocateHost"));
  if (bytes == 0) return nullptr;
  const internal::CallSiteScope noted(site);
  void* pointer = nullptr;
  devrt_status error = record->ops->host_alloc(record->self, record->ordinal,
                                               bytes, alignment, &pointer);
  const absl::Status status = FromPlugin(record, error, "pinned allocation");
  if (absl::IsResourceExhausted(status)) {
    OutOfMemoryInfo info;
    info.requested = bytes;
    return OutOfMemoryError(record, info, status);
  }
  DEVRT_RETURN_IF_ERROR(status);
  DEVRT_RETURN_IF_ERROR(CheckBlock(record, pointer, alignment, "host_alloc"));
  return RecordBlock(
      {record, PointerKind::kPinned, false, pointer, bytes, 0, site, {}},
      &live);
}

absl::Status FreeHost(void* pointer, CallSite site) {
  if (!IsProcessOpen()) return ProcessClosedError();
  if (pointer == nullptr) return absl::OkStatus();
  if (InHostFunction()) {
    return HostFunctionError("FreeHost");
  }
  DEVRT_ASSIGN_OR_RETURN(
      const AllocationRange range,
      ClaimBlock(pointer, PointerKind::kPinned, nullptr, "FreeHost", site));
  const internal::CallSiteScope noted(site);
  DeviceRecord* record = range.device;
  devrt_status error = nullptr;
  if (!IsLost(record)) {
    error = record->ops->host_dealloc(record->self, pointer, range.size);
  }
  return SettleFree(range, error, "pinned free");
}

}  // namespace devrt
