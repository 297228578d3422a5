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
  // Gets the memory by `allocate(&memory, bytes)`.  For an alignment above the
  // driver's it asks for more bytes than `size`.
  template <typename Allocate>
  devrt_status AllocateAligned(uint64_t size, uint64_t alignment, void** ptr,
                               const Allocate& allocate);
  // The error if `ptr` is memory of another device.
  devrt_status CheckOwner(const void* ptr, uint32_t ordinal);

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
  const PrimaryContextScope<Api> scope(&devices_, ordinal);
  if (scope.failed()) return scope.error();
  size_t free = 0, total = 0;
  if (devrt_status error =
          driver_.ToStatus(api_.MemoryInfo(&free, &total), "memory information",
                           scope.device())) {
    return error;
  }
  *free_bytes = free;
  *total_bytes = total;
  return nullptr;
}

template <class Api>
template <typename Allocate>
devrt_status Memory<Api>::AllocateAligned(uint64_t size, uint64_t alignment,
                                          void** ptr,
                                          const Allocate& allocate) {
  if (size >= kLargestSize || alignment >= kLargestSize) {
    return driver_.Refuse(DEVRT_RESOURCE_EXHAUSTED,
                          "%llu bytes with an alignment of %llu are more than "
                          "any device or host has",
                          static_cast<unsigned long long>(size),
                          static_cast<unsigned long long>(alignment));
  }
  const bool natural = alignment <= kNaturalAlignment;
  void* memory = nullptr;
  if (devrt_status error =
          allocate(&memory, natural ? size : size + alignment)) {
    return error;
  }
  *ptr = natural ? memory : aligned_.Align(memory, size, alignment);
  return nullptr;
}

template <class Api>
devrt_status Memory<Api>::alloc(uint32_t ordinal, uint64_t size,
                                uint64_t alignment, void** ptr) {
  const PrimaryContextScope<Api> scope(&devices_, ordinal);
  if (scope.failed()) return scope.error();
  Device* const device = scope.device();
  const auto allocate = [&](void** memory, uint64_t bytes) {
    return driver_.ToStatus(
        pools_.WithRoom(*device, [&] { return api_.Allocate(memory, bytes); }),
        "allocation", device);
  };
  return AllocateAligned(size, alignment, ptr, allocate);
}

// The driver frees memory of any device, on a stream of any device.  Beside a
// free, this query costs nothing.
template <class Api>
devrt_status Memory<Api>::CheckOwner(const void* ptr, uint32_t ordinal) {
  devrt_pointer_info_v0 info = {};
  if (api_.Inspect(ptr, &info) == Api::kSuccess &&
      info.kind != DEVRT_POINTER_UNREGISTERED &&
      info.device != static_cast<int32_t>(ordinal)) {
    return driver_.Refuse(DEVRT_INVALID_ARGUMENT,
                          "%p is memory of %s:%d, not of %s:%u", ptr,
                          Api::kBackend, info.device, Api::kBackend, ordinal);
  }
  return nullptr;
}

template <class Api>
devrt_status Memory<Api>::dealloc(uint32_t ordinal, void* ptr, uint64_t) {
  const PrimaryContextScope<Api> scope(&devices_, ordinal);
  if (scope.failed()) return scope.error();
  if (devrt_status error = CheckOwner(ptr, ordinal)) return error;
  return driver_.ToStatusOfEnd(
      aligned_.Free(ptr, [&](void* memory) { return api_.Free(memory); }),
      "deallocation", scope.device());
}

template <class Api>
devrt_status Memory<Api>::host_alloc(uint32_t ordinal, uint64_t size,
                                     uint64_t alignment, void** ptr) {
  const PrimaryContextScope<Api> scope(&devices_, ordinal);
  if (scope.failed()) return scope.error();
  const auto allocate = [&](void** memory, uint64_t bytes) {
    return driver_.ToStatus(api_.AllocateHost(memory, bytes),
                            "pinned allocation", scope.device());
  };
  return AllocateAligned(size, alignment, ptr, allocate);
}

template <class Api>
devrt_status Memory<Api>::host_dealloc(void* ptr, uint64_t) {
  return driver_.ToStatusOfEnd(
      aligned_.Free(ptr, [&](void* memory) { return api_.FreeHost(memory); }),
      "pinned deallocation");
}

template <class Api>
devrt_status Memory<Api>::host_register(uint32_t ordinal, void* ptr,
                                        uint64_t size) {
  const PrimaryContextScope<Api> scope(&devices_, ordinal);
  if (scope.failed()) return scope.error();
  return driver_.ToStatus(api_.RegisterHost(ptr, size), "host registration",
                          scope.device());
}

template <class Api>
devrt_status Memory<Api>::host_unregister(void* ptr) {
  // In any live context: the driver needs a current one to find the range.
  for (const Device& device : devices_.all()) {
    const Context context = device.context.load();
    if (context == Context{}) continue;
    const ContextScope<Api> scope(api_, context);
    if (scope.error() != Api::kSuccess) continue;
    return driver_.ToStatusOfEnd(api_.UnregisterHost(ptr),
                                 "host unregistration");
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
    typename Api::Pool pool{};
    if (devrt_status error = pools_.Find(device, &pool)) return error;
    const auto allocate = [&](void** memory, uint64_t bytes) {
      return Submit(&driver_, stream, "stream-ordered allocation", [&] {
        return api_.AllocateFromPool(memory, bytes, pool, stream->native);
      });
    };
    return AllocateAligned(size, alignment, ptr, allocate);
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
    if (devrt_status error = CheckOwner(ptr, device->ordinal)) return error;
    const auto free = [&](void* memory) {
      return Enqueue(api_, stream,
                     [&] { return api_.FreeToPool(memory, stream->native); });
    };
    Error error = CheckAlive(api_, *stream);
    if (error == Api::kSuccess) error = aligned_.Free(ptr, free);
    return driver_.ToStatusOfEnd(error, "stream-ordered deallocation", device);
  } else {
    return driver_.Refuse(
        DEVRT_UNIMPLEMENTED,
        "%s:%u has no stream-ordered memory that %p could be of", Api::kBackend,
        device->ordinal, ptr);
  }
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_MEMORY_H_
