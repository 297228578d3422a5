// SPDX-License-Identifier: Apache-2.0

#include "streams/operations/copy_route.h"

#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"
#include "runtime/common/text.h"
#include "runtime/raw_memory/allocation_table.h"
#include "runtime/raw_memory/blocks.h"
#include "runtime/registry/peer_table.h"

namespace devrt::internal {

namespace {

// One side of an operation, for errors: {"copy", "source"}.
struct Side {
  const char* call;
  const char* name;
};

absl::Status OutOfBounds(const Side& side, const void* ptr, uint64_t bytes,
                         const void* base, uint64_t size) {
  const uint64_t offset =
      static_cast<const char*>(ptr) - static_cast<const char*>(base);
  return absl::InvalidArgumentError(
      absl::StrCat(side.call, ": ", side.name, " [", Hex(ptr), ", +", bytes,
                   ") leaves its allocation: ", size - offset,
                   " bytes remain at offset ", offset, " of ", size,
                   "; pass at most that many bytes, or allocate more"));
}

// The error for memory of a caching allocator in which no block is live.
absl::Status NotAllocated(const std::string& what, const void* ptr) {
  const std::string freed = DescribeFreed(ptr);
  return absl::InvalidArgumentError(absl::StrCat(
      what, " ", Hex(ptr),
      " is memory from AllocateMemory, but no live block: ",
      freed.empty() ? "it was freed, or lies behind its block" : freed));
}

// Fills `operand` for memory that devrt did not allocate, if the backend knows
// the memory.
absl::Status AskBackend(DeviceRecord* stream_device, const Side& side,
                        Operand* operand) {
  BackendRecord* backend = stream_device->backend;
  if ((backend->capabilities & DEVRT_CAP_POINTER_INFO) == 0) {
    return absl::OkStatus();
  }
  devrt_pointer_info_v0 info{};
  info.struct_size = sizeof info;
  info.device = -1;
  DEVRT_RETURN_IF_ERROR(
      FromPlugin(stream_device,
                 backend->ops.pointer_info(backend->self, operand->data, &info),
                 "pointer query"));
  if (info.kind != DEVRT_POINTER_DEVICE) return absl::OkStatus();
  if (info.device < 0 ||
      static_cast<size_t>(info.device) >= backend->devices.size()) {
    return absl::InternalError(absl::StrCat(
        "backend \"", backend->name, "\" says that ", Hex(operand->data),
        " is memory of its device ", info.device, ", which it does not have"));
  }
  if (info.size != 0) {
    const uint64_t offset = static_cast<const char*>(operand->data) -
                            static_cast<const char*>(info.base);
    if (operand->bytes > info.size - offset) {
      return OutOfBounds(side, operand->data, operand->bytes, info.base,
                         info.size);
    }
  }
  operand->device = backend->devices[info.device];
  operand->kind = PointerKind::kDevice;
  return absl::OkStatus();
}

// Finds where the memory of `operand` lies.  `side` names it in errors.
absl::Status Resolve(DeviceRecord* stream_device, const Side& side,
                     Operand* operand) {
  const uintptr_t first = reinterpret_cast<uintptr_t>(operand->data);
  if (operand->data == nullptr || first + operand->bytes < first) {
    return absl::InvalidArgumentError(absl::StrCat(
        side.call, ": ", side.name, " [", Hex(operand->data), ", +",
        operand->bytes, ") is ",
        operand->data == nullptr
            ? "null: pass memory, or 0 bytes"
            : "beyond the address space: check the number of bytes"));
  }
  bool in_cache = false;
  const std::optional<AllocationRange> own =
      FindAllocation(operand->data, &in_cache);
  if (!own.has_value()) {
    if (in_cache) {
      return NotAllocated(absl::StrCat(side.call, ": the ", side.name),
                          operand->data);
    }
    return AskBackend(stream_device, side, operand);
  }
  const uint64_t offset = first - reinterpret_cast<uintptr_t>(own->base);
  if (operand->bytes > own->size - offset) {
    return OutOfBounds(side, operand->data, operand->bytes, own->base,
                       own->size);
  }
  operand->kind = own->kind;
  operand->device = own->device;
  return absl::OkStatus();
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
      "source ", Hex(src), " and target ", Hex(dst), " of a copy of ", bytes,
      " bytes overlap: copy through a buffer of its own"));
}

