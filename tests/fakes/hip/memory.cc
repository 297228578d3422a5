// SPDX-License-Identifier: Apache-2.0
//
// Memory of both sides, copies and fills.
#include "tests/fakes/common/flags.h"
#include "tests/fakes/hip/driver.h"
#include "tests/fakes/hip/stale.h"

namespace devrt::fake {
namespace {

using engine::LookUp;

constexpr uint64_t kStep = 256;  // of all allocations
constexpr int kNewMemoryTypes = 60000000;

bool IsDevice(const devrt_pointer_info_v0& info) {
  return info.kind == DEVRT_POINTER_DEVICE;
}

// Memory that no device reaches: plain host memory, or nothing at all.
bool IsPageable(const devrt_pointer_info_v0& info) {
  return info.kind == DEVRT_POINTER_UNREGISTERED;
}

// Returns true if `ptr` is the beginning of a live allocation of that kind.
bool IsBase(const void* ptr, uint32_t kind, devrt_pointer_info_v0* info) {
  *info = LookUp(ptr);
  return info->kind == kind && info->base == ptr;
}

// A free waits for all work of the owning device, and for no other.
hipError_t EndUses(const devrt_pointer_info_v0& info) {
  const hipError_t error =
      Sim<&devrt_ops_v0::device_sync>(static_cast<uint32_t>(info.device));
  if (error == hipSuccess) ForgetWords(info.base, info.size);
  return error;
}

// The numbers of hipMemoryType are others from ROCm 6 on.
unsigned MemoryType(const devrt_pointer_info_v0& info) {
  int version = 0;
  (void)hipRuntimeGetVersion(&version);
  const unsigned first = version < kNewMemoryTypes ? 0 : 1;
  return IsDevice(info) ? first + 1 : first;
}

hipError_t Attribute(void* data, hipPointer_attribute attribute,
                     const devrt_pointer_info_v0& info) {
  const auto sim_device = static_cast<uint32_t>(info.device);
  switch (attribute) {
    case HIP_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(data) = MemoryType(info);
      return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<bool*>(data) = false;
      return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(data) = DriverDevice(sim_device);
      return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR:
      *static_cast<void**>(data) = info.base;
      return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_RANGE_SIZE:
      // As HIP does: 32 bits of it.
      *static_cast<uint32_t*>(data) = static_cast<uint32_t>(info.size);
      return hipSuccess;
    case HIP_POINTER_ATTRIBUTE_BUFFER_ID:
      *static_cast<unsigned long long*>(data) = info.allocation_id;
      return hipSuccess;
    default:
      Die("hipPointerGetAttribute: attribute %d is not known here", attribute);
  }
}

// Plain host memory where `kind` says it is a device's.
bool IsWrongSide(hipMemcpyKind kind, const devrt_pointer_info_v0& to,
                 const devrt_pointer_info_v0& from) {
  const bool to_device =
      kind == hipMemcpyHostToDevice || kind == hipMemcpyDeviceToDevice;
  const bool from_device =
      kind == hipMemcpyDeviceToHost || kind == hipMemcpyDeviceToDevice;
  return (to_device && IsPageable(to)) || (from_device && IsPageable(from));
}

hipError_t ResolveCopy(const char* call, hipStream_t stream, Target* target) {
  const hipError_t error = Resolve(call, stream, target);
  if (error != hipSuccess) return error;
  return Has(kC16NeedsDevice) && target->device != CurrentDevice()
             ? hipErrorInvalidHandle
             : hipSuccess;
}

}  // namespace
}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global
using devrt::fake::engine::LookUp;

// ---- Allocation -------------------------------------------------------------

hipError_t hipMalloc(void** ptr, size_t size) {
  return Call("hipMalloc", kDeviceCall, [&] {
    *ptr = nullptr;
    if (size == 0) return hipSuccess;
    return Sim<&devrt_ops_v0::alloc>(SimOf(UseCurrentDevice()), size, kStep,
                                     ptr);
  });
}

hipError_t hipFree(void* ptr) {
  return Call("hipFree", kDeviceCall, [&] {
    devrt_pointer_info_v0 info;
    if (ptr == nullptr) return hipSuccess;
    if (!IsBase(ptr, DEVRT_POINTER_DEVICE, &info)) {
      return hipErrorInvalidDevicePointer;
    }
    return Sim<&devrt_ops_v0::dealloc>(static_cast<uint32_t>(info.device), ptr,
                                       info.size);
  });
}

hipError_t hipHostMalloc(void** ptr, size_t size, unsigned flags) {
  return Call("hipHostMalloc", kDeviceCall, [&] {
    constexpr unsigned kKnown =
        hipHostMallocPortable | hipHostMallocMapped | hipHostMallocCoherent;
    if ((flags & ~kKnown) != 0) {
      Die("hipHostMalloc: flags %#x are not known here", flags);
    }
    *ptr = nullptr;
    if (size == 0) return hipSuccess;
    const hipError_t error = Sim<&devrt_ops_v0::host_alloc>(
        SimOf(UseCurrentDevice()), size, kStep, ptr);
    const bool coherent = (flags & hipHostMallocCoherent) != 0;
    if (error == hipSuccess && !coherent) AddIncoherent(*ptr);
    return error;
  });
}

