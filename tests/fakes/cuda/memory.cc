// SPDX-License-Identifier: Apache-2.0
//
// Memory of both sides, copies and fills.
#include <cstring>
#include <mutex>
#include <set>
#include <vector>

#include "tests/fakes/common/flags.h"
#include "tests/fakes/cuda/driver.h"

namespace devrt::fake {
namespace {

using engine::LookUp;

constexpr uint64_t kStep = 512;  // of all allocations, as measured

CUresult EnterWithContext(const char* name, uint32_t* sim_device) {
  CUcontext context = nullptr;
  CUresult error = Enter(name);
  if (error == CUDA_SUCCESS) error = NeedContext(&context);
  if (error == CUDA_SUCCESS) *sim_device = SimDevice(context->device);
  return error;
}

void* Pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

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

// Of the simulator it is pinned memory: all devices and the host reach it.
class ManagedMemory {
 public:
  static ManagedMemory& Get() {
    static ManagedMemory* const all = new ManagedMemory;
    return *all;
  }
  void Add(void* base) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bases_.insert(base);
  }
  bool Has(void* base) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return bases_.count(base) != 0;
  }
  bool Remove(void* base) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return bases_.erase(base) != 0;
  }

 private:
  std::mutex mutex_;
  std::set<void*> bases_;
};

// A free waits for all work of the owning device, and for no other.
CUresult EndUses(const devrt_pointer_info_v0& info) {
  const CUresult error =
      Sim<&devrt_ops_v0::device_sync>(static_cast<uint32_t>(info.device));
  if (error == CUDA_SUCCESS) ForgetWords(info.base, info.size);
  return error;
}

constexpr size_t kEarlyReadBelow = 32 << 10;

// The stream itself has nothing to do; what the legacy stream's rules let it
// wait for does not count.
bool IsIdle(const Target& target) {
  if (target.own == nullptr || target.own->last_work == nullptr) return false;
  uint32_t done = 0;
  return Sim<&devrt_ops_v0::event_query>(target.own->last_work, &done) ==
             CUDA_SUCCESS &&
         done != 0;
}

// With early_reads: the source as it is now.
CUresult CopyAsOfNow(const Target& target, void* dst, const void* src,
                     size_t size) {
  const auto* const bytes = static_cast<const unsigned char*>(src);
  return static_cast<CUresult>(engine::LaunchBody(
      target.sim, "small copy to the device",
      [=, data = std::vector<unsigned char>(bytes, bytes + size)](
          const devrt_kernel_context_v0& context) {
        void* const local =
            context.local(&context, dst, size, DEVRT_ACCESS_WRITE);
        if (local != nullptr) {
          std::memcpy(local, data.data(), size);
        }
      }));
}

enum Sides : unsigned { kAnySides = 0, kDeviceDst = 1, kDeviceSrc = 2 };

// The pointers decide; `sides` only says where plain host memory is wrong.
CUresult Copy(const char* name, void* dst, const void* src, size_t size,
              unsigned sides, CUstream stream) {
  CUresult error = Enter(name);
  if (error != CUDA_SUCCESS || size == 0) return error;
  Target target;
  error = Resolve(name, stream, &target);
  if (error != CUDA_SUCCESS) return error;
  const uint32_t device = target.context->device;
  for (const void* const ptr : {const_cast<const void*>(dst), src}) {
    const Mapped mapped = StateOf(ptr);
    if (mapped == Mapped::kClosed || IsForbidden(ptr, device)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    // Looked up in the current context, not in the stream's, as measured; the
    // driver takes some of them all the same.
    const Stack& stack = ContextStack();
    if (mapped == Mapped::kOpen &&
        (stack.empty() || stack.back() != target.context)) {
      return CUDA_ERROR_INVALID_VALUE;
    }
  }
  const devrt_pointer_info_v0 to = LookUp(dst), from = LookUp(src);
  if (((sides & kDeviceDst) != 0 && IsPageable(to)) ||
      ((sides & kDeviceSrc) != 0 && IsPageable(from))) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (IsDevice(to) && IsDevice(from) && to.device != from.device) {
    return Submitted(target,
                     Sim<&devrt_ops_v0::copy_peer_async>(
                         target.sim, dst, static_cast<uint32_t>(to.device), src,
                         static_cast<uint32_t>(from.device), size));
  }
  if (Has(kEarlyReads) && size < kEarlyReadBelow && IsDevice(to) &&
      from.kind == DEVRT_POINTER_PINNED && IsIdle(target)) {
    return Submitted(target, CopyAsOfNow(target, dst, src, size));
  }
  return Submitted(target, Sim<&devrt_ops_v0::copy_async>(
                               target.sim, dst, src, size, DEVRT_COPY_INFER));
}

}  // namespace
}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global
using devrt::fake::engine::LookUp;

