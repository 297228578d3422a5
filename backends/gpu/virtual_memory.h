// SPDX-License-Identifier: Apache-2.0
//
// VirtualMemory<Api>: devrt.virtual_memory/0, for Api::kHasVirtualMemory.
//
// Drivers leave most wrong calls undefined.  Tables of what is reserved and
// mapped detect them here.  Access to a peer's memory is set for each mapping,
// not for a context.  So it is set when a chunk is mapped and when a peer is
// enabled.
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_GPU_VIRTUAL_MEMORY_H_
#define DEVRT_BACKENDS_GPU_VIRTUAL_MEMORY_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/gpu/aligned.h"
#include "backends/gpu/context_scope.h"
#include "backends/gpu/device.h"
#include "backends/gpu/memory_readers.h"
#include "backends/gpu/objects.h"
#include "backends/gpu/pool.h"
#include "devrt/backends/abi/devrt_virtual_memory.h"

namespace devrt::gpu {

// Returns true if `size` and `at` are multiples of the granularity.
inline bool IsWhole(uint64_t granularity, uint64_t size, const void* at) {
  return size != 0 &&
         ((size | reinterpret_cast<uintptr_t>(at)) & (granularity - 1)) == 0;
}

template <class Api>
class VirtualMemory {
 public:
  using Error = typename Api::Error;
  using Context = typename Api::Context;
  using Device = gpu::Device<Api>;

  VirtualMemory(Devices<Api>* devices, const Pools<Api>* pools)
      : driver_(devices->driver()),
        api_(driver_.api()),
        devices_(*devices),
        pools_(*pools) {}
  VirtualMemory(const VirtualMemory&) = delete;
  VirtualMemory& operator=(const VirtualMemory&) = delete;

  // Lets the device `reader` use the mapped memory of the device `owner`, or
  // withdraws that.
  Error Allow(uint32_t reader, uint32_t owner, bool allow);

  // If `ptr` is mapped, sets base and size to the part of the mapping that one
  // chunk backs.
  void DescribeMapped(const void* ptr, devrt_pointer_info_v0* info);

  // devrt.virtual_memory/0 of the plugin whose class is `Backend`; nullptr if
  // the driver lacks a function.
  template <class Backend>
  const devrt_virtual_memory_v0* VirtualMemoryTable() const {
    static constexpr devrt_virtual_memory_v0 kTable = {
        sizeof(devrt_virtual_memory_v0),
        0,
        plugin::Thunk<&VirtualMemory::VmInfo, Backend>,
        plugin::Thunk<&VirtualMemory::VmReserve, Backend>,
        plugin::Thunk<&VirtualMemory::VmRelease, Backend>,
        plugin::Thunk<&VirtualMemory::VmCreate, Backend>,
        plugin::Thunk<&VirtualMemory::VmDestroy, Backend>,
        plugin::Thunk<&VirtualMemory::VmMap, Backend>,
        plugin::Thunk<&VirtualMemory::VmUnmap, Backend>};
    return api_.CanMapMemory() ? &kTable : nullptr;
  }

 private:
  struct Chunk {
    uint32_t device = 0;
    uint64_t size = 0;
    uint64_t native = 0;
    char* at = nullptr;  // nullptr: not mapped
  };
  struct Reserved {
    uint32_t device;
    uint64_t size;
    uint64_t granularity;
  };

  devrt_status VmInfo(uint32_t device, devrt_virtual_memory_info_v0* info);
  devrt_status VmReserve(uint32_t device, uint64_t size, uint64_t alignment,
                         void** base);
  devrt_status VmRelease(void* base, uint64_t size);
  devrt_status VmCreate(uint32_t device, uint64_t size, devrt_chunk* chunk);
  devrt_status VmDestroy(devrt_chunk chunk);
  devrt_status VmMap(void* address, uint64_t size, devrt_chunk chunk);
  devrt_status VmUnmap(void* address, uint64_t size);
  devrt_status VmFind(uint32_t device, Device** found, uint64_t* granularity);
  devrt_status VmCheckPart(char* at, uint64_t size, uint32_t* device);
  // True if a part of [at, at + size) is mapped.
  bool IsMappedIn(const char* at, uint64_t size) const;