// Checks that a stream of `stream_device` can do the copy, and sets `staged`.
absl::Status CheckDevices(DeviceRecord* stream_device, CopyRoute* route) {
  DeviceRecord* dst = route->dst.on_device() ? route->dst.device : nullptr;
  DeviceRecord* src = route->src.on_device() ? route->src.device : nullptr;
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
  route->staged = dst->backend != src->backend ||
                  (dst->backend->capabilities & DEVRT_CAP_PEER_COPY) == 0;
  return absl::OkStatus();
}

// Returns true if kernels of `device` may touch memory of `owner`, according to
// devrt's own table.
bool MayAccess(const DeviceRecord* device, const DeviceRecord* owner) {
  PeerTable& peers = PeerTable::Get();
  MutexLock lock(&peers.mutex);
  return peers.enabled.count({device, owner}) != 0;
}

}  // namespace

absl::Status RouteCopy(DeviceRecord* stream_device, void* dst, const void* src,
                       uint64_t bytes, CopyKind kind, CopyRoute* route) {
  if (static_cast<uint32_t>(kind) >
      static_cast<uint32_t>(CopyKind::kHostToHost)) {
    return absl::InvalidArgumentError(
        absl::StrCat("copy kind ", static_cast<uint32_t>(kind),
                     " does not exist: it is 0 (inferred) to 4"));
  }
  route->dst.data = dst;
  route->src.data = const_cast<void*>(src);
  route->dst.bytes = route->src.bytes = bytes;
  DEVRT_RETURN_IF_ERROR(
      Resolve(stream_device, {"copy", "target"}, &route->dst));
  DEVRT_RETURN_IF_ERROR(
      Resolve(stream_device, {"copy", "source"}, &route->src));
  if (kind != CopyKind::kInfer && kind != DirectionOf(route->dst, route->src)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "copy is said to be ", Name(kind), ", but from ", Hex(src), " to ",
        Hex(dst), " it is ", Name(DirectionOf(route->dst, route->src)),
        ": leave the kind out to have it inferred"));
  }
  DEVRT_RETURN_IF_ERROR(CheckOverlap(dst, src, bytes));
  return CheckDevices(stream_device, route);
}

absl::Status CheckAccess(const void* ptr) {
  bool in_cache = false;
  if (FindAllocation(ptr, &in_cache).has_value() || !in_cache) {
    return absl::OkStatus();
  }
  return NotAllocated("the kernel's access to", ptr);
}

absl::Status DescribeFreedMemory(absl::Status status, const void* dst,
                                 const void* src) {
  if (!absl::IsInvalidArgument(status)) return status;
  const std::pair<const char*, const void*> sides[] = {{"target", dst},
                                                       {"source", src}};
  for (const auto& [side, ptr] : sides) {
    const std::string freed = DescribeFreed(ptr);
    if (freed.empty() || FindAllocation(ptr).has_value()) continue;
    status = WithSuffix(
        status, absl::StrCat("; the ", side, " ", Hex(ptr), ": ", freed));
  }
  return status;
}

absl::StatusOr<Operand> RouteFill(DeviceRecord* stream_device, void* dst,
                                  uint64_t bytes) {
  Operand target;
  target.data = dst;
  target.bytes = bytes;
  DEVRT_RETURN_IF_ERROR(Resolve(stream_device, {"fill", "target"}, &target));
  const bool on_device = target.on_device();
  if (on_device && (target.device == stream_device ||
                    MayAccess(stream_device, target.device))) {
    return target;
  }
  const std::string wanted = absl::StrCat(
      "a fill on a stream of ", DeviceName(stream_device),
      " needs memory of that device or of a peer that it may access, but ",
      Hex(dst), " is ");
  if (on_device) {
    return absl::InvalidArgumentError(
        absl::StrCat(wanted, "memory of ", DeviceName(target.device),
                     ": use one of its streams, or enable peer access"));
  }
  const std::string freed = DescribeFreed(dst);
  return absl::InvalidArgumentError(
      freed.empty()
          ? absl::StrCat(wanted, "host memory: use memset after synchronising")
          : absl::StrCat(wanted, "not allocated: ", freed));
}

}  // namespace devrt::internal
