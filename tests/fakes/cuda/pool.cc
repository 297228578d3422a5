// SPDX-License-Identifier: Apache-2.0
//
// Memory pools over the simulator's stream-ordered memory.  A pool keeps
// nothing that is unused here, whatever its threshold says.
#include <map>
#include <set>

#include "tests/fakes/cuda/driver.h"

struct CUmemPoolHandle_st {
  uint32_t device = 0;       // of the driver
  std::set<int> may_access;  // other devices
};

namespace devrt::fake {
namespace {

void* Pointer(CUdeviceptr address) { return reinterpret_cast<void*>(address); }

Registry<CUmemPoolHandle_st>& Pools() {
  static auto* const pools = new Registry<CUmemPoolHandle_st>();
  return *pools;
}

std::atomic<bool> g_has_blocks{false};  // ever
std::mutex g_mutex;
// By allocation: its pool.  Numbers of allocations are never used again.
std::map<uint64_t, CUmemoryPool>& Blocks() {
  static auto* const blocks = new std::map<uint64_t, CUmemoryPool>;
  return *blocks;
}

}  // namespace

bool IsForbidden(const void* ptr, uint32_t device) {
  if (!g_has_blocks) return false;
  const devrt_pointer_info_v0 info = engine::LookUp(ptr);
  const std::lock_guard<std::mutex> lock(g_mutex);
  const auto found = Blocks().find(info.allocation_id);
  if (found == Blocks().end() || found->second->device == device) return false;
  return found->second->may_access.count(static_cast<int>(device)) == 0;
}

}  // namespace devrt::fake

using namespace devrt::fake;  // NOLINT: the driver's own names are global

CUresult cuMemPoolCreate(CUmemoryPool* pool, const CUmemPoolProps* what) {
  const CUresult error = Enter("cuMemPoolCreate");
  if (error != CUDA_SUCCESS) return error;
  if (what->allocType != CU_MEM_ALLOCATION_TYPE_PINNED ||
      what->handleTypes != CU_MEM_HANDLE_TYPE_NONE ||
      what->location.type != CU_MEM_LOCATION_TYPE_DEVICE) {
    Die("cuMemPoolCreate: pools of other memory are not known here");
  }
  int count = 0;
  if (cuDeviceGetCount(&count) != CUDA_SUCCESS || what->location.id < 0 ||
      what->location.id >= count) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  auto* const made = new CUmemPoolHandle_st();  // for ever: blocks outlive it
  made->device = static_cast<uint32_t>(what->location.id);
  Pools().Add(made);
  *pool = made;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  const CUresult error = Enter("cuMemPoolDestroy", kQuiet);
  if (error != CUDA_SUCCESS) return error;
  return Pools().Remove(pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute attribute,
                               void*) {
  const CUresult error = Enter("cuMemPoolSetAttribute");
  if (error != CUDA_SUCCESS) return error;
  Pools().Check(pool, "cuMemPoolSetAttribute", "pool");
  if (attribute != CU_MEMPOOL_ATTR_RELEASE_THRESHOLD &&
      attribute != CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES) {
    Die("cuMemPoolSetAttribute: attribute %d is not known here", attribute);
  }
  return CUDA_SUCCESS;
}

CUresult cuMemPoolSetAccess(CUmemoryPool pool, const CUmemAccessDesc* access,
                            size_t count) {
  const CUresult error = Enter("cuMemPoolSetAccess");
  if (error != CUDA_SUCCESS) return error;
  Pools().Check(pool, "cuMemPoolSetAccess", "pool");
  const std::lock_guard<std::mutex> lock(g_mutex);
  for (size_t i = 0; i < count; ++i) {
    const int device = access[i].location.id;
    const bool open = access[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    // A device keeps access to what is its own.
    if (device == static_cast<int>(pool->device)) {
      if (!open) return CUDA_ERROR_INVALID_VALUE;
      continue;
    }
    int can = 0;
    if (cuDeviceCanAccessPeer(&can, device, static_cast<int>(pool->device)) !=
            CUDA_SUCCESS ||
        can == 0) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
    if (open) {
      pool->may_access.insert(device);
    } else {
      pool->may_access.erase(device);
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t) {
  const CUresult error = Enter("cuMemPoolTrimTo");
  if (error != CUDA_SUCCESS) return error;
  Pools().Check(pool, "cuMemPoolTrimTo", "pool");
  return CUDA_SUCCESS;
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr* ptr, size_t size,
                                 CUmemoryPool pool, CUstream stream) {
  CUresult error = Enter("cuMemAllocFromPoolAsync");
  Target target;
  if (error == CUDA_SUCCESS) {
    error = Resolve("cuMemAllocFromPoolAsync", stream, &target);
  }
  if (error != CUDA_SUCCESS) return error;
  Pools().Check(pool, "cuMemAllocFromPoolAsync", "pool");
  if (size == 0) return CUDA_ERROR_INVALID_VALUE;
  if (pool->device != target.context->device) {
    Die("cuMemAllocFromPoolAsync: pools of another device than the stream's "
        "are not known here");
  }
  constexpr uint64_t kStep = 512;  // of all allocations, as measured
  void* made = nullptr;
  const CUresult result =
      Submitted(target, Sim<&devrt_ops_v0::alloc_async>(
                            target.sim, uint64_t{size}, kStep, &made));
  if (result != CUDA_SUCCESS) return result;
  *ptr = reinterpret_cast<CUdeviceptr>(made);
  const devrt_pointer_info_v0 info = engine::LookUp(made);
  const std::lock_guard<std::mutex> lock(g_mutex);
  Blocks()[info.allocation_id] = pool;
  g_has_blocks = true;
  return CUDA_SUCCESS;
}

CUresult cuMemFreeAsync(CUdeviceptr ptr, CUstream stream) {
  CUresult error = Enter("cuMemFreeAsync");
  Target target;
  if (error == CUDA_SUCCESS) {
    error = Resolve("cuMemFreeAsync", stream, &target);
  }
  if (error != CUDA_SUCCESS) return error;
  const devrt_pointer_info_v0 info = engine::LookUp(Pointer(ptr));
  if (info.base != Pointer(ptr)) return CUDA_ERROR_INVALID_VALUE;
  if (info.device != static_cast<int>(SimDevice(target.context->device))) {
    Die("cuMemFreeAsync: memory of another device than the stream's is not "
        "known here");
  }
  return Submitted(target, Sim<&devrt_ops_v0::dealloc_async>(
                               target.sim, Pointer(ptr), info.size));
}
