// SPDX-License-Identifier: Apache-2.0
//
// Memory<Api>: the slots of device memory, stream-ordered memory, pinned and
// registered host memory, and pointer queries.
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_GPU_MEMORY_H_
#define DEVRT_BACKENDS_GPU_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "backends/gpu/aligned.h"
#include "backends/gpu/context_scope.h"
#include "backends/gpu/device.h"
#include "backends/gpu/objects.h"
#include "backends/gpu/pool.h"
#include "backends/gpu/submit.h"
#include "backends/gpu/virtual_memory.h"

namespace devrt::gpu {

template <class Api>
class Memory {
 public:
  using Error = typename Api::Error;
  using Context = typename Api::Context;
  using Device = gpu::Device<Api>;
  using Stream = gpu::Stream<Api>;

  Memory(Devices<Api>* devices, Pools<Api>* pools, VirtualMemory<Api>* mappings)
      : driver_(devices->driver()),
        api_(driver_.api()),
        devices_(*devices),
        pools_(*pools),
        mappings_(*mappings) {}
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;

  devrt_status mem_info(uint32_t device, uint64_t* free_bytes,
                        uint64_t* total_bytes);
  devrt_status alloc(uint32_t device, uint64_t size, uint64_t alignment,
                     void** ptr);
  devrt_status dealloc(uint32_t device, void* ptr, uint64_t size);
  devrt_status alloc_async(devrt_stream stream, uint64_t size,
                           uint64_t alignment, void** ptr);
  devrt_status dealloc_async(devrt_stream stream, void* ptr, uint64_t size);
  devrt_status host_alloc(uint32_t device, uint64_t size, uint64_t alignment,
                          void** ptr);
  devrt_status host_dealloc(void* ptr, uint64_t size);
  devrt_status host_register(uint32_t device, void* ptr, uint64_t size);
  devrt_status host_unregister(void* ptr);
  devrt_status pointer_info(const void* ptr, devrt_pointer_info_v0* info);

 private:
  Driver<Api>& driver_;
  const Api& api_;
  Devices<Api>& devices_;
  Pools<Api>& pools_;
  VirtualMemory<Api>& mappings_;
  AlignedAllocations aligned_;
};

template <class Api>
devrt_status Memory<Api>::mem_info(uint32_t ordinal, uint64_t* free_bytes,
                                   uint64_t* total_bytes) {
  Device* device = nullptr;
  if (devrt_status error = devices_.Find(ordinal, &device)) return error;
  Context context{};
  if (devrt_status error = devices_.Enter(device, &context)) return error;
  const ContextScope<Api> scope(api_, context);
  if (devrt_status error = driver_.Take(scope.error(), "context", device))
    return error;
  size_t free = 0, total = 0;
  if (devrt_status error = driver_.Take(api_.MemoryInfo(&free, &total),
                                        "memory information", device)) {
    return error;
  }
  *free_bytes = free;
  *total_bytes = total;
  return nullptr;
}

template <class Api>
devrt_status Memory<Api>::alloc(uint32_t ordinal, uint64_t size,
                                uint64_t alignment, void** ptr) {
  Device* device = nullptr;
  if (devrt_status error = devices_.Find(ordinal, &device)) return error;
  if (size >= kLargestSize || alignment >= kLargestSize) {
    return driver_.Refuse(DEVRT_RESOURCE_EXHAUSTED,
                          "%llu bytes are more than any "
                          "device has",
                          static_cast<unsigned long long>(size));
  }
  Context context{};
  if (devrt_status error = devices_.Enter(device, &context)) return error;
  const ContextScope<Api> scope(api_, context);
  if (devrt_status error = driver_.Take(scope.error(), "context", device)) {
    return error;
  }
  const bool natural = alignment <= kNaturalAlignment;
  void* memory = nullptr;
  const uint64_t whole = natural ? size : size + alignment;
  if (devrt_status error = driver_.Take(
          pools_.WithRoom(*device,
                          [&] { return api_.Allocate(&memory, whole); }),
          "allocation", device)) {
    return error;
  }
  *ptr = natural ? memory : aligned_.Align(memory, size, alignment);
  return nullptr;
}

template <class Api>
devrt_status Memory<Api>::dealloc(uint32_t ordinal, void* ptr, uint64_t) {
  Device* device = nullptr;
  if (devrt_status error = devices_.Find(ordinal, &device)) return error;
  Context context{};
  if (devrt_status error = devices_.Enter(device, &context)) return error;
  const ContextScope<Api> scope(api_, context);
  if (devrt_status error = driver_.Take(scope.error(), "context", device)) {
    return error;
  }
  // The driver frees memory of any device.  Beside a free, this query costs
  // nothing.
  devrt_pointer_info_v0 info = {};
  if (api_.Inspect(ptr, &info) == Api::kSuccess &&
      info.kind != DEVRT_POINTER_UNREGISTERED &&
      info.device != static_cast<int32_t>(ordinal)) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT,
                          "%p is memory of %s:%d, not of %s:%u", ptr,
                          Api::kBackend, info.device, Api::kBackend, ordinal);
  }
  return driver_.TakeEnd(
      aligned_.Free(ptr, [&](void* memory) { return api_.Free(memory); }),
      "deallocation", device);
}

