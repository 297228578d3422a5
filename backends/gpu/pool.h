// SPDX-License-Identifier: Apache-2.0
//
// Pools<Api>: the pools of the driver's stream-ordered memory, where
// Api::kHasPools.
//
// Each device has a pool of devrt's own, made when it is first needed: the
// attributes of the device's default pool belong to everybody in the process.
// Two attributes of ours differ from the defaults.
//   Release threshold: the pool keeps kPoolKeeps of unused memory over a
//     synchronisation. With the default, 0, the driver gives everything back at
//     each one, and the next allocation pays for it. An allocation of devrt's
//     that finds no room takes the unused memory first.
//   No internal dependencies: otherwise the driver would let an allocation wait
//     for another stream's free, unseen, and a program whose streams wait for
//     the host could stand still (C64, C73).
// A device's access to a peer's memory is given to each pool, and not to a
// context. So it is given when a pool is made and when a peer is enabled.
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_GPU_POOL_H_
#define DEVRT_BACKENDS_GPU_POOL_H_

#include <atomic>
#include <cstdint>
#include <mutex>

#include "backends/gpu/device.h"
#include "backends/gpu/objects.h"
#include "backends/gpu/readers.h"

namespace devrt::gpu {

inline constexpr uint64_t kPoolKeeps = 256 << 20;

template <class Api>
class Pools {
 public:
  using Error = typename Api::Error;
  using Device = gpu::Device<Api>;
  using Pool = typename Api::Pool;

  explicit Pools(Devices<Api>* devices)
      : driver_(devices->driver()), api_(driver_.api()), devices_(*devices) {}
  Pools(const Pools&) = delete;
  Pools& operator=(const Pools&) = delete;
  ~Pools() {
    if constexpr (Api::kHasPools) {
      for (const Device& device : devices_.all()) {
        const Pool pool = device.pool.load();
        if (pool != Pool{}) (void)api_.DestroyPool(pool);
      }
    }
  }

  // The device's pool, which is made if there is none.
  devrt_status Find(Device* device, Pool* pool);

  // Lets the device `reader` use the memory of the device `owner`, or not.
  Error Allow(uint32_t reader, uint32_t owner, bool allow) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (!allow) readers_.Set(reader, owner, false);
    const Pool pool = devices_[owner].pool.load(std::memory_order_relaxed);
    Error error = Api::kSuccess;
    if (pool != Pool{}) {
      error = api_.AllowPoolAccess(pool, devices_[reader].native, allow);
    }
    if (allow && error == Api::kSuccess) readers_.Set(reader, owner, true);
    return error;
  }

  // `allocate` makes an allocation of the device's memory. It is called again
  // where there was no room, without what the pool keeps unused.
  template <typename Call>
  Error WithRoom(const Device& device, Call allocate) const {
    const Error error = allocate();
    if constexpr (Api::kHasPools) {
      const Pool pool = device.pool.load(std::memory_order_acquire);
      if (pool != Pool{} &&
          Api::MeaningOf(error).status == DEVRT_RESOURCE_EXHAUSTED &&
          api_.TrimPool(pool) == Api::kSuccess) {
        return allocate();
      }
    }
    return error;
  }

 private:
  Driver<Api>& driver_;
  const Api& api_;
  Devices<Api>& devices_;
  std::mutex mutex_;  // held while a pool is made; guards the next one
  Readers readers_;
};

template <class Api>
devrt_status Pools<Api>::Find(Device* device, Pool* pool) {
  *pool = device->pool.load(std::memory_order_acquire);
  if (*pool != Pool{}) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  *pool = device->pool.load(std::memory_order_relaxed);
  if (*pool != Pool{}) return nullptr;
  bool has_pools = false;
  if (devrt_status error =
          driver_.Take(api_.HasPools(device->native, &has_pools),
                       "device properties", device)) {
    return error;
  }
  if (!has_pools) {
    return driver_.Refuse(
        DEVRT_UNIMPLEMENTED,
        "%s:%u has no memory pools (MEMORY_POOLS_SUPPORTED is 0), so "
        "no stream-ordered allocation: use alloc",
        Api::kBackend, device->ordinal);
  }
  Pool made{};
  Error error = api_.CreatePool(device->native, kPoolKeeps, &made);
  readers_.ForEach(device->ordinal, [&](uint32_t reader) {
    if (error != Api::kSuccess) return;
    error = api_.AllowPoolAccess(made, devices_[reader].native, true);
  });
  if (error != Api::kSuccess) {
    if (made != Pool{}) (void)api_.DestroyPool(made);
    return driver_.Take(error, "memory pool", device);
  }
  device->pool.store(*pool = made, std::memory_order_release);
  return nullptr;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_POOL_H_
