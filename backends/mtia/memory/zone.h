// SPDX-License-Identifier: Apache-2.0
//
// A part of a window: free ranges, and a queue of freed ones that are reused,
// oldest first, only when nothing else is left.
//
// Not thread-safe.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_ZONE_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_ZONE_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "backends/mtia/memory/free_ranges.h"

namespace devrt::mtia {

class Zone {
 public:
  void Reset(uint64_t begin, uint64_t size) {
    free_.Reset(begin, size);
    queue_.clear();
    trimmed_ = 0;
    resident_ = 0;
  }

  // `forget(offset)` hears of each range that leaves the queue.
  template <typename Forget>
  bool Take(uint64_t size, uint64_t alignment, uint64_t* offset,
            Forget forget) {
    while (!free_.Take(size, alignment, offset)) {
      uint64_t joined = 0;
      while (joined < size) {
        if (queue_.empty()) return false;
        joined = ReleaseOldest(forget);
      }
    }
    return true;
  }

  template <typename Forget>
  void Give(uint64_t offset, uint64_t size, Forget forget) {
    queue_.push_back({offset, size});
    resident_ += size;
    if (queue_.size() > kMaxQueue) ReleaseOldest(forget);
  }

  // `discard(offset, size)` the pages of the oldest ranges, until few enough
  // of the queue's are resident.
  template <typename Discard>
  void Trim(Discard discard) {
    while (resident_ > kMaxResident && trimmed_ < queue_.size()) {
      const Range& range = queue_[trimmed_++];
      discard(range.offset, range.size);
      resident_ -= range.size;
    }
  }

 private:
  static constexpr size_t kMaxQueue = 16384;
  static constexpr uint64_t kMaxResident = 16ull << 20;

  struct Range {
    uint64_t offset;
    uint64_t size;
  };

  // Returns the size of the free range that results.
  template <typename Forget>
  uint64_t ReleaseOldest(Forget forget) {
    const Range oldest = queue_.front();
    queue_.pop_front();
    if (trimmed_ > 0) {
      --trimmed_;
    } else {
      resident_ -= oldest.size;
    }
    forget(oldest.offset);
    return free_.Give(oldest.offset, oldest.size);
  }

  FreeRanges free_;
  std::deque<Range> queue_;  // pages of the first `trimmed_` are discarded
  size_t trimmed_ = 0;
  uint64_t resident_ = 0;  // bytes of the others
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_ZONE_H_