template <class Api>
devrt_status Memory<Api>::host_alloc(uint32_t ordinal, uint64_t size,
                                     uint64_t alignment, void** ptr) {
  Device* device = nullptr;
  if (devrt_status error = devices_.Find(ordinal, &device)) return error;
  if (size >= kLargestSize || alignment >= kLargestSize) {
    return driver_.Refuse(DEVRT_RESOURCE_EXHAUSTED,
                          "%llu bytes are more than any host has",
                          static_cast<unsigned long long>(size));
  }
  Context context{};
  if (devrt_status error = devices_.Enter(device, &context)) return error;
  const ContextScope<Api> scope(api_, context);
  if (devrt_status error = driver_.Take(scope.error(), "context", device)) {
    return error;
  }
  const bool natural = alignment <= kNaturalAlignment;
  void* memory = nullptr;
  if (devrt_status error = driver_.Take(
          api_.AllocateHost(&memory, natural ? size : size + alignment),
          "pinned allocation", device)) {
    return error;
  }
  *ptr = natural ? memory : aligned_.Align(memory, size, alignment);
  return nullptr;
}

template <class Api>
devrt_status Memory<Api>::host_dealloc(void* ptr, uint64_t) {
  return driver_.TakeEnd(
      aligned_.Free(ptr, [&](void* memory) { return api_.FreeHost(memory); }),
      "pinned deallocation");
}

template <class Api>
devrt_status Memory<Api>::host_register(uint32_t ordinal, void* ptr,
                                        uint64_t size) {
  Device* device = nullptr;
  if (devrt_status error = devices_.Find(ordinal, &device)) return error;
  Context context{};
  if (devrt_status error = devices_.Enter(device, &context)) return error;
  const ContextScope<Api> scope(api_, context);
  if (devrt_status error = driver_.Take(scope.error(), "context", device)) {
    return error;
  }
  return driver_.Take(api_.RegisterHost(ptr, size), "host registration",
                      device);
}

template <class Api>
devrt_status Memory<Api>::host_unregister(void* ptr) {
  // In any live context: the driver needs a current one to find the range.
  for (const Device& device : devices_.all()) {
    const Context context = device.context.load();
    if (context == Context{}) continue;
    const ContextScope<Api> scope(api_, context);
    if (scope.error() != Api::kSuccess) continue;
    return driver_.TakeEnd(api_.UnregisterHost(ptr), "host unregistration");
  }
  return driver_.Refuse(DEVRT_NOT_FOUND, "%p is not registered", ptr);
}

template <class Api>
devrt_status Memory<Api>::pointer_info(const void* ptr,
                                       devrt_pointer_info_v0* info) {
  if (devrt_status error = devices_.Ready()) return error;
  devrt_pointer_info_v0 mine = {};
  // A pointer that the driver does not know is not an error (C71).
  (void)api_.Inspect(ptr, &mine);
  aligned_.Describe(&mine);
  if constexpr (Api::kHasVirtualMemory) mappings_.DescribeMapped(ptr, &mine);
  plugin::WriteStruct(info, mine);
  return nullptr;
}

// ---- Stream-ordered memory --------------------------------------------------

template <class Api>
devrt_status Memory<Api>::alloc_async(devrt_stream handle, uint64_t size,
                                      uint64_t alignment, void** ptr) {
  Stream* const stream = Stream::Of(handle);
  Device* const device = stream->device;
  if constexpr (Api::kHasPools) {
    if (size >= kLargestSize || alignment >= kLargestSize) {
      return driver_.Refuse(DEVRT_RESOURCE_EXHAUSTED,
                            "%llu bytes are more than any device has",
                            static_cast<unsigned long long>(size));
    }
    typename Api::Pool pool{};
    if (devrt_status error = pools_.Find(device, &pool)) return error;
    const bool natural = alignment <= kNaturalAlignment;
    void* memory = nullptr;
    if (devrt_status error =
            Submit(&driver_, stream, "stream-ordered allocation", [&] {
              return api_.AllocateFromPool(&memory,
                                           natural ? size : size + alignment,
                                           pool, stream->native);
            })) {
      return error;
    }
    *ptr = natural ? memory : aligned_.Align(memory, size, alignment);
    return nullptr;
  } else {
    return driver_.Refuse(
        DEVRT_UNIMPLEMENTED,
        "%s:%u has no stream-ordered allocation of %llu bytes: use "
        "alloc",
        Api::kBackend, device->ordinal, static_cast<unsigned long long>(size));
  }
}

template <class Api>
devrt_status Memory<Api>::dealloc_async(devrt_stream handle, void* ptr,
                                        uint64_t) {
  Stream* const stream = Stream::Of(handle);
  Device* const device = stream->device;
  if constexpr (Api::kHasPools) {
    // The driver accepts a stream of any device.
    devrt_pointer_info_v0 info = {};
    if (api_.Inspect(ptr, &info) == Api::kSuccess &&
        info.kind != DEVRT_POINTER_UNREGISTERED &&
        info.device != static_cast<int32_t>(device->ordinal)) {
      return driver_.Refuse(
          DEVRT_INVALID_ARGUMENT, "%p is memory of %s:%d, not of %s:%u", ptr,
          Api::kBackend, info.device, Api::kBackend, device->ordinal);
    }
    const auto free = [&](void* memory) {
      return Enqueue(api_, stream,
                     [&] { return api_.FreeToPool(memory, stream->native); });
    };
    Error error = CheckAlive(api_, *stream);
    if (error == Api::kSuccess) error = aligned_.Free(ptr, free);
    return driver_.TakeEnd(error, "stream-ordered deallocation", device);
  } else {
    return driver_.Refuse(
        DEVRT_UNIMPLEMENTED,
        "%s:%u has no stream-ordered memory that %p could be of", Api::kBackend,
        device->ordinal, ptr);
  }
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_MEMORY_H_
