// SPDX-License-Identifier: Apache-2.0

#include "memory/device/stream_pools.h"

#include <algorithm>
#include <utility>

#include "streams/objects/stream_record.h"

namespace devrt::internal {

absl::InlinedVector<BlockPool*, 16> StreamPools::All() {
  absl::InlinedVector<BlockPool*, 16> pools;
  {
    MutexLock lock(&mutex_);
    pools.assign(in_order_.begin(), in_order_.end());
  }
  return pools;
}

int64_t StreamPools::CountLive() {
  int64_t live = 0;
  for (BlockPool* pool : All()) live += pool->CountLive();
  return live;
}

void StreamPools::PollTimelines() {
  for (BlockPool* pool : All()) {
    if (pool->free_bytes() == 0) continue;
    Timeline* const timeline = pool->timeline();
    if (!timeline->IsComplete(timeline->Now() - 1)) timeline->Poll(true);
  }
}

BlockPool* StreamPools::Reuse(StreamRef stream, Timeline* timeline) {
  for (const auto& pool : pools_) {
    if (pool->timeline() == timeline && pool->BeginStream(stream, timeline)) {
      return pool.get();
    }
  }
  for (const auto& pool : pools_) {
    if (pool->IsUnused() && pool->BeginStream(stream, timeline)) {
      return pool.get();
    }
  }
  return nullptr;
}

void StreamPools::PutInOrder(BlockPool* pool, bool is_default) {
  const auto at = std::find(in_order_.begin(), in_order_.end(), pool);
  if (at != in_order_.end()) in_order_.erase(at);
  pool->set_order(is_default ? kDefaultSerial : ++streams_);
  in_order_.insert(std::upper_bound(in_order_.begin(), in_order_.end(), pool,
                                    [](const BlockPool* a, const BlockPool* b) {
                                      return a->order() < b->order();
                                    }),
                   pool);
}

BlockPool* StreamPools::Find(StreamRef stream) {
  StreamRecord* const record = stream.record();
  Timeline* const timeline = TimelineOf(stream);
  MutexLock lock(&mutex_);
  BlockPool*& known = by_serial_[stream.serial()];
  if (known == nullptr) {
    known = Reuse(stream, timeline);
    if (known == nullptr) {
      // Numbers differ over all devices: the ids of blocks are made of them.
      static std::atomic<uint32_t> numbers{0};
      pools_.push_back(
          std::make_unique<BlockPool>(device_, ledger_, numbers.fetch_add(1)));
      known = pools_.back().get();
      known->BeginStream(stream, timeline);
    }
    PutInOrder(known, stream.serial() == kDefaultSerial);
  }
  if (in_records_) {
    record->memory_pool.store(known, std::memory_order_relaxed);
    record->memory_pool_serial.store(stream.serial(),
                                     std::memory_order_release);
  }
  return known;
}

// The streams floor puts a last checkpoint on the timeline, so the present
// epoch covers all work of the stream.
void StreamPools::EndStream(StreamRef stream) {
  BlockPool* pool = nullptr;
  {
    MutexLock lock(&mutex_);
    const auto found = by_serial_.find(stream.serial());
    if (found == by_serial_.end()) return;
    pool = found->second;
    by_serial_.erase(found);
  }
  Timeline* timeline = pool->timeline();
  const uint64_t epoch = timeline->Now();
  // A native stream that is recycled gets no other checkpoint.  A stream that
  // is found complete needs none: a record would stand behind all that the
  // program waits for, and change the trace of a simulated run.
  if (!timeline->QueryEpoch(epoch)) {
    (void)timeline->CheckpointUnlessDestroyed(epoch);
  }
  pool->EndStream(stream.serial(), epoch);
}

}  // namespace devrt::internal
