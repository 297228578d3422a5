// SPDX-License-Identifier: Apache-2.0
//
// CachedSegments: gives the segments and pages of one allocator that have no
// live block back to the driver.
//
// Memory goes back only when all work that was submitted before its free is
// known to be over: no free of a driver is relied on to wait (C64).
//
// An allocator that serves graphs (GraphUse) gives nothing back, because a
// graph may write to its free blocks.
//
// Threads: any.  No lock of its own; none may be held by the caller.

#ifndef DEVRT_MEMORY_DEVICE_CACHED_SEGMENTS_H_
#define DEVRT_MEMORY_DEVICE_CACHED_SEGMENTS_H_

#include <vector>

#include "absl/status/status.h"
#include "memory/device/block_pool.h"
#include "memory/device/expandable_segments.h"
#include "memory/device/graph_use.h"
#include "memory/device/memory_in_flight.h"
#include "memory/device/segment_source.h"
#include "memory/device/stream_pools.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

class CachedSegments {
 public:
  CachedSegments(DeviceRecord* device, StreamPools* pools,
                 const GraphUse* graphs, MemoryInFlight* in_flight,
                 SegmentSource* source, ExpandableSegments* expandable)
      : device_(device),
        pools_(pools),
        graphs_(graphs),
        in_flight_(in_flight),
        source_(source),
        expandable_(expandable) {}
  CachedSegments(const CachedSegments&) = delete;
  CachedSegments& operator=(const CachedSegments&) = delete;

  // Appends the segments and pages that have no live block.
  void List(std::vector<FreeSegment>* list);
  // Gives back a segment that List appended.  Returns false, and does nothing,
  // if the segment has changed since, if its last use is not complete, or if
  // the allocator serves graphs.  If `gave_up` is not null, first waits for
  // that use; an error of the wait goes into `*gave_up`, unless an earlier call
  // has set it.
  bool Release(const FreeSegment& segment, absl::Status* gave_up) {
    return ReleaseUnless(graphs_->active_flag(), segment, gave_up);
  }
  // Gives back all segments and pages that need no wait.
  void ReleaseUnused();
  // Does what ReleaseUnused does, for Shutdown: also for an allocator that
  // serves graphs, and also if the device's gate is closed.
  void ReleaseAtEnd();
  // Forgets all segments, free or not, because the device's memory is gone or
  // left to its plugin.
  void ForgetAll();

 private:
  // Gives nothing back if `*kept` is true; `kept` may be null.
  bool ReleaseUnless(const std::atomic<bool>* kept, const FreeSegment& segment,
                     absl::Status* gave_up);

  DeviceRecord* const device_;
  StreamPools* const pools_;
  const GraphUse* const graphs_;
  MemoryInFlight* const in_flight_;
  SegmentSource* const source_;
  ExpandableSegments* const expandable_;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_CACHED_SEGMENTS_H_
