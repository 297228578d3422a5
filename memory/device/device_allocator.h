// SPDX-License-Identifier: Apache-2.0
//
// DeviceAllocator: a caching allocator for one device.  Allocations and frees
// that one pool can serve are done here; what goes beyond is done by the parts:
//
//   AllocatorFamily       the allocators of the device, and their budget
//   StreamPools           the pools, and which of them serves a stream
//   PoolSearch            a block in the pools, without waiting
//   Recovery              a request for which no pool has a block
//   SegmentSource         segments from the driver and back
//   ExpandableSegments    addresses and pages from the driver and back
//   CachedSegments        what has no live block goes back to the driver
//   PendingFrees          freed blocks that work still uses
//   GraphUse              whether the allocator serves graphs
//   SuballocationReports  a backend that watches memory is told of blocks
//
// Each part uses only parts that are constructed before it.
//
// Captures (devrt.capture/0): a stream that another library captures gets what
// its pool has, and an error otherwise.  Freed blocks are polled in a way that
// leaves captures valid (Timeline::Poll).  An allocator for graphs
// (graph_pool.h) takes memory from the driver for such a stream too, in relaxed
// mode.
//
// Quarantine (docs/reference/semantics.md 2.5): frees only update the tables of
// the allocator, no block is handed out, and segments are kept for ever.
// Shutdown: cached segments go back in the release hook, and live blocks make
// it fail (C98).  What streams still use then, and all memory of a lost device,
// is left to the plugin's end.
//
// Locks, in this order.  No lock is held while a backend, a hook or a callback
// is called:
//   StreamPools::mutex_ > Ledger::mutex_ > BlockPool::lock_ (by number) >
//   leaves: AllocatorFamily::mutex_, GraphUse::mutex_, PendingFrees::mutex_,
//   AddressMap::mutex_, the locks of a Timeline's parts, HistoryRing::mutex_
// A thread that counts holds a BlockPool::lock_ and only tries Ledger::mutex_
// (Ledger::Count).

#ifndef DEVRT_MEMORY_DEVICE_DEVICE_ALLOCATOR_H_
#define DEVRT_MEMORY_DEVICE_DEVICE_ALLOCATOR_H_

#include <atomic>
#include <cstdint>
#include <memory>

#include "absl/base/optimization.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/memory/memory_request.h"
#include "devrt/streams/stream.h"
#include "memory/common/ledger.h"
#include "memory/device/allocator_family.h"
#include "memory/device/block_pool.h"
#include "memory/device/cached_segments.h"
#include "memory/device/expandable_segments.h"
#include "memory/device/graph_use.h"
#include "memory/device/pending_frees.h"
#include "memory/device/pool_search.h"
#include "memory/device/segment_source.h"
#include "memory/device/stream_pools.h"
#include "memory/device/suballocation_reports.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

class DeviceAllocator {
 public:
  // The device's own allocator; made at the first use, never destroyed.
  static DeviceAllocator* Of(DeviceRecord* device) {
    DeviceAllocator* a = device->allocator.load(std::memory_order_acquire);
    return ABSL_PREDICT_TRUE(a != nullptr) ? a : Make(device);
  }
  DeviceAllocator(const DeviceAllocator&) = delete;
  DeviceAllocator& operator=(const DeviceAllocator&) = delete;

  // ---- Blocks ---------------------------------------------------------------

  // `request.bytes` is > 0 and < 2^60.
  absl::StatusOr<void*> Allocate(const MemoryRequest& request);
  // `stream`: nullptr is the stream of the allocation.
  absl::Status Free(Segment* segment, void* pointer, const StreamRef* stream,
                    CallSite site);
  // See FreeMemoryPlainly.
  bool FreePlainly(Segment* segment, void* pointer, CallSite site);

  // ---- The cache ------------------------------------------------------------

  // Gives back what this allocator alone has without a live block.
  absl::Status EmptyCache();
  // See MemoryHooks.
  void Release();
  void Settle();

  // ---- Parts ----------------------------------------------------------------

  DeviceRecord* device() const { return device_; }
  AllocatorFamily& family() { return *family_; }
  Ledger& ledger() { return ledger_; }
  StreamPools& pools() { return pools_; }
  PendingFrees& pending() { return pending_; }
  GraphUse& graphs() { return graphs_; }
  SegmentSource& source() { return source_; }
  ExpandableSegments& expandable() { return expandable_; }
  CachedSegments& cache() { return cache_; }
  PoolSearch& search() { return search_; }

 private:
  friend class AllocatorFamily;

  // Timelines that a request polls before it looks for a block.
  static constexpr size_t kPollsOnAllocation = 2;

  // The device's own allocator if `family` is null, which makes the family.
  DeviceAllocator(DeviceRecord* device, AllocatorFamily* family);
  static DeviceAllocator* Make(DeviceRecord* device);
  bool IsMain() const { return own_family_ != nullptr; }

  absl::StatusOr<void*> AllocateSlowly(const MemoryRequest& request,
                                       PoolRequest wanted, PoolAnswer answer);
  // Counts and reports the block that was taken for the request.
  absl::StatusOr<void*> FinishAllocation(const MemoryRequest& request,
                                         const PoolRequest& wanted,
                                         void* pointer);
  PoolReturn ReturnOf(Segment* segment, void* pointer, const StreamRef* stream,
                      CallSite site);
  // Closes the open uses of a block that is kClosing, then settles it or makes
  // it pending.  `defers`: a later poll records their checkpoint.
  void CloseUses(BlockPool* pool, Block* block, const StreamRef* freed_on,
                 bool defers);
  // Makes a block free after all its uses are over.
  static void SettleBlock(void* block);

  DeviceRecord* const device_;
  const std::unique_ptr<AllocatorFamily> own_family_;
  AllocatorFamily* const family_;
  const SuballocationReports reports_;
  Ledger ledger_;
  GraphUse graphs_;
  StreamPools pools_;
  PoolSearch search_;
  SegmentSource source_;
  ExpandableSegments expandable_;
  CachedSegments cache_;
  PendingFrees pending_;
  std::atomic<bool> abandoned_{false};  // AllocatorFamily::EndPrivate
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_DEVICE_ALLOCATOR_H_
