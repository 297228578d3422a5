// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: device memory, pinned and registered host memory, pointers.

#ifndef DEVRT_BACKENDS_GPU_MEMORY_H_
#define DEVRT_BACKENDS_GPU_MEMORY_H_

#include <algorithm>
#include <utility>

#include "backends/gpu/backend.h"

namespace devrt::gpu {

// What the drivers give by themselves, at least.
inline constexpr uint64_t kNaturalAlignment = 256;
inline constexpr uint64_t kLargestSize = uint64_t{1} << 60;

template <class Api>
devrt_status Backend<Api>::alloc(uint32_t ordinal, uint64_t size,
                                 uint64_t alignment, void** ptr) {
  Device* device = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  if (size >= kLargestSize || alignment >= kLargestSize) {
    return Refuse(DEVRT_RESOURCE_EXHAUSTED,
                  "%llu bytes are more than any "
                  "device has",
                  static_cast<unsigned long long>(size));
  }
  Context context{};
  if (devrt_status error = Enter(device, &context)) return error;
  const ContextScope scope(*api_, context);
  if (devrt_status error = Take(scope.error(), "context", device)) return error;
  const bool natural = alignment <= kNaturalAlignment;
  void* memory = nullptr;
  const uint64_t whole = natural ? size : size + alignment;
  if (devrt_status error = Take(
          WithRoom(*device, [&] { return api_->Allocate(&memory, whole); }),
          "allocation", device)) {
    return error;
  }
  *ptr = natural ? memory : Align(memory, size, alignment);
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::dealloc(uint32_t ordinal, void* ptr, uint64_t) {
  Device* device = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  Context context{};
  if (devrt_status error = Enter(device, &context)) return error;
  const ContextScope scope(*api_, context);
  if (devrt_status error = Take(scope.error(), "context", device)) return error;
  // The driver frees for any device; against the free, asking costs nothing.
  devrt_pointer_info_v0 info = {};
  if (api_->Inspect(ptr, &info) == Api::kSuccess &&
      info.kind != DEVRT_POINTER_UNREGISTERED &&
      info.device != static_cast<int32_t>(ordinal)) {
    return Refuse(DEVRT_INVALID_ARGUMENT, "%p is memory of %s:%d, not of %s:%u",
                  ptr, Api::kBackend, info.device, Api::kBackend, ordinal);
  }
  return TakeEnd(
      FreeAligned(ptr, [&](void* memory) { return api_->Free(memory); }),
      "deallocation", device);
}

template <class Api>
devrt_status Backend<Api>::host_alloc(uint32_t ordinal, uint64_t size,
                                      uint64_t alignment, void** ptr) {
  Device* device = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  if (size >= kLargestSize || alignment >= kLargestSize) {
    return Refuse(DEVRT_RESOURCE_EXHAUSTED,
                  "%llu bytes are more than any host has",
                  static_cast<unsigned long long>(size));
  }
  Context context{};
  if (devrt_status error = Enter(device, &context)) return error;
  const ContextScope scope(*api_, context);
  if (devrt_status error = Take(scope.error(), "context", device)) return error;
  const bool natural = alignment <= kNaturalAlignment;
  void* memory = nullptr;
  if (devrt_status error =
          Take(api_->AllocateHost(&memory, natural ? size : size + alignment),
               "pinned allocation", device)) {
    return error;
  }
  *ptr = natural ? memory : Align(memory, size, alignment);
  return nullptr;
}

template <class Api>
devrt_status Backend<Api>::host_dealloc(void* ptr, uint64_t) {
  return TakeEnd(
      FreeAligned(ptr, [&](void* memory) { return api_->FreeHost(memory); }),
      "pinned deallocation");
}

// ---- Alignments that the driver does not give -------------------------------

template <class Api>
void* Backend<Api>::Align(void* memory, uint64_t size, uint64_t alignment) {
  const auto address = reinterpret_cast<uintptr_t>(memory);
  void* const aligned = reinterpret_cast<void*>(
      (address + alignment - 1) & ~static_cast<uintptr_t>(alignment - 1));
  const std::lock_guard<std::mutex> lock(mutex_);
  aligned_[memory] = {aligned, size};
  const auto base = reinterpret_cast<uintptr_t>(memory);
  first_aligned_ = std::min(first_aligned_.load(), base);
  last_aligned_ = std::max(last_aligned_.load(), base);
  return aligned;
}

// Calls `free` with the driver's own pointer of the allocation that `ptr` was
// given out for.
template <class Api>
template <typename Call>
typename Api::Error Backend<Api>::FreeAligned(void* ptr, Call free) {
  if (last_aligned_ == 0) return free(ptr);
  typename decltype(aligned_)::node_type record;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    // Its allocation begins at or before it: the last such one.
    auto found = aligned_.upper_bound(ptr);
    if (found != aligned_.begin() && (--found)->second.ptr == ptr) {
      record = aligned_.extract(found);
    }
  }
  if (record.empty()) return free(ptr);
  // Taken out before, since another thread may get the memory from the driver
  // at once.  Put back where the driver refuses: the block is there as before.
  const Error error = free(record.key());
  if (error != Api::kSuccess) {
    const std::lock_guard<std::mutex> lock(mutex_);
    aligned_.insert(std::move(record));
  }
  return error;
}

template <class Api>
devrt_status Backend<Api>::host_register(uint32_t ordinal, void* ptr,
                                         uint64_t size) {
  Device* device = nullptr;
  if (devrt_status error = Find(ordinal, &device)) return error;
  Context context{};
  if (devrt_status error = Enter(device, &context)) return error;
  const ContextScope scope(*api_, context);
  if (devrt_status error = Take(scope.error(), "context", device)) return error;
  return Take(api_->RegisterHost(ptr, size), "host registration", device);
}

template <class Api>
devrt_status Backend<Api>::host_unregister(void* ptr) {
  // Some registered range's context, so that the driver finds it.
  for (const Device& device : devices_) {
    const Context context = device.context.load();
    if (context == Context{}) continue;
    const ContextScope scope(*api_, context);
    if (scope.error() != Api::kSuccess) continue;
    return TakeEnd(api_->UnregisterHost(ptr), "host unregistration");
  }
  return Refuse(DEVRT_NOT_FOUND, "%p is not registered", ptr);
}

template <class Api>
devrt_status Backend<Api>::pointer_info(const void* ptr,
                                        devrt_pointer_info_v0* info) {
  if (devrt_status error = Ready()) return error;
  devrt_pointer_info_v0 mine = {};
  // Never an error for what the driver does not know (C71).
  (void)api_->Inspect(ptr, &mine);
  const auto base = reinterpret_cast<uintptr_t>(mine.base);
  if (base >= first_aligned_ && base <= last_aligned_) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = aligned_.find(mine.base);
    if (found != aligned_.end()) {
      mine.base = found->second.ptr;
      mine.size = found->second.size;
    }
  }
  if constexpr (Api::kHasVirtualMemory) DescribeMapped(ptr, &mine);
  plugin::WriteStruct(info, mine);
  return nullptr;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_MEMORY_H_
