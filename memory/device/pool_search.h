// SPDX-License-Identifier: Apache-2.0
//
// PoolSearch: looks for a block for one request in the pools of an allocator:
// the stream's own pool, then the others, without waiting.
//
// Other pools (docs/reference/semantics.md 1.14): pools with enough free bytes
// are asked in the order of their numbers, kMostPools of them for a request,
// beginning behind the last one asked.  Their timelines are polled before.  A
// pool that has only unreleased memory gets a checkpoint, so that a later
// request finds out when the memory is released.
//
// Threads: any.  No lock of its own; none may be held by the caller.

#ifndef DEVRT_MEMORY_DEVICE_POOL_SEARCH_H_
#define DEVRT_MEMORY_DEVICE_POOL_SEARCH_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "devrt/streams/stream.h"
#include "memory/device/block_pool.h"
#include "memory/device/graph_use.h"
#include "memory/device/memory_in_flight.h"
#include "memory/device/stream_pools.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

// All return nullptr if there is no block.  `room` says that the device has
// memory left: small blocks are then not borrowed from other pools.
class PoolSearch {
 public:
  PoolSearch(DeviceRecord* device, StreamPools* pools, const GraphUse* graphs,
             MemoryInFlight* in_flight)
      : device_(device),
        pools_(pools),
        graphs_(graphs),
        in_flight_(in_flight) {}
  PoolSearch(const PoolSearch&) = delete;
  PoolSearch& operator=(const PoolSearch&) = delete;

  absl::StatusOr<void*> FindBlock(StreamRef stream, const PoolRequest& wanted,
                                  bool room);
  // In the stream's own pool, which adopts `fresh` before; may be nullptr.
  absl::StatusOr<void*> FindOwn(StreamRef stream, const PoolRequest& wanted,
                                Segment* fresh);
  // Begins at the first of the other pools again, as a new allocator does.
  void StartOver() { last_asked_.store(0, std::memory_order_relaxed); }

 private:
  static constexpr size_t kMostPools = 16;

  absl::StatusOr<void*> FindInOthers(StreamRef stream,
                                     const PoolRequest& wanted, bool room);
  // Takes a segment of `pool`, or borrows a block if `lend`.
  absl::StatusOr<void*> FindInOther(BlockPool* pool, StreamRef stream,
                                    const PoolRequest& wanted, bool room,
                                    bool lend);

  DeviceRecord* const device_;
  StreamPools* const pools_;
  const GraphUse* const graphs_;
  MemoryInFlight* const in_flight_;
  // BlockPool::order of the pool that was asked last; the next search begins
  // behind it.
  std::atomic<uint64_t> last_asked_{0};
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_POOL_SEARCH_H_