  Driver<Api>& driver_;
  const Api& api_;
  Devices<Api>& devices_;
  const Pools<Api>& pools_;
  std::mutex mutex_;  // guards the next four
  MemoryReaders readers_;
  std::map<char*, Reserved> reserved_;
  std::map<char*, Chunk*> mapped_;
  std::unordered_map<Chunk*, std::unique_ptr<Chunk>> chunks_;
  // No mapping was ever outside this range.
  std::atomic<uintptr_t> mapped_begin_{UINTPTR_MAX};
  std::atomic<uintptr_t> mapped_end_{0};
};

template <class Api>
devrt_status VirtualMemory<Api>::VmFind(uint32_t ordinal, Device** device,
                                        uint64_t* granularity) {
  if (devrt_status error = devices_.Find(ordinal, device)) return error;
  return driver_.ToStatus(api_.ChunkGranularity((*device)->native, granularity),
                          "virtual memory", *device);
}

template <class Api>
devrt_status VirtualMemory<Api>::VmInfo(uint32_t ordinal,
                                        devrt_virtual_memory_info_v0* info) {
  Device* device = nullptr;
  devrt_virtual_memory_info_v0 mine{};
  if (devrt_status error = VmFind(ordinal, &device, &mine.granularity)) {
    return error;
  }
  plugin::WriteStruct(info, mine);
  return nullptr;
}

template <class Api>
devrt_status VirtualMemory<Api>::VmReserve(uint32_t ordinal, uint64_t size,
                                           uint64_t alignment, void** base) {
  Device* device = nullptr;
  uint64_t granularity = 0;
  if (devrt_status error = VmFind(ordinal, &device, &granularity)) return error;
  if (!IsWhole(granularity, size, nullptr) ||
      (alignment & (alignment - 1)) != 0) {
    return driver_.Refuse(
        DEVRT_INVALID_ARGUMENT,
        "a reservation of %llu bytes aligned to %llu: expected a "
        "multiple of the granularity, %llu, and a power of two",
        static_cast<unsigned long long>(size),
        static_cast<unsigned long long>(alignment),
        static_cast<unsigned long long>(granularity));
  }
  if (size >= kLargestSize || alignment >= kLargestSize) {
    return driver_.Refuse(DEVRT_RESOURCE_EXHAUSTED,
                          "%llu bytes are more than there are addresses",
                          static_cast<unsigned long long>(size));
  }
  // Addresses belong to no device for the driver, but the fake driver asks for
  // the context.
  const PrimaryContextScope<Api> scope(&devices_, ordinal);
  if (scope.failed()) return scope.error();
  void* reserved = nullptr;
  if (devrt_status error = driver_.ToStatus(
          api_.ReserveAddresses(&reserved, size,
                                std::max(alignment, granularity)),
          "reservation of addresses", device)) {
    return error;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  reserved_[static_cast<char*>(reserved)] = {ordinal, size, granularity};
  *base = reserved;
  return nullptr;
}

template <class Api>
devrt_status VirtualMemory<Api>::VmRelease(void* base, uint64_t size) {
  const std::lock_guard<std::mutex> lock(mutex_);
  char* const begin = static_cast<char*>(base);
  const auto found = reserved_.find(begin);
  if (found == reserved_.end() || found->second.size != size) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT,
                          "no reservation of %llu bytes begins at %p",
                          static_cast<unsigned long long>(size), base);
  }
  const auto mapped = mapped_.lower_bound(begin);
  if (mapped != mapped_.end() && mapped->first < begin + size) {
    return driver_.Refuse(
        DEVRT_INVALID_ARGUMENT,
        "the reservation at %p still has memory at %p: unmap it "
        "first",
        base, static_cast<void*>(mapped->first));
  }
  if (devrt_status error = driver_.ToStatusOfEnd(
          api_.ReleaseAddresses(base, size), "release of addresses",
          &devices_[found->second.device])) {
    return error;
  }
  reserved_.erase(found);
  return nullptr;
}

