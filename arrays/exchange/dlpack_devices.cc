// SPDX-License-Identifier: Apache-2.0

#include "arrays/exchange/dlpack_devices.h"

#include <atomic>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "arrays/exchange/exchange_error.h"
#include "arrays/storage/pointer_place.h"
#include "devrt/arrays/dlpack.h"
#include "devrt/runtime/raw_memory.h"
#include "devrt/runtime/status.h"
#include "memory/api/known_uses.h"
#include "runtime/common/text.h"
#include "runtime/registry/records.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/ordering.h"

namespace devrt {

DLDevice DLPackDevice(const Place& place) {
  if (place.kind() == MemoryKind::kHost) return {kDLCPU, 0};
  const Device device = *place.device();
  const devrt_dlpack_v0& types = internal::DLPackTypesOf(device);
  const auto type = [](int32_t number) {
    return static_cast<DLDeviceType>(number);
  };
  switch (place.kind()) {
    case MemoryKind::kPinned:
      return {type(types.pinned_type), 0};
    case MemoryKind::kManaged:
      if (types.managed_type != 0 && !GetExchangeSettings().managed_as_device) {
        return {type(types.managed_type), 0};
      }
      break;
    default:
      break;
  }
  return {type(types.device_type), device.index()};
}

namespace internal {

namespace {

bool Says(const BackendRecord* backend, int32_t type) {
  if (backend->devices.empty()) return false;
  const devrt_dlpack_v0& types = DLPackTypesOf(Device(backend->devices[0]));
  return types.device_type == type || types.pinned_type == type ||
         types.managed_type == type;
}

// The first opened backend with the type, or nullptr.  Sets `*only` if it is
// the only one.
const BackendRecord* FindOpened(int32_t type, bool* only) {
  const BackendRecord* found = nullptr;
  for (const BackendRecord* backend : OpenedBackends()) {
    if (!Says(backend, type)) continue;
    *only = found == nullptr;
    if (found == nullptr) found = backend;
  }
  return found;
}

const BackendRecord* FindBackend(int32_t type, bool* only) {
  if (const BackendRecord* found = FindOpened(type, only)) return found;
  for (const std::string& name : BackendNames()) (void)GetBackend(name);
  return FindOpened(type, only);
}

// FindBackend for callers that need the first backend only.  The answer never
// changes, because backends that are opened later come behind it.
const BackendRecord* FindFirstBackend(int32_t type) {
  constexpr int32_t kTypes = 32;
  static std::atomic<const BackendRecord*> known[kTypes];
  std::atomic<const BackendRecord*>* const slot =
      type >= 0 && type < kTypes ? &known[type] : nullptr;
  const BackendRecord* found =
      slot != nullptr ? slot->load(std::memory_order_acquire) : nullptr;
  if (found != nullptr) return found;
  bool only = false;
  found = FindBackend(type, &only);
  if (slot != nullptr) slot->store(found, std::memory_order_release);
  return found;
}

bool IsKnownType(int32_t type) {
  switch (type) {
    case kDLCUDA:
    case kDLCUDAHost:
    case kDLROCM:
    case kDLROCMHost:
    case kDLExtDev:
    case kDLCUDAManaged:
      return true;
    default:
      return false;
  }
}

absl::Status CheckInBlock(const PointerInfo& info, const void* first,
                          ByteSpan span) {
  if (info.id == 0 && info.device && LiesInCache(first)) {
    return BufferError(absl::StrCat(
        "address ", Hex(first), " lies in cached memory of ",
        info.device->name(),
        ", but in no block that is alive: it was freed before it was shared"));
  }
  if (info.kind == PointerKind::kUnregistered || info.base == nullptr ||
      info.size == 0) {
    return absl::OkStatus();
  }
  const auto at = reinterpret_cast<uintptr_t>(first);
  const auto base = reinterpret_cast<uintptr_t>(info.base);
  const uintptr_t begin = at + static_cast<uint64_t>(span.lo);
  const uintptr_t end = at + static_cast<uint64_t>(span.hi);
  if (begin >= base && end >= begin && end - base <= info.size) {
    return absl::OkStatus();
  }
  return BufferError(absl::StrCat(
      "the elements reach from byte ", span.lo, " to ", span.hi, " around ",
      Hex(first), ", but the ", ToString(info.kind), " block there begins at ",
      Hex(info.base), " and has ", info.size, " bytes"));
}

// The place of an array without elements, or of memory that no driver can tell.
absl::StatusOr<Place> PlaceWithoutMemory(DLDevice device) {
  bool only = false;
  const BackendRecord* const backend = FindBackend(device.device_type, &only);
  if (backend == nullptr || (device.device_type == kDLExtDev && !only)) {
    return BufferError(absl::StrCat(
        "device ", PairText(device),
        backend == nullptr
            ? " is of a type that no backend has"
            : " may be of several backends, and there is no memory to tell"));
  }
  const devrt_dlpack_v0& types = DLPackTypesOf(Device(backend->devices[0]));
  const bool pinned = device.device_type != types.device_type &&
                      device.device_type == types.pinned_type;
  // For managed memory some producers say the index and others 0.
  const int32_t index = pinned ? 0 : device.device_id;
  if (index < 0 || static_cast<size_t>(index) >= backend->devices.size()) {
    return BufferError(absl::StrCat("device ", PairText(device), ": backend \"",
                                    backend->name, "\" has ",
                                    backend->devices.size(), " devices"));
  }
  const Device found(backend->devices[static_cast<size_t>(index)]);
  if (pinned) return Place::Pinned(found);
  return device.device_type == types.device_type ? Place(found)
                                                 : Place::Managed(found);
}

// The place of memory that the struct says the host has.
absl::StatusOr<Place> HostPlace(const PointerInfo& info, const void* first) {
  if (info.kind != PointerKind::kDevice || info.host_readable) {
    return Place::Host();
  }
  return BufferError(absl::StrCat(
      "address ", Hex(first), " is said to be host memory, but is memory of ",
      info.device->name()));
}

// Returns true if `device` is a pair that DLPack may use for the memory.
bool IsPairOf(DLDevice device, const PointerInfo& info) {
  const devrt_dlpack_v0& types = DLPackTypesOf(*info.device);
  const int32_t type = device.device_type;
  if (info.kind == PointerKind::kPinned) return type == types.pinned_type;
  // Managed memory may also have the pair of its device's memory.
  if (type == types.device_type) {
    return device.device_id == info.device->index();
  }
  return info.kind == PointerKind::kManaged && type == types.managed_type;
}

// The place of memory that the struct says a device or a driver has.
absl::StatusOr<Place> DevicePlace(DLDevice device, const PointerInfo& info,
                                  const void* first) {
  if (info.kind == PointerKind::kUnregistered) {
    return BufferError(
        absl::StrCat("address ", Hex(first), " is said to be memory of device ",
                     PairText(device), ", but no backend knows it"));
  }
  const Place place = PlaceOf(info);
  if (IsPairOf(device, info)) return place;
  return BufferError(absl::StrCat("address ", Hex(first),
                                  " is said to be memory of device ",
                                  PairText(device), ", but is ", place.name(),
                                  ", ", PairText(DLPackDevice(place))));
}

// If a driver cannot be asked about pointers, devrt believes the struct.
bool CanAsk(const BackendRecord& backend) {
  return (backend.capabilities & DEVRT_CAP_POINTER_INFO) != 0;
}

}  // namespace

std::string PairText(DLDevice device) {
  return absl::StrCat("(", static_cast<int32_t>(device.device_type), ", ",
                      device.device_id, ")");
}

const devrt_dlpack_v0& DLPackTypesOf(Device device) {
  return DeviceStreams::Of(device.record())->dlpack;
}

absl::StatusOr<Place> PlaceOf(DLDevice device, const void* first,
                              ByteSpan span) {
  const int32_t type = device.device_type;
  if (type != kDLCPU && !IsKnownType(type)) {
    return BufferError(absl::StrCat(
        "device type ", type,
        " is not one that devrt imports: 1 (CPU), 2 "
        "(CUDA), 3 (CUDAHost), 10 (ROCM), 11 (ROCMHost), 12 (ExtDev), 13 "
        "(CUDAManaged)"));
  }
  if (first == nullptr) {
    if (type == kDLCPU) return Place::Host();
    return PlaceWithoutMemory(device);
  }
  if (type != kDLCPU) {
    const BackendRecord* const backend = FindFirstBackend(type);
    if (backend == nullptr || !CanAsk(*backend)) {
      return PlaceWithoutMemory(device);
    }
  }
  const absl::StatusOr<PointerInfo> found = GetPointerInfo(first);
  if (!found.ok()) return found.status();
  const PointerInfo& info = *found;
  DEVRT_RETURN_IF_ERROR(CheckInBlock(info, first, span));
  return type == kDLCPU ? HostPlace(info, first)
                        : DevicePlace(device, info, first);
}

absl::StatusOr<Place> PlaceOfPointer(const void* first, ByteSpan span) {
  DEVRT_ASSIGN_OR_RETURN(PointerInfo info, GetPointerInfo(first));
  if (info.kind == PointerKind::kUnregistered) {
    for (const std::string& name : BackendNames()) (void)GetBackend(name);
    DEVRT_ASSIGN_OR_RETURN(info, GetPointerInfo(first));
  }
  if (info.kind == PointerKind::kUnregistered) {
    return BufferError(
        absl::StrCat("no backend knows the address ", Hex(first),
                     ": it is not memory that a device can reach"));
  }
  DEVRT_RETURN_IF_ERROR(CheckInBlock(info, first, span));
  return PlaceOf(info);
}

bool IsHostReadable(const Array& array) {
  const Place place = array.place();
  if (place.host_accessible()) return true;
  const BackendRecord* const backend = place.device()->record()->backend;
  if (array.data() == nullptr || !IsOpen(place.device()->record()) ||
      (backend->capabilities & DEVRT_CAP_POINTER_INFO) == 0) {
    return false;
  }
  devrt_pointer_info_v0 answer = {};
  answer.struct_size = sizeof answer;
  const absl::Status status = FromPlugin(
      place.device()->record(),
      backend->ops.pointer_info(backend->self, array.data(), &answer),
      "pointer query");
  return status.ok() && answer.host_readable != 0;
}

bool RecordsGraph(StreamRef stream) {
  return IsCapturing(stream).value_or(false);
}

}  // namespace internal
}  // namespace devrt
