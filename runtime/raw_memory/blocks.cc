// SPDX-License-Identifier: Apache-2.0
#include "runtime/raw_memory/blocks.h"

#include <optional>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "runtime/common/text.h"
#include "runtime/raw_memory/out_of_memory.h"
#include "runtime/registry/memory_hooks.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

absl::Status CheckRequest(const DeviceRecord* device, uint64_t bytes,
                          uint64_t alignment, const char* call) {
  if (InHostFunction()) return HostFunctionError(call);
  if (!IsOpen(device)) return RefusedCallError(device, call);
  if ((alignment & (alignment - 1)) != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        call, ": alignment ", alignment,
        " is not a power of two: pass one, or 0 for the device's own"));
  }
  if (bytes < kTooManyBytes) return absl::OkStatus();
  OutOfMemoryInfo info;
  info.requested = bytes;
  return OutOfMemoryError(device, info, absl::OkStatus());
}

absl::StatusOr<void*> RecordBlock(AllocationRange range, LiveCount* live) {
  DeviceRecord* device = range.device;
  const std::string what =
      absl::StrCat("backend ", Quoted(device->backend->name), " allocated ",
                   range.size, " bytes at ", Hex(range.base));
  if (range.base == nullptr) return absl::InternalError(what);
  if (const auto in_the_way = AllocationTable::Get().Insert(&range)) {
    return absl::InternalError(
        absl::StrCat(what, ", where there is ", DescribeRange(*in_the_way)));
  }
  live->Keep();
  return range.base;
}

std::string DescribeRange(const AllocationRange& range) {
  const char* kind = range.registered ? "registered host memory of "
                     : range.kind == PointerKind::kPinned
                         ? "pinned host memory of "
                         : "memory of ";
  return absl::StrCat(kind, DeviceName(range.device),
                      !range.cached ? ""
                      : range.kind == PointerKind::kPinned
                          ? " from AllocatePinned"
                          : " from AllocateMemory");
}

std::string DescribeFreed(const void* pointer) {
  std::optional<AllocationRange> range;
  if (const MemoryHooks* hooks = GetMemoryHooks()) {
    range = hooks->find_freed(pointer);
  }
  if (!range.has_value()) range = AllocationTable::Get().FindFreed(pointer);
  if (!range.has_value()) return std::string();
  std::string text =
      range->size == 0
          ? absl::StrCat("it was a block of ", DescribeRange(*range))
          : absl::StrCat("it was in a block of ", range->size, " bytes of ",
                         DescribeRange(*range));
  const auto append = [&text](const char* verb, CallSite site) {
    if (site.file == nullptr) return;
    absl::StrAppend(&text, ", ", verb, " at ", site.file, ":", site.line);
  };
  append("allocated", range->allocated);
  append("freed", range->freed);
  return text;
}

std::string DescribePointer(const void* pointer) {
  const std::optional<AllocationRange> range = FindAllocation(pointer);
  if (!range.has_value()) {
    const std::string freed = DescribeFreed(pointer);
    return absl::StrCat(Hex(pointer), " lies in no live block: ",
                        freed.empty()
                            ? "it was freed before, or devrt never allocated it"
                            : freed);
  }
  const std::string text =
      absl::StrCat(Hex(pointer), " is ", DescribeRange(*range));
  const uintptr_t offset = reinterpret_cast<uintptr_t>(pointer) -
                           reinterpret_cast<uintptr_t>(range->base);
  if (offset == 0) return text;
  return absl::StrCat(text, ", ", offset, " bytes into the block at ",
                      Hex(range->base));
}

absl::StatusOr<AllocationRange> ClaimBlock(const void* pointer,
                                           PointerKind kind,
                                           const DeviceRecord* device,
                                           const char* call, CallSite site) {
  const std::optional<AllocationRange> range = FindAllocation(pointer);
  const bool fits = range.has_value() && range->base == pointer &&
                    range->kind == kind && !range->registered &&
                    !range->cached &&
                    (device == nullptr || range->device == device);
  if (fits && AllocationTable::Get().Remove(*range, site)) return *range;
  return absl::InvalidArgumentError(absl::StrCat(
      call, " needs the beginning of a live block of ",
      device != nullptr ? DeviceName(device) : "pinned host memory", ", but ",
      DescribePointer(pointer)));
}

bool IsOfEarlierWork(const absl::Status& status) {
  const std::optional<ErrorInfo> info = GetErrorInfo(status);
  return info.has_value() && (info->sticky || info->async);
}

absl::Status SettleFree(const AllocationRange& range, devrt_status error,
                        const char* call) {
  const absl::Status status = FromPlugin(range.device, error, call);
  if (!status.ok()) {
    if (!IsOfEarlierWork(status) && IsOpen(range.device)) {
      AllocationTable::Get().Restore(range);
      return status;
    }
    // A sticky error was logged when the device was closed.
    const std::optional<ErrorInfo> info = GetErrorInfo(status);
    if (!info.has_value() || !info->sticky) {
      DEVRT_LOG(kWarning, std::string(ToStd(status.message())));
    }
  }
  range.device->live_allocations.fetch_sub(1);
  return absl::OkStatus();
}

bool IsLost(const DeviceRecord* device) {
  return !IsOpen(device) && IsProcessOpen();
}

}  // namespace devrt::internal
