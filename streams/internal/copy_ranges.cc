// SPDX-License-Identifier: Apache-2.0

#include "streams/internal/copy_ranges.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"
#include "runtime/internal/allocation_table.h"
#include "runtime/internal/blocks.h"
#include "runtime/internal/peer_table.h"
#include "runtime/internal/text.h"

namespace devrt::internal {

namespace {

std::string Text(const void* ptr) {
  return absl::StrFormat("0x%x", reinterpret_cast<uintptr_t>(ptr));
}

absl::Status OutOfBounds(const char* side, const void* ptr, uint64_t bytes,
                         const void* base, uint64_t size) {
  const uint64_t offset =
      static_cast<const char*>(ptr) - static_cast<const char*>(base);
  return absl::InvalidArgumentError(absl::StrCat(
      side, " [", Text(ptr), ", +", bytes, ") leaves its allocation: ",
      size - offset, " bytes remain at offset ", offset, " of ", size));
}

// Cached memory where no block is alive.
absl::Status NotAllocated(const std::string& what, const void* ptr) {
  const std::string freed = DescribeFreed(ptr);
  return absl::InvalidArgumentError(absl::StrCat(
      what, " ", Text(ptr),
      " is memory from AllocateMemory, but no live block: ",
      freed.empty() ? "it was freed, or lies behind its block" : freed));
}

// Memory that devrt did not allocate: the backend may know it.
absl::StatusOr<CopySide> FindForeign(DeviceRecord* stream_device,
                                     const char* side, const void* ptr,
                                     uint64_t bytes) {
  CopySide found;
  BackendRecord* backend = stream_device->backend;
  if ((backend->capabilities & DEVRT_CAP_POINTER_INFO) == 0) return found;
  devrt_pointer_info_v0 info{};
  info.struct_size = sizeof info;
  info.device = -1;
  DEVRT_RETURN_IF_ERROR(FromPlugin(
      stream_device, backend->ops.pointer_info(backend->self, ptr, &info),
      "pointer query"));
  if (info.kind != DEVRT_POINTER_DEVICE) return found;
  if (info.device < 0 ||
      static_cast<size_t>(info.device) >= backend->devices.size()) {
    return absl::InternalError(absl::StrCat(
        "backend \"", backend->name, "\" says that ", Text(ptr),
        " is memory of its device ", info.device, ", which it does not have"));
  }
  if (info.size != 0) {
    const uint64_t offset =
        static_cast<const char*>(ptr) - static_cast<const char*>(info.base);
    if (bytes > info.size - offset) {
      return OutOfBounds(side, ptr, bytes, info.base, info.size);
    }
  }
  found.device = backend->devices[info.device];
  return found;
}

absl::StatusOr<CopySide> FindSide(DeviceRecord* stream_device, const char* side,
                                  const void* ptr, uint64_t bytes) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(ptr);
  if (ptr == nullptr || first + bytes < first) {
    return absl::InvalidArgumentError(
        absl::StrCat(side, " [", Text(ptr), ", +", bytes, ") is ",
                     ptr == nullptr ? "null" : "beyond the address space"));
  }
  bool in_cache = false;
  std::optional<AllocationRange> own = FindAllocation(ptr, &in_cache);
  if (!own.has_value()) {
    if (in_cache) return NotAllocated(absl::StrCat("the ", side), ptr);
    return FindForeign(stream_device, side, ptr, bytes);
  }
  const uint64_t offset = first - reinterpret_cast<uintptr_t>(own->base);
  if (bytes > own->size - offset) {
    return OutOfBounds(side, ptr, bytes, own->base, own->size);
  }
  CopySide found;
  if (own->kind == PointerKind::kDevice) found.device = own->device;
  return found;
}

CopyKind KindOf(const CopySide& dst, const CopySide& src) {
  if (dst.device == nullptr) {
    return src.device == nullptr ? CopyKind::kHostToHost
                                 : CopyKind::kDeviceToHost;
  }
  return src.device == nullptr ? CopyKind::kHostToDevice
                               : CopyKind::kDeviceToDevice;
}

const char* Name(CopyKind kind) {
  switch (kind) {
    case CopyKind::kInfer:
      return "inferred";
    case CopyKind::kHostToDevice:
      return "host to device";
    case CopyKind::kDeviceToHost:
      return "device to host";
    case CopyKind::kDeviceToDevice:
      return "device to device";
    case CopyKind::kHostToHost:
      return "host to host";
  }
  return "unknown";
}

absl::Status CheckOverlap(const void* dst, const void* src, uint64_t bytes) {
  const uintptr_t d = reinterpret_cast<uintptr_t>(dst);
  const uintptr_t s = reinterpret_cast<uintptr_t>(src);
  if ((d < s ? s - d : d - s) >= bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "source ", Text(src), " and target ", Text(dst), " of a copy of ", bytes,
      " bytes overlap: copy through a buffer of its own"));
}

