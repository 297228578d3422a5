// SPDX-License-Identifier: Apache-2.0
//
// BlockUses: the uses of a block by other streams than the one that it was
// given to.
//
// A use is a point on the timeline of a stream: work that was submitted up to
// the point may access the block.  An open use goes on to the free of the
// block.

#ifndef DEVRT_MEMORY_DEVICE_BLOCK_USES_H_
#define DEVRT_MEMORY_DEVICE_BLOCK_USES_H_

#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "devrt/streams/stream.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

struct StreamUse : OrderPoint {
  uint64_t stream = 0;  // its id, for snapshots
};
using StreamUses = absl::InlinedVector<StreamUse, 4>;

// Most blocks have none, so it is not part of the block.  Not synchronised.
struct BlockUses {
  struct Open {  // noted by RecordStream, closed at the free
    StreamRef stream;
    Timeline* timeline;
  };
  StreamUses points;  // the newest for each timeline
  absl::InlinedVector<Open, 2> open;

  void Add(StreamRef stream, Timeline* timeline, uint64_t epoch) {
    Add({{timeline, epoch}, stream.id()});
  }
  void Add(const StreamUse& use) {
    for (StreamUse& known : points) {
      if (known.timeline != use.timeline) continue;
      if (known.epoch < use.epoch) known.epoch = use.epoch;
      return;
    }
    points.push_back(use);
  }
  void AddOpen(StreamRef stream, Timeline* timeline) {
    for (const Open& known : open) {
      if (known.stream == stream) return;
    }
    open.push_back({stream, timeline});
  }
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_BLOCK_USES_H_
