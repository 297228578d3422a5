// SPDX-License-Identifier: Apache-2.0

#include "memory/device/pool_search.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "devrt/runtime/status.h"
#include "memory/common/hot_settings.h"
#include "runtime/raw_memory/blocks.h"
#include "streams/objects/stream_target.h"
#include "streams/timelines/timeline.h"

namespace devrt::internal {

absl::StatusOr<void*> PoolSearch::FindBlock(StreamRef stream,
                                            const PoolRequest& wanted,
                                            bool room) {
  // The stream may have ended while the request polled or waited.  Its pool may
  // then serve another stream, which must not get what this request finds.
  DEVRT_RETURN_IF_ERROR(CheckStream(stream, "AllocateMemory"));
  // The request has looked into the stream's pool before: only a pool that got
  // memory since has a block.
  if (pools_->Of(stream)->free_bytes() >= wanted.size) {
    absl::StatusOr<void*> found = FindOwn(stream, wanted, nullptr);
    if (!found.ok() || *found != nullptr) return found;
  }
  return FindInOthers(stream, wanted, room);
}

absl::StatusOr<void*> PoolSearch::FindOwn(StreamRef stream,
                                          const PoolRequest& wanted,
                                          Segment* fresh) {
  for (;;) {
    void* pointer = nullptr;
    const PoolAnswer answer =
        pools_->Of(stream)->Allocate(stream, wanted, fresh, &pointer);
    fresh = nullptr;  // the pool has it
    switch (answer) {
      case PoolAnswer::kDone:
        return pointer;
      case PoolAnswer::kMoved: {
        const absl::Status stale = CheckStream(stream, "AllocateMemory");
        if (!stale.ok()) return stale;
        break;
      }
      case PoolAnswer::kClosed:
        return ClosedError(device_);
      default:
        return nullptr;
    }
  }
}

absl::StatusOr<void*> PoolSearch::FindInOthers(StreamRef stream,
                                               const PoolRequest& wanted,
                                               bool room) {
  // Blocks of an allocator for graphs stay with their streams: the driver calls
  // a stream idle whose work was captured, but each launch of the graph runs
  // that work again.
  if (graphs_->active() ||
      !hot_settings.cross_stream_reuse.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  // Small blocks are borrowed only if there is no room for a segment: a stream
  // that borrows comes this long way for each block, and a small segment costs
  // little.
  const bool lend = !room || !IsSmall(wanted.size);
  const auto pools = pools_->All();
  BlockPool* const own = pools_->Of(stream);
  // The pools come in the order of these numbers.
  const auto next =
      std::find_if(pools.begin(), pools.end(),
                   [last = last_asked_.load(std::memory_order_relaxed)](
                       const BlockPool* pool) { return pool->order() > last; });
  const auto first = static_cast<size_t>(next - pools.begin());
  size_t asked = 0;
  for (size_t i = 0; i < pools.size() && asked < kMostPools; ++i) {
    BlockPool* const pool = pools[(first + i) % pools.size()];
    if (pool == own || pool->free_bytes() < wanted.size) continue;
    ++asked;
    last_asked_.store(pool->order(), std::memory_order_relaxed);
    absl::StatusOr<void*> found = FindInOther(pool, stream, wanted, room, lend);
    if (!found.ok() || *found != nullptr) return found;
  }
  return nullptr;
}

absl::StatusOr<void*> PoolSearch::FindInOther(BlockPool* pool, StreamRef stream,
                                              const PoolRequest& wanted,
                                              bool room, bool lend) {
  Timeline* const taker = TimelineOf(stream);
  // A look at the stream finds more blocks that are released, but none that
  // fits better than the best.
  for (const bool best : {true, false}) {
    if (best && IsSmall(wanted.size)) continue;  // one question to the keeper
    if (!best) pool->timeline()->Poll(true);
    const MemoryInFlight::Scope moving(in_flight_);
    Segment* const segment = pool->TakeSegment(wanted, taker, room, best);
    if (segment == nullptr) continue;
    absl::StatusOr<void*> found = FindOwn(stream, wanted, segment);
    if (!found.ok() || *found != nullptr) return found;
  }
  const MemoryInFlight::Scope moving(in_flight_);
  void* pointer = nullptr;
  if (lend &&
      pool->Lend(stream, taker, wanted, &pointer) == PoolAnswer::kDone) {
    return pointer;
  }
  // A later request learns from the checkpoint when the memory is released.
  const std::optional<StreamRef> busy = pool->stream();
  Timeline* const timeline = pool->timeline();
  if (busy.has_value() && !timeline->IsComplete(timeline->Now())) {
    (void)timeline->CheckpointUnlessDestroyed(timeline->Now());
  }
  return nullptr;
}

}  // namespace devrt::internal
