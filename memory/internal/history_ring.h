// SPDX-License-Identifier: Apache-2.0
//
// HistoryRing: the last events of a device's allocator.  Off: one load and a
// branch in the allocator.  On: events are numbered and written under `mutex_`,
// a leaf, while the pool's lock is held, so that their order is that of their
// effects.  Stacks are taken before any lock and kept once each.

#ifndef DEVRT_MEMORY_INTERNAL_HISTORY_RING_H_
#define DEVRT_MEMORY_INTERNAL_HISTORY_RING_H_

#include <cstdint>
#include <vector>

#include "devrt/memory/history.h"
#include "devrt/runtime/mutex.h"

namespace devrt::internal {

class HistoryRing {
 public:
  explicit HistoryRing(const HistoryOptions& options);

  // The number of a site, with the calling thread's stack if that is asked for.
  uint64_t Site(CallSite site) DEVRT_EXCLUDES(mutex_);
  void Add(MemoryAction action, const void* pointer, uint64_t bytes,
           uint64_t stream, uint64_t site) DEVRT_EXCLUDES(mutex_);
  std::vector<MemoryEvent> Copy() const DEVRT_EXCLUDES(mutex_);

 private:
  struct Entry {
    uint64_t address;
    uint64_t bytes;
    uint64_t stream;
    int64_t time_us;
    uint32_t site;
    MemoryAction action;
  };
  const HistoryOptions options_;
  mutable Mutex mutex_;
  std::vector<Entry> entries_ DEVRT_GUARDED_BY(mutex_);  // a ring
  uint64_t count_ DEVRT_GUARDED_BY(mutex_) = 0;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_INTERNAL_HISTORY_RING_H_
