// SPDX-License-Identifier: Apache-2.0
//
// MemoryBudget: how many bytes of one device this process may reserve, and how
// many it has reserved.  All allocators of the device share it.
//
//   if (!budget.Reserve(bytes)) return nullptr;   // above the fraction
//   ... the driver refuses ...
//   budget.Release(bytes);
//
// Bytes are reserved before the driver is asked, so that threads together keep
// to the limit.
//
// Threads: any.  No lock.

#ifndef DEVRT_MEMORY_DEVICE_MEMORY_BUDGET_H_
#define DEVRT_MEMORY_DEVICE_MEMORY_BUDGET_H_

#include <atomic>
#include <cstdint>

#include "absl/status/status.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

class MemoryBudget {
 public:
  MemoryBudget(DeviceRecord* device, double fraction)
      : device_(device), fraction_(fraction) {}
  MemoryBudget(const MemoryBudget&) = delete;
  MemoryBudget& operator=(const MemoryBudget&) = delete;

  // The device's memory in bytes; UINT64_MAX if the backend does not say.
  uint64_t Total();
  // The next Total asks the backend again: a simulator's reset may change it.
  void ForgetTotal() { total_.store(0, std::memory_order_relaxed); }
  // floor(fraction * Total()).
  uint64_t Allowed();

  // False, and nothing reserved, if more than Allowed() would be reserved.
  bool Reserve(uint64_t bytes) {
    if (reserved_.fetch_add(bytes, std::memory_order_relaxed) + bytes <=
        Allowed()) {
      return true;
    }
    Release(bytes);
    return false;
  }
  void Release(uint64_t bytes) {
    reserved_.fetch_sub(bytes, std::memory_order_relaxed);
  }
  uint64_t reserved() const {
    return reserved_.load(std::memory_order_relaxed);
  }

  double fraction() const { return fraction_.load(std::memory_order_relaxed); }
  // INVALID_ARGUMENT: outside [0, 1].
  absl::Status SetFraction(double fraction);

 private:
  DeviceRecord* const device_;
  std::atomic<uint64_t> total_{0};  // 0: not known
  std::atomic<double> fraction_;
  std::atomic<uint64_t> reserved_{0};
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_MEMORY_BUDGET_H_
