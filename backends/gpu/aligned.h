// SPDX-License-Identifier: Apache-2.0
//
// AlignedAllocations: memory that was given out at a larger alignment than the
// driver's own, and so at another address than the driver's.
//
// Threads: every member from any thread. Where no allocation was ever aligned,
// no member takes the lock.

#ifndef DEVRT_BACKENDS_GPU_ALIGNED_H_
#define DEVRT_BACKENDS_GPU_ALIGNED_H_

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <utility>

#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::gpu {

// The least alignment of allocations by the drivers.
inline constexpr uint64_t kNaturalAlignment = 256;
// Sizes and alignments below this one can be added without an overflow.
inline constexpr uint64_t kLargestSize = uint64_t{1} << 60;

class AlignedAllocations {
 public:
  // What to give out of `memory`, an allocation of the driver's of at least
  // `size` + `alignment` bytes.
  void* Align(void* memory, uint64_t size, uint64_t alignment) {
    const auto base = reinterpret_cast<uintptr_t>(memory);
    void* const aligned = reinterpret_cast<void*>(
        (base + alignment - 1) & ~static_cast<uintptr_t>(alignment - 1));
    const std::lock_guard<std::mutex> lock(mutex_);
    spans_[memory] = {aligned, size};
    first_ = std::min(first_.load(), base);
    last_ = std::max(last_.load(), base);
    return aligned;
  }

  // Returns free(memory), with the driver's pointer of the allocation that
  // `ptr` was given out for. Success is 0.
  template <typename Call>
  auto Free(void* ptr, Call free) {
    if (last_ == 0) return free(ptr);
    Spans::node_type span;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      // The driver's allocation begins at or before `ptr`: the last such one.
      auto found = spans_.upper_bound(ptr);
      if (found != spans_.begin() && (--found)->second.ptr == ptr) {
        span = spans_.extract(found);
      }
    }
    if (span.empty()) return free(ptr);
    // The span is taken out before the call, since another thread may get the
    // memory from the driver at once. It is put back where the driver refuses.
    const auto error = free(span.key());
    if (error != decltype(error){}) {
      const std::lock_guard<std::mutex> lock(mutex_);
      spans_.insert(std::move(span));
    }
    return error;
  }

  // Replaces the driver's base and size of an allocation by what was given out.
  void Describe(devrt_pointer_info_v0* info) {
    const auto base = reinterpret_cast<uintptr_t>(info->base);
    if (base < first_ || base > last_) return;
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = spans_.find(info->base);
    if (found == spans_.end()) return;
    info->base = found->second.ptr;
    info->size = found->second.size;
  }

 private:
  struct Span {
    void* ptr;
    uint64_t size;
  };
  using Spans = std::map<void*, Span>;  // by the driver's pointer

  std::mutex mutex_;  // guards spans_
  Spans spans_;
  // The range of addresses that were ever aligned, empty at first.
  std::atomic<uintptr_t> first_{UINTPTR_MAX};
  std::atomic<uintptr_t> last_{0};
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_ALIGNED_H_
