// SPDX-License-Identifier: Apache-2.0
//
// SegmentSource: gets the segments of one allocator from the driver and gives
// them back.  A segment that exists is in the AddressMap and in the
// AllocationTable, is counted in the ledger and in the budget, and is reported
// to a backend that watches memory.
//
// Threads: any.  No lock of its own; none may be held by the caller.

#ifndef DEVRT_MEMORY_DEVICE_SEGMENT_SOURCE_H_
#define DEVRT_MEMORY_DEVICE_SEGMENT_SOURCE_H_

#include <cstdint>

#include "absl/status/statusor.h"
#include "devrt/runtime/call_site.h"
#include "memory/common/ledger.h"
#include "memory/device/block.h"
#include "memory/device/memory_budget.h"
#include "memory/device/suballocation_reports.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

class DeviceAllocator;

class SegmentSource {
 public:
  // `allocator` becomes Segment::allocator.
  SegmentSource(DeviceRecord* device, DeviceAllocator* allocator,
                MemoryBudget* budget, Ledger* ledger,
                const SuballocationReports* reports)
      : device_(device),
        allocator_(allocator),
        budget_(budget),
        ledger_(ledger),
        reports_(reports) {}
  SegmentSource(const SegmentSource&) = delete;
  SegmentSource& operator=(const SegmentSource&) = delete;

  // Allocates a segment that no pool has yet; nullptr if the budget or the
  // driver has no room.  The history names `stream`, here and below: the id of
  // the stream that the segment is for.
  absl::StatusOr<Segment*> Allocate(uint64_t size, bool small, uint64_t stream,
                                    CallSite site);
  // Gives the memory of a segment that no pool has to the driver.
  void Free(Segment* segment, uint64_t stream);
  // Removes a segment from maps and figures: its memory is gone.
  void Forget(Segment* segment, uint64_t stream);

  // A segment over `size` bytes at `pointer` from the backend's function
  // `call`, in the maps and not counted.
  absl::StatusOr<Segment*> Register(void* pointer, uint64_t size, bool small,
                                    const char* call);
  // Takes a segment out of the maps.
  void Unregister(Segment* segment);
  // Adds an event of a segment to the history, if that is on.
  void AddToHistory(MemoryAction action, const void* pointer, uint64_t bytes,
                    uint64_t stream) const;

 private:
  // Makes a segment of memory from the driver.
  absl::StatusOr<Segment*> Adopt(void* pointer, uint64_t size, bool small,
                                 uint64_t stream);

  DeviceRecord* const device_;
  DeviceAllocator* const allocator_;
  MemoryBudget* const budget_;
  Ledger* const ledger_;
  const SuballocationReports* const reports_;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_SEGMENT_SOURCE_H_
