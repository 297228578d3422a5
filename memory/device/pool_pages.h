// SPDX-License-Identifier: Apache-2.0
//
// PoolPages: the pages of a pool's expandable segments (pages.h): which of them
// are to get memory, have memory, or may lose it.
//
//   Reserve    holes that make room for a request become busy
//   Add        busy pages have memory now: a free block
//   TakeFree   free pages become busy
//   End        busy pages have no memory: holes again
//
// The caller maps and unmaps busy pages without a lock (ExpandableSegments).
//
// Lock: that of the pool.  Calls that say so need it held; the others take it.

#ifndef DEVRT_MEMORY_DEVICE_POOL_PAGES_H_
#define DEVRT_MEMORY_DEVICE_POOL_PAGES_H_

#include <cstdint>
#include <vector>

#include "memory/common/spin_lock.h"
#include "memory/device/pages.h"
#include "memory/device/pool_request.h"
#include "memory/device/pool_segments.h"
#include "memory/device/pool_stream.h"

namespace devrt::internal {

class PoolPages {
 public:
  PoolPages(SpinLock* lock, PoolSegments* segments, const PoolStream* stream)
      : lock_(lock), segments_(segments), stream_(stream) {}
  PoolPages(const PoolPages&) = delete;
  PoolPages& operator=(const PoolPages&) = delete;

  // Adds a segment of addresses without memory behind them.
  void AdoptAddresses(Segment* segment) DEVRT_EXCLUDES(*lock_);
  // Finds holes that, together with the free blocks beside them, make room for
  // the request, and makes them busy.  False if no segment has enough.
  bool Reserve(const PoolRequest& request, PageRun* run) DEVRT_EXCLUDES(*lock_);
  // The busy pages have memory now.
  void Add(const PageRun& run) DEVRT_EXCLUDES(*lock_);
  // The busy pages become holes.  A page that still has a chunk becomes mapped
  // again without a block, so that nobody can use it.  Returns true if the
  // segment has no page left and was taken out of the pool.
  bool End(const PageRun& run) DEVRT_EXCLUDES(*lock_);

  // The caller holds the lock.  Appends the runs of free pages of a segment.
  void ListFree(Segment* segment, std::vector<FreeSegment>* list) const;
  // The caller holds the lock.  Makes the pages busy if they are free as they
  // were when they were listed.
  bool TakeFree(const FreeSegment& seen);

 private:
  // Takes the granules from `begin` to `end` out of a free block, which leaves
  // a hole.
  void CutOut(Block* block, uint32_t begin, uint32_t end);

  SpinLock* const lock_;
  PoolSegments* const segments_;
  const PoolStream* const stream_;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_POOL_PAGES_H_