// Where the copy can go, and whether this stream can take it there.
absl::Status ChooseRoute(DeviceRecord* stream_device, CopyRoute* route) {
  DeviceRecord* dst = route->dst.device;
  DeviceRecord* src = route->src.device;
  if (dst == nullptr && src == nullptr) return absl::OkStatus();
  if (dst != stream_device && src != stream_device) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a stream of ", DeviceName(stream_device), " cannot copy memory of ",
        DeviceName(dst != nullptr ? dst : src),
        ": use a stream of a device that owns one side"));
  }
  if (dst == nullptr || src == nullptr || dst == src) return absl::OkStatus();
  for (DeviceRecord* device : {dst, src}) {
    if (!IsOpen(device)) return ClosedError(device);
  }
  const bool one_backend = dst->backend == src->backend;
  route->peer =
      one_backend && (dst->backend->capabilities & DEVRT_CAP_PEER_COPY) != 0;
  route->staged = !route->peer;
  return absl::OkStatus();
}

// Whether kernels of `device` may touch memory of `owner`, by our own record.
bool MayAccess(const DeviceRecord* device, const DeviceRecord* owner) {
  PeerTable& peers = PeerTable::Get();
  MutexLock lock(&peers.mutex);
  return peers.enabled.count({device, owner}) != 0;
}

}  // namespace

absl::StatusOr<CopyRoute> RouteCopy(DeviceRecord* stream_device,
                                    const void* dst, const void* src,
                                    uint64_t bytes, CopyKind kind) {
  if (static_cast<uint32_t>(kind) >
      static_cast<uint32_t>(CopyKind::kHostToHost)) {
    return absl::InvalidArgumentError(
        absl::StrCat("copy kind ", static_cast<uint32_t>(kind),
                     " does not exist: it is 0 (inferred) to 4"));
  }
  CopyRoute route;
  DEVRT_ASSIGN_OR_RETURN(route.dst,
                         FindSide(stream_device, "target", dst, bytes));
  DEVRT_ASSIGN_OR_RETURN(route.src,
                         FindSide(stream_device, "source", src, bytes));
  route.kind = KindOf(route.dst, route.src);
  if (kind != CopyKind::kInfer && kind != route.kind) {
    return absl::InvalidArgumentError(
        absl::StrCat("copy is said to be ", Name(kind), ", but from ",
                     Text(src), " to ", Text(dst), " it is ", Name(route.kind),
                     ": leave the kind out to have it inferred"));
  }
  DEVRT_RETURN_IF_ERROR(CheckOverlap(dst, src, bytes));
  DEVRT_RETURN_IF_ERROR(ChooseRoute(stream_device, &route));
  return route;
}

absl::Status CheckAccess(const void* ptr) {
  bool in_cache = false;
  if (FindAllocation(ptr, &in_cache).has_value() || !in_cache) {
    return absl::OkStatus();
  }
  return NotAllocated("the kernel's access to", ptr);
}

absl::Status WithFreed(absl::Status status, const void* dst, const void* src) {
  if (!absl::IsInvalidArgument(status)) return status;
  const std::pair<const char*, const void*> sides[] = {{"target", dst},
                                                       {"source", src}};
  for (const auto& [side, ptr] : sides) {
    const std::string freed = DescribeFreed(ptr);
    if (freed.empty() || FindAllocation(ptr).has_value()) continue;
    status = WithSuffix(
        status, absl::StrCat("; the ", side, " ", Text(ptr), ": ", freed));
  }
  return status;
}

absl::Status CheckFill(DeviceRecord* stream_device, const void* dst,
                       uint64_t bytes) {
  DEVRT_ASSIGN_OR_RETURN(CopySide side,
                         FindSide(stream_device, "target", dst, bytes));
  if (side.device == stream_device ||
      (side.device != nullptr && MayAccess(stream_device, side.device))) {
    return absl::OkStatus();
  }
  const std::string wanted = absl::StrCat(
      "a fill on a stream of ", DeviceName(stream_device),
      " needs memory of that device or of a peer that it may access, but ",
      Text(dst), " is ");
  if (side.device != nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat(wanted, "memory of ", DeviceName(side.device),
                     ": use one of its streams, or enable peer access"));
  }
  const std::string freed = DescribeFreed(dst);
  return absl::InvalidArgumentError(
      freed.empty()
          ? absl::StrCat(wanted, "host memory: use memset after synchronising")
          : absl::StrCat(wanted, "not allocated: ", freed));
}

}  // namespace devrt::internal
