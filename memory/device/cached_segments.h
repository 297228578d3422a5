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

  // Appends what the allocator may give back.
  void List(std::vector<FreeSegment>* list);
  // Gives one of them back if it is still as it was listed and its last use is
  // over.  Waits for that use if `gave_up` is not null; `*gave_up` receives the
  // first reason for which a wait was given up.
  bool Release(const FreeSegment& segment, absl::Status* gave_up) {
    return ReleaseUnless(graphs_->active_flag(), segment, gave_up);
  }
  // Gives back what it can without waiting.
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
