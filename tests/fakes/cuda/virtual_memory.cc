// SPDX-License-Identifier: Apache-2.0
//
// Addresses, memory and their mapping, over the simulator's.  To the driver
// addresses are of no device; the simulator's are of the current context's
// here, and only chunks of that device can be mapped there.
#include <map>
#include <mutex>

#include "devrt/backends/abi/devrt_virtual_memory.h"
#include "tests/fakes/cuda/driver.h"

namespace devrt::fake {
namespace {

using Table = devrt_virtual_memory_v0;

template <auto kSlot, typename... Args>
CUresult Vm(Args... args) {
  const engine::Simulator& sim = engine::TheSimulator();
  static const auto* const table = static_cast<const Table*>(
      sim.ops->get_extension(sim.self, DEVRT_VIRTUAL_MEMORY_EXTENSION));
  return static_cast<CUresult>(
      engine::Translate((table->*kSlot)(sim.self, args...)));
}

void* Pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

devrt_chunk Chunk(CUmemGenericAllocationHandle handle) {
  return reinterpret_cast<devrt_chunk>(handle);
}

uint32_t DeviceOf(const char* call, const CUmemAllocationProp* what) {
  if (what->type != CU_MEM_ALLOCATION_TYPE_PINNED ||
      what->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    Die("%s: other memory than a device's is not known here", call);
  }
  return SimDevice(static_cast<uint32_t>(what->location.id));
}

// A mapping may not be touched before its device has access.
struct Mapping {
  size_t size;
  bool open;  // to its own device
};
std::mutex g_mutex;
std::map<CUdeviceptr, Mapping>& Mappings() {
  static auto* const mappings = new std::map<CUdeviceptr, Mapping>;
  return *mappings;
}

}  // namespace

Mapped StateOf(const void* ptr) {
  const std::lock_guard<std::mutex> lock(g_mutex);
  const auto address = reinterpret_cast<CUdeviceptr>(ptr);
  auto found = Mappings().upper_bound(address);
  if (found == Mappings().begin()) return Mapped::kNot;
  --found;
  if (address - found->first >= found->second.size) return Mapped::kNot;
  return found->second.open ? Mapped::kOpen : Mapped::kClosed;
}

}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global

CUresult cuMemGetAllocationGranularity(size_t* granularity,
                                       const CUmemAllocationProp* what,
                                       CUmemAllocationGranularity_flags) {
  const CUresult error = Enter("cuMemGetAllocationGranularity", kQuiet);
  if (error != CUDA_SUCCESS) return error;
  devrt_virtual_memory_info_v0 info{};
  info.struct_size = sizeof info;
  const CUresult result =
      Vm<&Table::info>(DeviceOf("cuMemGetAllocationGranularity", what), &info);
  if (result == CUDA_SUCCESS) *granularity = info.granularity;
  return result;
}

CUresult cuMemAddressReserve(CUdeviceptr* base, size_t size, size_t alignment,
                             CUdeviceptr wish, unsigned long long flags) {
  CUcontext context = nullptr;
  CUresult error = Enter("cuMemAddressReserve");
  if (error == CUDA_SUCCESS) error = NeedContext(&context);
  if (error != CUDA_SUCCESS) return error;
  if (wish != 0 || flags != 0) {
    Die("cuMemAddressReserve: wishes and flags are not known here");
  }
  void* made = nullptr;
  error = Vm<&Table::reserve>(SimDevice(context->device), uint64_t{size},
                              uint64_t{alignment}, &made);
  if (error == CUDA_SUCCESS) *base = reinterpret_cast<CUdeviceptr>(made);
  return error;
}

CUresult cuMemAddressFree(CUdeviceptr base, size_t size) {
  const CUresult error = Enter("cuMemAddressFree");
  if (error != CUDA_SUCCESS) return error;
  return Vm<&Table::release>(Pointer(base), uint64_t{size});
}

CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t size,
                     const CUmemAllocationProp* what,
                     unsigned long long flags) {
  const CUresult error = Enter("cuMemCreate");
  if (error != CUDA_SUCCESS) return error;
  if (flags != 0) Die("cuMemCreate: flags are not known here");
  devrt_chunk chunk = nullptr;
  const CUresult result =
      Vm<&Table::create>(DeviceOf("cuMemCreate", what), uint64_t{size}, &chunk);
  if (result == CUDA_SUCCESS) {
    *handle = reinterpret_cast<CUmemGenericAllocationHandle>(chunk);
  }
  return result;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const CUresult error = Enter("cuMemRelease");
  return error != CUDA_SUCCESS ? error : Vm<&Table::destroy>(Chunk(handle));
}

CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset,
                  CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  const CUresult error = Enter("cuMemMap");
  if (error != CUDA_SUCCESS) return error;
  if (offset != 0 || flags != 0) {
    Die("cuMemMap: offsets and flags are not known here");
  }
  const CUresult result =
      Vm<&Table::map>(Pointer(at), uint64_t{size}, Chunk(handle));
  if (result == CUDA_SUCCESS) {
    const std::lock_guard<std::mutex> lock(g_mutex);
    Mappings()[at] = {size, false};
  }
  return result;
}

CUresult cuMemUnmap(CUdeviceptr at, size_t size) {
  const CUresult error = Enter("cuMemUnmap");
  if (error != CUDA_SUCCESS) return error;
  const CUresult result = Vm<&Table::unmap>(Pointer(at), uint64_t{size});
  if (result == CUDA_SUCCESS) {
    const std::lock_guard<std::mutex> lock(g_mutex);
    Mappings().erase(Mappings().lower_bound(at),
                     Mappings().lower_bound(at + size));
  }
  return result;
}

// The simulator gives peers access by contexts only; here it is enough that
// the range is mapped.
CUresult cuMemSetAccess(CUdeviceptr at, size_t size,
                        const CUmemAccessDesc* access, size_t count) {
  const CUresult error = Enter("cuMemSetAccess");
  if (error != CUDA_SUCCESS) return error;
  const std::lock_guard<std::mutex> lock(g_mutex);
  const auto found = Mappings().find(at);
  if (found == Mappings().end() || found->second.size != size || count != 1 ||
      access->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const auto owner = engine::LookUp(Pointer(at)).device;
  if (SimDevice(static_cast<uint32_t>(access->location.id)) ==
      static_cast<uint32_t>(owner)) {
    found->second.open = access->flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  return CUDA_SUCCESS;
}