// ---- Allocation -------------------------------------------------------------

CUresult cuMemAlloc(CUdeviceptr* ptr, size_t size) {
  uint32_t device = 0;
  CUresult error = EnterWithContext("cuMemAlloc", &device);
  if (error == CUDA_SUCCESS) error = BreakCaptures();
  if (error != CUDA_SUCCESS) return error;
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  void* made = nullptr;
  const CUresult result = Sim<&devrt_ops_v0::alloc>(device, size, kStep, &made);
  if (result == CUDA_SUCCESS) *ptr = reinterpret_cast<CUdeviceptr>(made);
  return result;
}

CUresult cuMemAllocManaged(CUdeviceptr* ptr, size_t size, unsigned flags) {
  uint32_t device = 0;
  const CUresult error = EnterWithContext("cuMemAllocManaged", &device);
  if (error != CUDA_SUCCESS) return error;
  if (flags != CU_MEM_ATTACH_GLOBAL) {
    Die("cuMemAllocManaged: flags %u are not known here", flags);
  }
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  void* made = nullptr;
  const CUresult result =
      Sim<&devrt_ops_v0::host_alloc>(device, size, kStep, &made);
  if (result != CUDA_SUCCESS) return result;
  ManagedMemory::Get().Add(made);
  *ptr = reinterpret_cast<CUdeviceptr>(made);
  return result;
}

CUresult cuMemFree(CUdeviceptr ptr) {
  CUresult error = Enter("cuMemFree");
  if (error == CUDA_SUCCESS) error = BreakCaptures();
  if (error != CUDA_SUCCESS || ptr == 0) return error;
  devrt_pointer_info_v0 info;
  if (ManagedMemory::Get().Remove(Pointer(ptr)))
    return cuMemFreeHost(Pointer(ptr));
  if (!IsBase(Pointer(ptr), DEVRT_POINTER_DEVICE, &info)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Sim<&devrt_ops_v0::dealloc>(static_cast<uint32_t>(info.device),
                                     Pointer(ptr), info.size);
}

CUresult cuMemHostAlloc(void** ptr, size_t size, unsigned flags) {
  uint32_t device = 0;
  CUresult error = EnterWithContext("cuMemHostAlloc", &device);
  if (error == CUDA_SUCCESS) error = BreakCaptures();
  if (error != CUDA_SUCCESS) return error;
  if (flags != CU_MEMHOSTALLOC_PORTABLE) {
    Die("cuMemHostAlloc: flags %u are not known here", flags);
  }
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  return Sim<&devrt_ops_v0::host_alloc>(device, size, kStep, ptr);
}

CUresult cuMemFreeHost(void* ptr) {
  const CUresult error = Enter("cuMemFreeHost");
  if (error != CUDA_SUCCESS) return error;
  devrt_pointer_info_v0 info;
  if (!IsBase(ptr, DEVRT_POINTER_PINNED, &info)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const CUresult synced = EndUses(info);
  if (synced != CUDA_SUCCESS) return synced;
  return Sim<&devrt_ops_v0::host_dealloc>(ptr, info.size);
}

CUresult cuMemHostRegister(void* ptr, size_t size, unsigned flags) {
  uint32_t device = 0;
  const CUresult error = EnterWithContext("cuMemHostRegister", &device);
  if (error != CUDA_SUCCESS) return error;
  // With one address space for all devices there is no difference.
  if ((flags & ~static_cast<unsigned>(CU_MEMHOSTREGISTER_PORTABLE)) != 0) {
    Die("cuMemHostRegister: flags %u are not known here", flags);
  }
  return Sim<&devrt_ops_v0::host_register>(device, ptr, size);
}

CUresult cuMemHostUnregister(void* ptr) {
  const CUresult error = Enter("cuMemHostUnregister");
  if (error != CUDA_SUCCESS) return error;
  const devrt_pointer_info_v0 info = LookUp(ptr);
  if (!IsPageable(info) && info.base == ptr) {
    const CUresult synced = EndUses(info);
    if (synced != CUDA_SUCCESS) return synced;
  }
  return Sim<&devrt_ops_v0::host_unregister>(ptr);
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes,
                                void** values, CUdeviceptr ptr) {
  const CUresult error = Enter("cuPointerGetAttributes", kQuiet);
  if (error != CUDA_SUCCESS) return error;
  const devrt_pointer_info_v0 info = LookUp(Pointer(ptr));
  const bool known = !IsPageable(info);
  const bool managed = known && ManagedMemory::Get().Has(info.base);
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(values[i]) = !known ? 0
                                             : IsDevice(info) || managed
                                                 ? CU_MEMORYTYPE_DEVICE
                                                 : CU_MEMORYTYPE_HOST;
        break;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned*>(values[i]) = managed ? 1 : 0;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(values[i]) =
            known ? DriverDevice(static_cast<uint32_t>(info.device))
                  : CU_DEVICE_INVALID;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
        *static_cast<void**>(values[i]) = info.base;
        break;
      case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
        *static_cast<size_t*>(values[i]) = info.size;
        break;
      case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *static_cast<unsigned long long*>(values[i]) = info.allocation_id;
        break;
      default:
        Die("cuPointerGetAttributes: attribute %d is not known here",
            attributes[i]);
    }
  }
  return CUDA_SUCCESS;
}

