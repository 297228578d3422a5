// SPDX-License-Identifier: Apache-2.0

#include "memory/device/cached_segments.h"

#include "memory/device/pending_frees.h"

namespace devrt::internal {

void CachedSegments::List(std::vector<FreeSegment>* list) {
  if (graphs_->active()) return;
  for (BlockPool* pool : pools_->All()) pool->ListFree(list);
}

bool CachedSegments::ReleaseUnless(const std::atomic<bool>* kept,
                                   const FreeSegment& segment,
                                   absl::Status* gave_up) {
  const OrderPoint& released = segment.released;
  if (gave_up != nullptr) {
    gave_up->Update(WaitFor(released));
  } else if (!released.timeline->IsComplete(released.epoch)) {
    released.timeline->Poll(true);
  }
  const MemoryInFlight::Scope moving(in_flight_);
  if (!released.timeline->IsComplete(released.epoch) ||
      !segment.pool->RemoveIfUnchanged(segment, kept)) {
    return false;
  }
  if (segment.pages != 0) {
    expandable_->Free(segment.pool, segment.run());
  } else {
    source_->Free(segment.segment, StreamId(segment.pool->serial()));
  }
  return true;
}

void CachedSegments::ReleaseUnused() {
  std::vector<FreeSegment> list;
  List(&list);
  for (const FreeSegment& segment : list) {
    if (IsOpen(device_)) Release(segment, nullptr);
  }
}

void CachedSegments::ReleaseAtEnd() {
  std::vector<FreeSegment> list;
  for (BlockPool* pool : pools_->All()) pool->ListFree(&list);
  for (const FreeSegment& segment : list) {
    ReleaseUnless(nullptr, segment, nullptr);
  }
}

void CachedSegments::ForgetAll() {
  for (BlockPool* pool : pools_->All()) {
    std::vector<Segment*> left;
    pool->RemoveAll(&left);
    const uint64_t stream = StreamId(pool->serial());
    for (Segment* segment : left) source_->Forget(segment, stream);
  }
}

}  // namespace devrt::internal
