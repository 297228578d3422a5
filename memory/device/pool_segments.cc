// SPDX-License-Identifier: Apache-2.0

#include "memory/device/pool_segments.h"

namespace devrt::internal {

void PoolSegments::Adopt(Segment* segment, uint64_t released) {
  Block* block = segment->Begin(0);
  block->size = static_cast<uint32_t>(segment->bytes() / kGranule);
  block->previous = 0;
  block->use = BlockUse::kFree;
  block->free.released = released;
  List(segment);
  Insert(block);
  free_bytes_.store(free_bytes() + segment->bytes(), std::memory_order_relaxed);
}

void PoolSegments::Remove(Segment* segment) {
  Block* block = segment->table;
  Remove(block);
  segment->End(block);
  free_bytes_.store(free_bytes() - segment->bytes(), std::memory_order_relaxed);
  Unlist(segment);
}

void PoolSegments::List(Segment* segment) {
  segment->last_use = allocations_;
  segment->place = segments_.size();
  segments_.push_back(segment);
  segment->pool.store(pool_, std::memory_order_release);
}

void PoolSegments::Unlist(Segment* segment) {
  segments_.back()->place = segment->place;
  segments_[segment->place] = segments_.back();
  segments_.pop_back();
  segment->pool.store(nullptr, std::memory_order_release);
}

void PoolSegments::Clear(std::vector<Segment*>* segments) {
  for (Segment* segment : segments_) {
    segment->pool.store(nullptr, std::memory_order_release);
    segments->push_back(segment);
  }
  segments_.clear();
  small_ = SmallFreeBlocks();
  large_ = LargeFreeBlocks();
  free_bytes_.store(0, std::memory_order_relaxed);
}

void PoolSegments::ListFree(Segment* segment, Timeline* timeline,
                            std::vector<FreeSegment>* list) const {
  if (!IsFree(segment)) return;
  list->push_back({segment,
                   pool_,
                   {timeline, segment->table->free.released},
                   segment->bytes(),
                   allocations_ - segment->last_use});
}

bool PoolSegments::RemoveIfUnchanged(const FreeSegment& seen) {
  Segment* const segment = seen.segment;
  if (segment->expandable() || segment->bytes() != seen.bytes ||
      !IsFree(segment) ||
      segment->table->free.released != seen.released.epoch) {
    return false;
  }
  Remove(segment);
  return true;
}

}  // namespace devrt::internal
