// SPDX-License-Identifier: Apache-2.0
//
// Pools<Api>: the driver's pools of stream-ordered memory, for Api::kHasPools.
//
// Each device has a pool of devrt's own, made when first needed, because the
// attributes of the device's default pool belong to the whole process.  Two
// attributes differ from the defaults.
//
//   Release threshold: the pool keeps kPoolKeeps of unused memory over a
//     synchronisation. With the default, 0, the driver releases all unused
//     memory at each synchronisation, and the next allocation pays for it. An
//     allocation of devrt that fails for lack of memory first releases it.
//   No internal dependencies: with them the driver makes an allocation wait for
//     another stream's free, which devrt cannot see, and a program whose
//     streams wait for the host could deadlock (C64, C73).
//
// Access to a peer's memory is set for each pool, not for a context.  So it is
// set when a pool is made and when a peer is enabled.
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_GPU_POOL_H_
#define DEVRT_BACKENDS_GPU_POOL_H_

#include <atomic>
#include <cstdint>
#include <mutex>

#include "backends/gpu/device.h"
#include "backends/gpu/memory_readers.h"
#include "backends/gpu/objects.h"

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

  // Returns the device's pool, and makes it if needed.
  devrt_status Find(Device* device, Pool* pool);

  // Lets the device `reader` use the memory of the device `owner`, or withdraws
  // that.
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

  // Calls `allocate`, which allocates device memory.  If memory runs out,
  // releases the unused memory of the pool and calls `allocate` again.
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
  std::mutex mutex_;  // held while a pool is made; guards the next member
  MemoryReaders readers_;
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
          driver_.ToStatus(api_.HasPools(device->native, &has_pools),
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
    return driver_.ToStatus(error, "memory pool", device);
  }
  device->pool.store(*pool = made, std::memory_order_release);
  return nullptr;
}

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_POOL_H_
