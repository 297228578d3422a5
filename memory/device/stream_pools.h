// SPDX-License-Identifier: Apache-2.0
//
// StreamPools: owns the pools of one allocator, and knows which of them serves
// a stream.
//
// Locks: `mutex_` for the tables; before the locks of the ledger and of pools.
// Pools live as long as the allocator.

#ifndef DEVRT_MEMORY_DEVICE_STREAM_POOLS_H_
#define DEVRT_MEMORY_DEVICE_STREAM_POOLS_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/container/flat_hash_map.h"
#include "absl/container/inlined_vector.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/stream.h"
#include "memory/common/ledger.h"
#include "memory/device/block_pool.h"
#include "streams/objects/stream_record.h"

namespace devrt::internal {

class StreamPools {
 public:
  // `in_records`: the record of a stream keeps its pool, for a look-up without
  // a lock.  One allocator of a device may do so.
  StreamPools(DeviceRecord* device, Ledger* ledger, bool in_records)
      : device_(device), ledger_(ledger), in_records_(in_records) {}
  StreamPools(const StreamPools&) = delete;
  StreamPools& operator=(const StreamPools&) = delete;

  // The pool of the stream; makes one if there is none.
  BlockPool* Of(StreamRef stream) {
    StreamRecord* record = stream.record();
    if (ABSL_PREDICT_TRUE(in_records_ &&
                          record->memory_pool_serial.load(
                              std::memory_order_acquire) == stream.serial())) {
      return static_cast<BlockPool*>(
          record->memory_pool.load(std::memory_order_relaxed));
    }
    return Find(stream);
  }
  // Called when the stream ends: its pool goes on without a stream.
  void EndStream(StreamRef stream) DEVRT_EXCLUDES(mutex_);
  // In the order in which their streams came to this allocator, that of the
  // default stream last.  The order in which pools were made, or the serials of
  // their streams, would let a run of the simulator depend on earlier runs:
  // pools are used again, and serials are handed out in lots.
  absl::InlinedVector<BlockPool*, 16> All() DEVRT_EXCLUDES(mutex_);
  // Live blocks of all pools.
  int64_t CountLive() DEVRT_EXCLUDES(mutex_);
  // Asks once how far the streams of pools with free memory have come.
  void PollTimelines() DEVRT_EXCLUDES(mutex_);

 private:
  BlockPool* Find(StreamRef stream) DEVRT_EXCLUDES(mutex_);
  // A pool without a stream that now serves `stream`; nullptr if none can.
  BlockPool* Reuse(StreamRef stream, Timeline* timeline) DEVRT_REQUIRES(mutex_);
  // Gives the pool the place of a stream that has just come.
  void PutInOrder(BlockPool* pool, bool is_default) DEVRT_REQUIRES(mutex_);

  DeviceRecord* const device_;
  Ledger* const ledger_;
  const bool in_records_;
  Mutex mutex_;
  uint64_t streams_ DEVRT_GUARDED_BY(mutex_) = 0;  // that have come
  std::vector<std::unique_ptr<BlockPool>> pools_ DEVRT_GUARDED_BY(mutex_);
  std::vector<BlockPool*> in_order_ DEVRT_GUARDED_BY(mutex_);  // for All
  absl::flat_hash_map<uint64_t, BlockPool*> by_serial_ DEVRT_GUARDED_BY(mutex_);
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_STREAM_POOLS_H_