template <class Api>
devrt_status VirtualMemory<Api>::VmCreate(uint32_t ordinal, uint64_t size,
                                          devrt_chunk* chunk) {
  Device* device = nullptr;
  uint64_t granularity = 0;
  if (devrt_status error = VmFind(ordinal, &device, &granularity)) return error;
  if (!IsWhole(granularity, size, nullptr)) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT,
                          "a chunk of %llu bytes: expected a multiple of the "
                          "granularity, %llu",
                          static_cast<unsigned long long>(size),
                          static_cast<unsigned long long>(granularity));
  }
  if (size >= kLargestSize) {
    return driver_.Refuse(DEVRT_RESOURCE_EXHAUSTED,
                          "%llu bytes are more than any device has",
                          static_cast<unsigned long long>(size));
  }
  auto made = std::make_unique<Chunk>();
  made->device = ordinal;
  made->size = size;
  const auto create = [&] {
    return api_.CreateChunk(device->native, size, &made->native);
  };
  if (devrt_status error = driver_.ToStatus(pools_.WithRoom(*device, create),
                                            "allocation of a chunk", device)) {
    return error;
  }
  const std::lock_guard<std::mutex> lock(mutex_);
  Chunk* const raw = made.get();
  chunks_[raw] = std::move(made);
  *chunk = reinterpret_cast<devrt_chunk>(raw);
  return nullptr;
}

template <class Api>
devrt_status VirtualMemory<Api>::VmDestroy(devrt_chunk handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = chunks_.find(reinterpret_cast<Chunk*>(handle));
  if (found == chunks_.end()) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT,
                          "the chunk was destroyed or never made");
  }
  Chunk* const chunk = found->first;
  if (chunk->at != nullptr) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT,
                          "the chunk is mapped at %p: unmap it first",
                          static_cast<void*>(chunk->at));
  }
  if (devrt_status error = driver_.ToStatusOfEnd(
          api_.DestroyChunk(chunk->native), "deallocation of a chunk",
          &devices_[chunk->device])) {
    return error;
  }
  chunks_.erase(found);
  return nullptr;
}

// Checks that [at, at + size) is a part of one reservation, in whole granules.
template <class Api>
devrt_status VirtualMemory<Api>::VmCheckPart(char* at, uint64_t size,
                                             uint32_t* device) {
  auto found = reserved_.upper_bound(at);
  if (found != reserved_.begin()) {
    --found;
    const Reserved& r = found->second;
    const uint64_t offset = static_cast<uint64_t>(at - found->first);
    if (IsWhole(r.granularity, size, at) && offset < r.size &&
        size <= r.size - offset) {
      *device = r.device;
      return nullptr;
    }
  }
  return driver_.Refuse(
      DEVRT_INVALID_ARGUMENT,
      "[%p, +%llu) is no part of a reservation in multiples of the "
      "granularity",
      static_cast<void*>(at), static_cast<unsigned long long>(size));
}

template <class Api>
bool VirtualMemory<Api>::IsMappedIn(const char* at, uint64_t size) const {
  const auto next = mapped_.lower_bound(const_cast<char*>(at));
  if (next != mapped_.end() && next->first < at + size) return true;
  if (next == mapped_.begin()) return false;
  const auto& [begin, chunk] = *std::prev(next);
  return begin + chunk->size > at;
}

