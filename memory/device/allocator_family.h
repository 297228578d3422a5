// SPDX-License-Identifier: Apache-2.0
//
// AllocatorFamily: the allocators of one device: its own, the private ones and
// those for graphs.  They share one budget and do not share blocks.  The steps
// of a recovery that wait and that give memory back reach all of them.
//
// Locks: `mutex_` for the list of members, a leaf.

#ifndef DEVRT_MEMORY_DEVICE_ALLOCATOR_FAMILY_H_
#define DEVRT_MEMORY_DEVICE_ALLOCATOR_FAMILY_H_

#include <atomic>
#include <cstdint>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "devrt/runtime/mutex.h"
#include "memory/common/ledger.h"
#include "memory/device/memory_budget.h"
#include "memory/device/memory_in_flight.h"
#include "memory/device/pool_segments.h"
#include "runtime/raw_memory/out_of_memory.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

class DeviceAllocator;

class AllocatorFamily {
 public:
  // `main` is the device's own allocator, which owns the family.
  AllocatorFamily(DeviceRecord* device, DeviceAllocator* main, double fraction)
      : device_(device), main_(main), budget_(device, fraction) {}
  AllocatorFamily(const AllocatorFamily&) = delete;
  AllocatorFamily& operator=(const AllocatorFamily&) = delete;

  DeviceAllocator* main() const { return main_; }
  MemoryBudget* budget() { return &budget_; }
  MemoryInFlight* in_flight() { return &in_flight_; }
  // The device's own allocator first.
  absl::InlinedVector<DeviceAllocator*, 4> Members() DEVRT_EXCLUDES(mutex_);

  // An allocator for PrivateCachingResource, up to EndPrivate.  One that has
  // ended and is empty is used again.
  DeviceAllocator* MakePrivate();
  // The memory of `allocator` goes back to the driver, that of live blocks with
  // the last free.
  static void EndPrivate(DeviceAllocator* allocator);
  // An allocator for graphs, up to GraphUse::End.  It then keeps its cache for
  // the next call, which waits for its last live block.
  DeviceAllocator* MakeForGraphs();

  // Settles all pending frees whose uses are over.
  void Poll();
  // Waits for all pending frees.  Counts the wait, if there is any, in
  // `ledger`.  Returns the first reason for which a wait was given up.
  absl::Status WaitForFrees(Ledger* ledger);
  // Gives segments of `least` bytes and more back to the driver until `bytes`
  // of them went.  Returns true if any did.  Waits for their last uses if
  // `gave_up` is not null; see CachedSegments::Release.
  bool ReleaseSegments(uint64_t bytes, uint64_t least, absl::Status* gave_up);
  // If more is reserved than the threshold of the settings allows, gives back
  // the segments that were not used for longest, down to the threshold.
  void CollectGarbage();

  // Blocks that were free at once when the program freed them, so far.
  uint64_t CountFrees();
  // True if the budget allows `bytes` beside the live blocks.
  bool HasRoom(uint64_t bytes);
  // Adds what the family has allocated and what it keeps in its caches.
  void AddFigures(OutOfMemoryInfo* info);

 private:
  DeviceAllocator* Add();
  // Takes a private allocator that has ended and is empty into use again;
  // returns false for any other one.
  static bool Revive(DeviceAllocator* allocator);
  std::vector<FreeSegment> ListFree();

  DeviceRecord* const device_;
  DeviceAllocator* const main_;
  MemoryBudget budget_;
  MemoryInFlight in_flight_;
  Mutex mutex_;
  // Without `main_`.  Allocators are never destroyed.
  std::vector<DeviceAllocator*> others_ DEVRT_GUARDED_BY(mutex_);
  std::atomic<bool> has_others_{false};
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_ALLOCATOR_FAMILY_H_
