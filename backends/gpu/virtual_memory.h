// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: devrt.virtual_memory/0, where Api::kHasVirtualMemory.
//
// Drivers leave most wrong calls undefined; here they are found out first, by
// tables of what is reserved and mapped.  Access to peers is of a mapping, not
// of a context: it is given when a chunk is mapped and when a peer is enabled.

#ifndef DEVRT_BACKENDS_GPU_VIRTUAL_MEMORY_H_
#define DEVRT_BACKENDS_GPU_VIRTUAL_MEMORY_H_

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "backends/gpu/backend.h"
#include "backends/gpu/memory.h"

namespace devrt::gpu {

// Whether `size` and `at` are of the granularity.
inline bool IsWhole(uint64_t granularity, uint64_t size, const void* at) {
  return size != 0 &&
         ((size | reinterpret_cast<uintptr_t>(at)) & (granularity - 1)) == 0;
}

template <class Api>
devrt_status Backend<Api>::VmFind(uint32_t ordinal, Device** device,
                                  uint64_t* granularity) {
  if (devrt_status error = Find(ordinal, device)) return error;
  return Take(api_->ChunkGranularity((*device)->native, granularity),
              "virtual memory", *device);
}

template <class Api>
devrt_status Backend<Api>::VmInfo(uint32_t ordinal,
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
devrt_status Backend<Api>::VmReserve(uint32_t ordinal, uint64_t size,
                                     uint64_t alignment, void** base) {
  Device* device = nullptr;
  uint64_t granularity = 0;
  if (devrt_status error = VmFind(ordinal, &device, &granularity)) return error;
  if (!IsWhole(granularity, size, nullptr) ||
      (alignment & (alignment - 1)) != 0) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  "a reservation of %llu bytes aligned to %llu: expected a "
                  "multiple of the granularity, %llu, and a power of two",
                  static_cast<unsigned long long>(size),
                  static_cast<unsigned long long>(alignment),
                  static_cast<unsigned long long>(granularity));
  }
  if (size >= kLargestSize || alignment >= kLargestSize) {
    return Refuse(DEVRT_RESOURCE_EXHAUSTED,
                  "%llu bytes are more than there are addresses",
                  static_cast<unsigned long long>(size));
  }
  // To the driver addresses are of no device; the fake one asks the context.
  Context context{};
  if (devrt_status error = Enter(device, &context)) return error;
  const ContextScope scope(*api_, context);
  if (devrt_status error = Take(scope.error(), "context", device)) return error;
  void* reserved = nullptr;
  if (devrt_status error =
          Take(api_->ReserveAddresses(&reserved, size,
                                      std::max(alignment, granularity)),
               "reservation of addresses", device)) {
    return error;
  }
  const std::lock_guard<std::mutex> lock(peers_mutex_);
  reserved_[static_cast<char*>(reserved)] = {ordinal, size, granularity};
  *base = reserved;
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::VmRelease(void* base, uint64_t size) {
  const std::lock_guard<std::mutex> lock(peers_mutex_);
  char* const begin = static_cast<char*>(base);
  const auto found = reserved_.find(begin);
  if (found == reserved_.end() || found->second.size != size) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  "no reservation of %llu bytes begins at %p",
                  static_cast<unsigned long long>(size), base);
  }
  const auto mapped = mapped_.lower_bound(begin);
  if (mapped != mapped_.end() && mapped->first < begin + size) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  "the reservation at %p still has memory at %p: unmap it "
                  "first",
                  base, static_cast<void*>(mapped->first));
  }
  if (devrt_status error =
          TakeEnd(api_->ReleaseAddresses(base, size), "release of addresses",
                  &devices_[found->second.device])) {
    return error;
  }
  reserved_.erase(found);
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::VmCreate(uint32_t ordinal, uint64_t size,
                                    devrt_chunk* chunk) {
  Device* device = nullptr;
  uint64_t granularity = 0;
  if (devrt_status error = VmFind(ordinal, &device, &granularity)) return error;
  if (!IsWhole(granularity, size, nullptr)) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  "a chunk of %llu bytes: expected a multiple of the "
                  "granularity, %llu",
                  static_cast<unsigned long long>(size),
                  static_cast<unsigned long long>(granularity));
  }
  if (size >= kLargestSize) {
    return Refuse(DEVRT_RESOURCE_EXHAUSTED,
                  "%llu bytes are more than any device has",
                  static_cast<unsigned long long>(size));
  }
  auto made = std::make_unique<Chunk>();
  made->device = ordinal;
  made->size = size;
  const auto create = [&] {
    return api_->CreateChunk(device->native, size, &made->native);
  };
  if (devrt_status error =
          Take(WithRoom(*device, create), "allocation of a chunk", device)) {
    return error;
  }
  const std::lock_guard<std::mutex> lock(peers_mutex_);
  Chunk* const raw = made.get();
  chunks_[raw] = std::move(made);
  *chunk = reinterpret_cast<devrt_chunk>(raw);
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::VmDestroy(devrt_chunk handle) {
  const std::lock_guard<std::mutex> lock(peers_mutex_);
  const auto found = chunks_.find(reinterpret_cast<Chunk*>(handle));
  if (found == chunks_.end()) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  "the chunk was destroyed or never made");
  }
  Chunk* const chunk = found->first;
  if (chunk->at != nullptr) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  "the chunk is mapped at %p: unmap it first",
                  static_cast<void*>(chunk->at));
  }
  if (devrt_status error =
          TakeEnd(api_->DestroyChunk(chunk->native), "deallocation of a chunk",
                  &devices_[chunk->device])) {
    return error;
  }
  chunks_.erase(found);
  return nullptr;
}

