// SPDX-License-Identifier: Apache-2.0
//
// SlotLeases: which slots of reductions streams of one device have to
// themselves.  The work of a stream is in order, so that its reductions share
// one slot without a launch that claims it.
//
// A slot comes back only with a stream that has no more work.  Where none is
// left, reductions claim their slots.
//
// Threads: every member from any thread.

#ifndef DEVRT_BACKENDS_GPU_SLOT_LEASES_H_
#define DEVRT_BACKENDS_GPU_SLOT_LEASES_H_

#include <atomic>
#include <cstdint>
#include <mutex>

#include "backends/gpu/tensor_args.h"

namespace devrt::gpu {

class SlotLeases {
 public:
  // Returns the number of a slot, from 1 on, or 0 if none is left.
  uint32_t Take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_ == 0) return 0;
    const auto found = static_cast<uint32_t>(__builtin_ctzll(free_));
    free_ &= free_ - 1;
    return found + 1;
  }
  void Return(uint32_t number) {
    const std::lock_guard<std::mutex> lock(mutex_);
    free_ |= uint64_t{1} << (number - 1);
  }

 private:
  static_assert(kLeasedSlots <= 64);

  std::mutex mutex_;  // guards free_
  uint64_t free_ = ~uint64_t{0} >> (64 - kLeasedSlots);
};

// The slot of one stream, which it takes at its first reduction in parts.
class SlotLease {
 public:
  // Returns the number of the slot, or 0 if the stream has none.
  uint32_t Get(SlotLeases* leases) {
    uint32_t number = number_.load(std::memory_order_acquire);
    if (number != kUnknown) return number;
    const uint32_t taken = leases->Take();
    if (number_.compare_exchange_strong(number, taken)) return taken;
    if (taken != 0) leases->Return(taken);  // another thread was first
    return number;
  }
  bool IsTaken() const {
    const uint32_t number = number_.load(std::memory_order_acquire);
    return number != 0 && number != kUnknown;
  }
  // Gives the slot back.  The stream must have no more work.
  void End(SlotLeases* leases) {
    if (IsTaken()) leases->Return(number_.exchange(0));
  }

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;
  std::atomic<uint32_t> number_{kUnknown};
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_SLOT_LEASES_H_
