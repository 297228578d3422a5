// SPDX-License-Identifier: Apache-2.0
//
// DeviceAllocator: the caching allocator of one device: its pools, and all that
// goes beyond one pool.
//
// A request that its pool cannot serve (Recover), in the order of 2.6, a search
// meaning: the stream's pool, then other pools' and the orphans' blocks that
// are known to be released before what the stream does next:
//
//    1  pending frees whose uses are over come back          no lock, queries
//    2  search
//    3  out-of-memory callbacks; if one says so: search
//    4  a segment from the driver, within the fraction       no lock held
//    5  cached segments that are wholly free, as many as are needed, by the
//       rules for oversize requests, go back; search; as 4    num_alloc_retries
//    6  wait for the pending frees of the device              num_sync_all_...
//    7  search (F7)
//    8  all cached segments go back; as 4
//    9  RESOURCE_EXHAUSTED with the report                    num_ooms
//
// Requests above the device's total or its fraction go to 9 at once.  Each
// thread recovers for itself; two that do at once may both get a segment.
//
// Garbage collection: before 4, when reserved passes the threshold of what is
// allowed, segments that were not used for longest go back down to it.
//
// Cross-stream search (1.14, without waiting): pools with enough free bytes are
// asked in order of their numbers, kMostPools of them a request, beginning
// behind the last; before that their timelines are polled, a stream in use by
// its checkpoints, an idle one by a query.  A pool whose free blocks fit but
// are not known to be released gets a checkpoint, so that a later request finds
// out.
//
// The fraction: bytes are added to `reserved_` before the driver is asked and
// taken off when it refuses, so that threads together keep to it.
//
// Quarantine (2.5): frees are bookkeeping, nothing is handed out, segments are
// kept for ever.  Shutdown: cached segments go back in the release hook; live
// blocks stand in its way (C98).  A simulator's reset forgets all.
//
// Locks, in this order; none is held while a backend, a hook or a callback is
// called:
//   Ledger::mutex_ > BlockPool::lock_ (by number) > leaves: DeviceAllocator::
//   mutex_, PendingFrees::mutex_, AddressMap::mutex_, Timeline::mutex_,
//   HistoryRing::mutex_

#ifndef DEVRT_MEMORY_INTERNAL_DEVICE_ALLOCATOR_H_
#define DEVRT_MEMORY_INTERNAL_DEVICE_ALLOCATOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_suballocation.h"
#include "devrt/backends/abi/devrt_virtual_memory.h"
#include "devrt/memory/internal/block_pool.h"
#include "devrt/memory/internal/ledger.h"
#include "devrt/memory/internal/pending_frees.h"
#include "devrt/memory/memory_resource.h"
#include "devrt/runtime/internal/records.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/internal/device_streams.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

class HistoryRing;

class DeviceAllocator {
 public:
  // The device's; made at the first use, never freed.
  static DeviceAllocator* Of(DeviceRecord* device);
  explicit DeviceAllocator(DeviceRecord* device);
  ~DeviceAllocator();

  absl::StatusOr<void*> Allocate(const MemoryRequest& request);
  // `stream`: nullptr is the stream of the allocation.
  absl::Status Free(Segment* segment, void* pointer, const StreamRef* stream,
                    CallSite site);
  absl::Status RecordUse(Segment* segment, const void* pointer,
                         StreamRef stream);
  absl::Status EmptyCache();
  absl::Status SetFraction(double fraction);
  double fraction() const { return fraction_.load(std::memory_order_relaxed); }

  Ledger& ledger() { return ledger_; }
  // Of users; under the pools' locks, for Shutdown.
  int64_t CountLive();

 private:
  static constexpr size_t kMostPools = 16;

  BlockPool* PoolOf(StreamRef stream);
  absl::StatusOr<void*> Recover(const MemoryRequest& request,
                                const PoolRequest& wanted);
  void* Search(StreamRef stream, const PoolRequest& wanted);
  absl::StatusOr<Segment*> GetSegment(uint64_t size, bool small);
  // True if something went back.
  bool ReleaseSegments(uint64_t bytes);
  absl::Status OutOfMemory(const MemoryRequest& request, uint64_t segment);
  // The block is kClosing: closes its open marks, then waits or settles.
  absl::Status CloseUses(Block* block, const StreamRef* freed_on);

  DeviceRecord* const device_;
  const bool is_private_ = false;  // PrivateCachingResource
  ExtensionOf<devrt_virtual_memory_v0> virtual_memory_;
  ExtensionOf<devrt_suballocation_v0> suballocation_;
  Ledger ledger_;
  PendingFrees pending_;
  std::atomic<double> fraction_{1.0};
  std::atomic<uint64_t> reserved_{0};
  std::atomic<HistoryRing*> history_{nullptr};
  Mutex mutex_;
  std::vector<std::unique_ptr<BlockPool>> pools_ DEVRT_GUARDED_BY(mutex_);
  // Free blocks of streams that have ended; a pool without a stream.
  std::unique_ptr<BlockPool> orphans_;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_INTERNAL_DEVICE_ALLOCATOR_H_
