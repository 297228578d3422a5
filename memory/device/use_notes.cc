// SPDX-License-Identifier: Apache-2.0

#include "memory/device/use_notes.h"

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "memory/device/block_pool.h"
#include "runtime/raw_memory/blocks.h"
#include "streams/objects/ordering.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

namespace {

ABSL_ATTRIBUTE_NOINLINE absl::Status NotLiveError(const void* pointer) {
  return absl::InvalidArgumentError(
      absl::StrCat("RecordStream needs a pointer into a live block from "
                   "AllocateMemory, but ",
                   DescribePointer(pointer)));
}

}  // namespace

absl::Status RecordUse(Segment* segment, const void* pointer,
                       StreamRef stream) {
  const OrderPoint point = PointOf(stream);
  for (;;) {
    BlockPool* pool = segment->pool.load(std::memory_order_acquire);
    if (pool == nullptr) break;
    bool foreign = false;
    const PoolAnswer answer =
        pool->uses().Add(segment, pointer, stream, point, true, true, &foreign);
    if (answer == PoolAnswer::kMoved) continue;
    if (answer == PoolAnswer::kNotLive) break;
    // The owner of an adopted stream may destroy it without telling devrt
    // (F22).
    if (foreign && stream.kind() == StreamKind::kExternal) {
      return point.timeline->Checkpoint(point.epoch);
    }
    return absl::OkStatus();
  }
  return NotLiveError(pointer);
}

void NoteUse(Segment* segment, const void* pointer, StreamRef stream,
             const OrderPoint& point) {
  for (;;) {
    BlockPool* pool = segment->pool.load(std::memory_order_acquire);
    if (pool == nullptr || pool->IsOwn(stream)) return;
    bool foreign = false;
    const PoolAnswer answer = pool->uses().Add(segment, pointer, stream, point,
                                               false, false, &foreign);
    if (answer == PoolAnswer::kMoved) continue;
    // Shows later when this use has ended although other work goes on (F15).
    if (foreign) (void)point.timeline->Checkpoint(point.epoch);
    return;
  }
}

}  // namespace devrt::internal