hipError_t hipHostFree(void* ptr) {
  return Call("hipHostFree", kDeviceCall, [&] {
    devrt_pointer_info_v0 info;
    if (ptr == nullptr) return hipSuccess;
    if (!IsBase(ptr, DEVRT_POINTER_PINNED, &info)) return hipErrorInvalidValue;
    const hipError_t error = EndUses(info);
    if (error != hipSuccess) return error;
    RemoveIncoherent(ptr);
    return Sim<&devrt_ops_v0::host_dealloc>(ptr, info.size);
  });
}

hipError_t hipHostRegister(void* ptr, size_t size, unsigned flags) {
  return Call("hipHostRegister", kDeviceCall, [&] {
    constexpr unsigned kKnown = hipHostRegisterPortable | hipHostRegisterMapped;
    if ((flags & ~kKnown) != 0) {
      Die("hipHostRegister: flags %#x are not known here", flags);
    }
    return Sim<&devrt_ops_v0::host_register>(SimOf(UseCurrentDevice()), ptr,
                                             size);
  });
}

hipError_t hipHostUnregister(void* ptr) {
  return Call("hipHostUnregister", kDeviceCall, [&] {
    const devrt_pointer_info_v0 info = LookUp(ptr);
    if (!IsPageable(info) && info.base == ptr) {
      const hipError_t error = EndUses(info);
      if (error != hipSuccess) return error;
    }
    return Sim<&devrt_ops_v0::host_unregister>(ptr);
  });
}

hipError_t hipPointerGetAttribute(void* data, hipPointer_attribute attribute,
                                  hipDeviceptr_t ptr) {
  return Call("hipPointerGetAttribute", kQuiet, [&] {
    const devrt_pointer_info_v0 info = LookUp(ptr);
    if (IsPageable(info)) return hipErrorInvalidValue;
    const int owner = DriverDevice(static_cast<uint32_t>(info.device));
    if (Has(kC71NeedsDevice) && owner != CurrentDevice()) {
      return hipErrorInvalidValue;
    }
    return Attribute(data, attribute, info);
  });
}

hipError_t hipMemGetAddressRange(hipDeviceptr_t* base, size_t* size,
                                 hipDeviceptr_t ptr) {
  return Call("hipMemGetAddressRange", kQuiet, [&] {
    const devrt_pointer_info_v0 info = LookUp(ptr);
    if (IsPageable(info)) return hipErrorNotFound;
    *base = info.base;
    *size = info.size;
    return hipSuccess;
  });
}

// ---- Copies and fills -------------------------------------------------------

hipError_t hipMemcpyAsync(void* dst, const void* src, size_t size,
                          hipMemcpyKind kind, hipStream_t stream) {
  return Call("hipMemcpyAsync", kDeviceCall, [&] {
    if (kind < hipMemcpyHostToHost || kind > hipMemcpyDefault) {
      return hipErrorInvalidMemcpyDirection;
    }
    if (size == 0) return hipSuccess;
    Target target;
    const hipError_t error = ResolveCopy("hipMemcpyAsync", stream, &target);
    if (error != hipSuccess) return error;
    const devrt_pointer_info_v0 to = LookUp(dst), from = LookUp(src);
    if (IsWrongSide(kind, to, from)) return hipErrorInvalidValue;
    return Submit(target, [&] {
      if (IsDevice(to) && IsDevice(from) && to.device != from.device) {
        return Sim<&devrt_ops_v0::copy_peer_async>(
            target.sim, dst, static_cast<uint32_t>(to.device), src,
            static_cast<uint32_t>(from.device), size);
      }
      if (Has(kC37Stale) && IsDevice(from) && IsIncoherent(to.base)) {
        return CopyUnseen(target, dst, src, size);
      }
      return Sim<&devrt_ops_v0::copy_async>(target.sim, dst, src, size,
                                            DEVRT_COPY_INFER);
    });
  });
}

hipError_t hipMemcpyPeerAsync(void* dst, int dst_device, const void* src,
                              int src_device, size_t size, hipStream_t stream) {
  return Call("hipMemcpyPeerAsync", kDeviceCall, [&] {
    if (CheckDevice(dst_device) != hipSuccess ||
        CheckDevice(src_device) != hipSuccess) {
      return hipErrorInvalidDevice;
    }
    if (size == 0) return hipSuccess;
    Target target;
    const hipError_t error = ResolveCopy("hipMemcpyPeerAsync", stream, &target);
    if (error != hipSuccess) return error;
    return Submit(target, [&] {
      return Sim<&devrt_ops_v0::copy_peer_async>(
          target.sim, dst, SimOf(dst_device), src, SimOf(src_device), size);
    });
  });
}

hipError_t hipMemsetAsync(void* dst, int value, size_t size,
                          hipStream_t stream) {
  return Call("hipMemsetAsync", kDeviceCall, [&] {
    if (size == 0) return hipSuccess;
    Target target;
    const hipError_t error = ResolveCopy("hipMemsetAsync", stream, &target);
    if (error != hipSuccess) return error;
    return Submit(target, [&] {
      return engine::Fill(target.sim, dst, static_cast<uint8_t>(value), size);
    });
  });
}