// ---- Copies and fills -------------------------------------------------------

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t size,
                       CUstream stream) {
  return Copy("cuMemcpyAsync", Pointer(dst), Pointer(src), size, kAnySides,
              stream);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void* src, size_t size,
                           CUstream stream) {
  return Copy("cuMemcpyHtoDAsync", Pointer(dst), src, size, kDeviceDst, stream);
}

CUresult cuMemcpyDtoHAsync(void* dst, CUdeviceptr src, size_t size,
                           CUstream stream) {
  return Copy("cuMemcpyDtoHAsync", dst, Pointer(src), size, kDeviceSrc, stream);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t size,
                           CUstream stream) {
  return Copy("cuMemcpyDtoDAsync", Pointer(dst), Pointer(src), size,
              kDeviceDst | kDeviceSrc, stream);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context,
                           CUdeviceptr src, CUcontext src_context, size_t size,
                           CUstream stream) {
  CUresult error = Enter("cuMemcpyPeerAsync");
  if (error == CUDA_SUCCESS) error = CheckAlive(dst_context);
  if (error == CUDA_SUCCESS) error = CheckAlive(src_context);
  if (error != CUDA_SUCCESS || size == 0) return error;
  Target target;
  error = Resolve("cuMemcpyPeerAsync", stream, &target);
  if (error != CUDA_SUCCESS) return error;
  const void* const from = Pointer(src);
  return Submitted(target,
                   Sim<&devrt_ops_v0::copy_peer_async>(
                       target.sim, Pointer(dst), SimDevice(dst_context->device),
                       from, SimDevice(src_context->device), size));
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t size,
                         CUstream stream) {
  CUresult error = Enter("cuMemsetD8Async");
  if (error != CUDA_SUCCESS || size == 0) return error;
  Target target;
  error = Resolve("cuMemsetD8Async", stream, &target);
  if (error != CUDA_SUCCESS) return error;
  if (StateOf(Pointer(dst)) == Mapped::kClosed ||
      IsForbidden(Pointer(dst), target.context->device)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  return Submitted(target, static_cast<CUresult>(engine::Fill(
                               target.sim, Pointer(dst), value, size)));
}
