// SPDX-License-Identifier: Apache-2.0
//
// Backend<Api>: the driver's stream-ordered memory, where Api::kHasPools.
//
// From a pool of devrt's own, one a device, made when it is first asked for:
// the attributes of the device's default pool are everybody's in the process.
// Two of ours differ from the defaults.
//   Release threshold: the pool keeps kPoolKeeps of unused memory over a
//     synchronisation (the default, 0, gives everything back at each one, and
//     the next allocation pays for it).  An allocation of devrt's that finds no
//     room takes that first.
//   No internal dependencies: the driver would let an allocation wait for
//     another stream's free, unseen, and a program whose streams wait for the
//     host could stand still (C64, C73).
// Access of peers is of the pool, not of a context: it is given when the pool
// is made and when a peer is enabled, so that peer_enable covers its memory.

#ifndef DEVRT_BACKENDS_GPU_POOL_H_
#define DEVRT_BACKENDS_GPU_POOL_H_

#include "backends/gpu/backend.h"
#include "backends/gpu/memory.h"

namespace devrt::gpu {

inline constexpr uint64_t kPoolKeeps = 256 << 20;

template <class Api>
devrt_status Backend<Api>::FindPool(Device* device, typename Api::Pool* pool) {
  *pool = device->pool.load(std::memory_order_acquire);
  if (*pool != typename Api::Pool{}) return nullptr;
  const std::lock_guard<std::mutex> lock(peers_mutex_);
  *pool = device->pool.load(std::memory_order_relaxed);
  if (*pool != typename Api::Pool{}) return nullptr;
  bool has_pools = false;
  if (devrt_status error = Take(api_->HasPools(device->native, &has_pools),
                                "device properties", device)) {
    return error;
  }
  if (!has_pools) {
    return Refuse(DEVRT_UNIMPLEMENTED,
                  "%s:%u has no memory pools (MEMORY_POOLS_SUPPORTED is 0), so "
                  "no stream-ordered allocation: use alloc",
                  Api::kBackend, device->ordinal);
  }
  typename Api::Pool made{};
  Error error = api_->CreatePool(device->native, kPoolKeeps, &made);
  for (const auto& [key, ours] : peers_) {
    if (error != Api::kSuccess ||
        static_cast<uint32_t>(key) != device->ordinal) {
      continue;
    }
    error = api_->AllowPoolAccess(made, devices_[key >> 32].native, true);
  }
  if (error != Api::kSuccess) {
    if (made != typename Api::Pool{}) (void)api_->DestroyPool(made);
    return Take(error, "memory pool", device);
  }
  device->pool.store(*pool = made, std::memory_order_release);
  return nullptr;
}

// What `device` may do with the pool of `peer`; the caller holds peers_mutex_.
template <class Api>
typename Api::Error Backend<Api>::AllowPool(uint32_t ordinal, uint32_t peer,
                                            bool allow) {
  const auto pool = devices_[peer].pool.load(std::memory_order_relaxed);
  if (pool == typename Api::Pool{}) return Api::kSuccess;
  return api_->AllowPoolAccess(pool, devices_[ordinal].native, allow);
}

template <class Api>
devrt_status Backend<Api>::alloc_async(devrt_stream handle, uint64_t size,
                                       uint64_t alignment, void** ptr) {
  Stream* const stream = Of(handle);
  Device* const device = stream->device;
  if constexpr (Api::kHasPools) {
    if (size >= kLargestSize || alignment >= kLargestSize) {
      return Refuse(DEVRT_RESOURCE_EXHAUSTED,
                    "%llu bytes are more than any device has",
                    static_cast<unsigned long long>(size));
    }
    typename Api::Pool pool{};
    if (devrt_status error = FindPool(device, &pool)) return error;
    const bool natural = alignment <= kNaturalAlignment;
    void* memory = nullptr;
    if (devrt_status error = Submit(stream, "stream-ordered allocation", [&] {
          return api_->AllocateFromPool(
              &memory, natural ? size : size + alignment, pool, stream->native);
        })) {
      return error;
    }
    *ptr = natural ? memory : Align(memory, size, alignment);
    return nullptr;
  } else {
    return Refuse(DEVRT_UNIMPLEMENTED,
                  "%s:%u has no stream-ordered allocation of %llu bytes: use "
                  "alloc",
                  Api::kBackend, device->ordinal,
                  static_cast<unsigned long long>(size));
  }
}

template <class Api>
devrt_status Backend<Api>::dealloc_async(devrt_stream handle, void* ptr,
                                         uint64_t) {
  Stream* const stream = Of(handle);
  Device* const device = stream->device;
  if constexpr (Api::kHasPools) {
    // To the driver any device's stream will do.
    devrt_pointer_info_v0 info = {};
    if (api_->Inspect(ptr, &info) == Api::kSuccess &&
        info.kind != DEVRT_POINTER_UNREGISTERED &&
        info.device != static_cast<int32_t>(device->ordinal)) {
      return Refuse(DEVRT_INVALID_ARGUMENT,
                    "%p is memory of %s:%d, not of %s:%u", ptr, Api::kBackend,
                    info.device, Api::kBackend, device->ordinal);
    }
    const auto free = [&](void* memory) {
      return Enqueue(stream,
                     [&] { return api_->FreeToPool(memory, stream->native); });
    };
    Error error = CheckAlive(*stream);
    if (error == Api::kSuccess) error = FreeAligned(ptr, free);
    return TakeEnd(error, "stream-ordered deallocation", device);
  } else {
    return Refuse(DEVRT_UNIMPLEMENTED,
                  "%s:%u has no stream-ordered memory that %p could be of",
                  Api::kBackend, device->ordinal, ptr);
  }
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_POOL_H_