// [at, at + size) is a part of one reservation, in whole granules.
template <class Api>
devrt_status Backend<Api>::VmCheckPart(char* at, uint64_t size,
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
  return Refuse(DEVRT_INVALID_ARGUMENT,
                "[%p, +%llu) is no part of a reservation in multiples of the "
                "granularity",
                static_cast<void*>(at), static_cast<unsigned long long>(size));
}

template <class Api>
devrt_status Backend<Api>::VmMap(void* address, uint64_t size,
                                 devrt_chunk handle) {
  const std::lock_guard<std::mutex> lock(peers_mutex_);
  char* const at = static_cast<char*>(address);
  uint32_t ordinal = 0;
  if (devrt_status error = VmCheckPart(at, size, &ordinal)) return error;
  const auto found = chunks_.find(reinterpret_cast<Chunk*>(handle));
  if (found == chunks_.end() || found->first->at != nullptr ||
      found->first->size != size || found->first->device != ordinal) {
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  "what is mapped at %p has to be a live chunk of %s:%u and of "
                  "%llu bytes that is mapped nowhere",
                  address, Api::kBackend, ordinal,
                  static_cast<unsigned long long>(size));
  }
  const auto next = mapped_.lower_bound(at);
  const bool hits_next = next != mapped_.end() && next->first < at + size;
  const bool hits_last =
      next != mapped_.begin() &&
      std::prev(next)->first + std::prev(next)->second->size > at;
  if (hits_next || hits_last) {
    return Refuse(DEVRT_ALREADY_EXISTS, "something is mapped in [%p, +%llu)",
                  address, static_cast<unsigned long long>(size));
  }
  Device* const device = &devices_[ordinal];
  Chunk* const chunk = found->first;
  if (devrt_status error = Take(api_->MapChunk(address, size, chunk->native),
                                "mapping", device)) {
    return error;
  }
  Error error = api_->AllowAccess(address, size, device->native, true);
  for (const auto& [key, ours] : peers_) {
    if (error != Api::kSuccess || static_cast<uint32_t>(key) != ordinal) {
      continue;
    }
    error = api_->AllowAccess(address, size, devices_[key >> 32].native, true);
  }
  if (error != Api::kSuccess) {
    (void)api_->UnmapChunks(address, size);
    return Take(error, "access to a mapping", device);
  }
  chunk->at = at;
  mapped_[at] = chunk;
  const auto begin = reinterpret_cast<uintptr_t>(at);
  mapped_begin_ = std::min(mapped_begin_.load(), begin);
  mapped_end_ = std::max(mapped_end_.load(), begin + chunk->size);
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::VmUnmap(void* address, uint64_t size) {
  std::unique_lock<std::mutex> lock(peers_mutex_);
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
    return Refuse(DEVRT_INVALID_ARGUMENT,
                  "[%p, +%llu) is not made of whole mapped chunks", address,
                  static_cast<unsigned long long>(size));
  }
  // The driver may wait for work here, and whoever asks what a pointer is may
  // be what that work waits for.  Until then the chunks are mapped nowhere
  // else.
  const std::vector<std::pair<char* const, Chunk*>> leaving(begin, end);
  mapped_.erase(begin, end);
  lock.unlock();
  devrt_status error = TakeEnd(api_->UnmapChunks(address, size), "unmapping",
                               &devices_[ordinal]);
  lock.lock();
  if (error != nullptr) mapped_.insert(leaving.begin(), leaving.end());
  for (const auto& [place, chunk] : leaving) {
    if (error == nullptr) chunk->at = nullptr;
  }
  return error;
}

// What `device` may do with what is mapped of `peer`.
template <class Api>
typename Api::Error Backend<Api>::AllowMapped(uint32_t ordinal, uint32_t peer,
                                              bool allow) {
  for (const auto& [at, chunk] : mapped_) {
    if (chunk->device != peer) continue;
    const Error error =
        api_->AllowAccess(at, chunk->size, devices_[ordinal].native, allow);
    if (error != Api::kSuccess) return error;
  }
  return Api::kSuccess;
}

// The part of a mapping that one chunk backs.
template <class Api>
void Backend<Api>::DescribeMapped(const void* ptr,
                                  devrt_pointer_info_v0* info) {
  const auto address = reinterpret_cast<uintptr_t>(ptr);
  if (address < mapped_begin_ || address >= mapped_end_) return;
  const std::lock_guard<std::mutex> lock(peers_mutex_);
  char* const at = static_cast<char*>(const_cast<void*>(ptr));
  auto found = mapped_.upper_bound(at);
  if (found == mapped_.begin()) return;
  --found;
  if (at >= found->first + found->second->size) return;
  info->base = found->first;
  info->size = found->second->size;
}

template <class Api>
const void* Backend<Api>::VirtualMemoryTable() {
  static constexpr devrt_virtual_memory_v0 kTable = {
      sizeof(devrt_virtual_memory_v0),    0,
      plugin::Thunk<&Backend::VmInfo>,    plugin::Thunk<&Backend::VmReserve>,
      plugin::Thunk<&Backend::VmRelease>, plugin::Thunk<&Backend::VmCreate>,
      plugin::Thunk<&Backend::VmDestroy>, plugin::Thunk<&Backend::VmMap>,
      plugin::Thunk<&Backend::VmUnmap>};
  return api_->CanMapMemory() ? &kTable : nullptr;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_VIRTUAL_MEMORY_H_
