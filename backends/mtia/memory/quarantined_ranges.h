// SPDX-License-Identifier: Apache-2.0
//
// The addresses of a part of a window.  A freed range waits in a queue, so that
// stale pointers into it are recognised as long as possible.  The oldest range
// of the queue becomes free when no free range is large enough.
//
// Not thread-safe.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_QUARANTINED_RANGES_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_QUARANTINED_RANGES_H_

#include <cstddef>
#include <cstdint>
#include <deque>

#include "backends/mtia/memory/free_ranges.h"

namespace devrt::mtia {

class QuarantinedRanges {
 public:
  void Reset(uint64_t begin, uint64_t size) {
    free_.Reset(begin, size);
    queue_.clear();
    trimmed_ = 0;
    resident_ = 0;
  }

  // Takes the lowest place that fits.  Calls `forget(offset)` for each range
  // that leaves the queue for it.
  template <typename Forget>
  bool Allocate(uint64_t size, uint64_t alignment, uint64_t* offset,
                Forget forget) {
    while (!free_.Allocate(size, alignment, offset)) {
      uint64_t joined = 0;
      while (joined < size) {
        if (queue_.empty()) return false;
        joined = ReleaseOldest(forget);
      }
    }
    return true;
  }

  template <typename Forget>
  void Free(uint64_t offset, uint64_t size, Forget forget) {
    queue_.push_back({offset, size});
    resident_ += size;
    if (queue_.size() > kMaxQueue) ReleaseOldest(forget);
  }

  // Calls `discard(offset, size)` for the oldest ranges, until the pages of the
  // others have at most kMaxResident bytes.
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
    return free_.Free(oldest.offset, oldest.size);
  }

  FreeRanges free_;
  std::deque<Range> queue_;  // the first `trimmed_` ranges are discarded
  size_t trimmed_ = 0;
  uint64_t resident_ = 0;  // bytes of the others
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_QUARANTINED_RANGES_H_