template <class Api>
devrt_status VirtualMemory<Api>::VmMap(void* address, uint64_t size,
                                       devrt_chunk handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  char* const at = static_cast<char*>(address);
  uint32_t ordinal = 0;
  if (devrt_status error = VmCheckPart(at, size, &ordinal)) return error;
  const auto found = chunks_.find(reinterpret_cast<Chunk*>(handle));
  if (found == chunks_.end() || found->first->at != nullptr ||
      found->first->size != size || found->first->device != ordinal) {
    return driver_.Refuse(
        DEVRT_INVALID_ARGUMENT,
        "the mapping at %p needs a live chunk of %s:%u with %llu bytes that "
        "is mapped nowhere",
        address, Api::kBackend, ordinal, static_cast<unsigned long long>(size));
  }
  if (IsMappedIn(at, size)) {
    return driver_.Refuse(DEVRT_ALREADY_EXISTS,
                          "memory is mapped in [%p, +%llu) already", address,
                          static_cast<unsigned long long>(size));
  }
  Device* const device = &devices_[ordinal];
  Chunk* const chunk = found->first;
  if (devrt_status error = driver_.ToStatus(
          api_.MapChunk(address, size, chunk->native), "mapping", device)) {
    return error;
  }
  Error error = api_.AllowAccess(address, size, device->native, true);
  readers_.ForEach(ordinal, [&](uint32_t reader) {
    if (error != Api::kSuccess) return;
    error = api_.AllowAccess(address, size, devices_[reader].native, true);
  });
  if (error != Api::kSuccess) {
    (void)api_.UnmapChunks(address, size);
    return driver_.ToStatus(error, "access to a mapping", device);
  }
  chunk->at = at;
  mapped_[at] = chunk;
  const auto begin = reinterpret_cast<uintptr_t>(at);
  mapped_begin_ = std::min(mapped_begin_.load(), begin);
  mapped_end_ = std::max(mapped_end_.load(), begin + chunk->size);
  return nullptr;
}

template <class Api>
devrt_status VirtualMemory<Api>::VmUnmap(void* address, uint64_t size) {
  std::unique_lock<std::mutex> lock(mutex_);
  char* const at = static_cast<char*>(address);
  uint32_t ordinal = 0;
  if (devrt_status error = VmCheckPart(at, size, &ordinal)) return error;
  const auto begin = mapped_.find(at);
  auto end = begin;
  char* reached = at;
  while (end != mapped_.end() && reached < at + size && end->first == reached) {
    reached += end->second->size;
    ++end;
  }
  if (reached != at + size) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT,
                          "[%p, +%llu) is not made of whole mapped chunks",
                          address, static_cast<unsigned long long>(size));
  }
  // The driver may wait for work here, and that work may wait for a thread that
  // queries a pointer.  Until the driver returns, the chunks cannot be mapped
  // elsewhere.
  const std::vector<std::pair<char* const, Chunk*>> leaving(begin, end);
  mapped_.erase(begin, end);
  lock.unlock();
  devrt_status error = driver_.ToStatusOfEnd(api_.UnmapChunks(address, size),
                                             "unmapping", &devices_[ordinal]);
  lock.lock();
  if (error != nullptr) mapped_.insert(leaving.begin(), leaving.end());
  for (const auto& [place, chunk] : leaving) {
    if (error == nullptr) chunk->at = nullptr;
  }
  return error;
}

template <class Api>
typename Api::Error VirtualMemory<Api>::Allow(uint32_t reader, uint32_t owner,
                                              bool allow) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (!allow) readers_.Set(reader, owner, false);
  for (const auto& [at, chunk] : mapped_) {
    if (chunk->device != owner) continue;
    const Error error =
        api_.AllowAccess(at, chunk->size, devices_[reader].native, allow);
    if (error != Api::kSuccess) return error;
  }
  if (allow) readers_.Set(reader, owner, true);
  return Api::kSuccess;
}

template <class Api>
void VirtualMemory<Api>::DescribeMapped(const void* ptr,
                                        devrt_pointer_info_v0* info) {
  const auto address = reinterpret_cast<uintptr_t>(ptr);
  if (address < mapped_begin_ || address >= mapped_end_) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  char* const at = static_cast<char*>(const_cast<void*>(ptr));
  auto found = mapped_.upper_bound(at);
  if (found == mapped_.begin()) return;
  --found;
  if (at >= found->first + found->second->size) return;
  info->base = found->first;
  info->size = found->second->size;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_VIRTUAL_MEMORY_H_
