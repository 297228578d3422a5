// SPDX-License-Identifier: Apache-2.0
//
// ExpandableSegments: addresses and pages from the extension
// devrt.virtual_memory/0 for one allocator.  Each pool reserves more addresses
// than the device has memory, once; pages of memory are put behind them and
// taken away.
//
//   small pool  pages of 2 MiB, 1 GiB of addresses
//   large pool  pages of 20 MiB, addresses for 9/8 of the device
//
// Page sizes are rounded up to the driver's granularity.  PoolPages says which
// pages of a pool are to be mapped and which may go.
//
// Threads: any.  No lock of its own; none may be held by the caller.

#ifndef DEVRT_MEMORY_DEVICE_EXPANDABLE_SEGMENTS_H_
#define DEVRT_MEMORY_DEVICE_EXPANDABLE_SEGMENTS_H_

#include <atomic>
#include <cstdint>

#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_virtual_memory.h"
#include "memory/common/ledger.h"
#include "memory/device/block_pool.h"
#include "memory/device/memory_budget.h"
#include "memory/device/pages.h"
#include "memory/device/segment_source.h"
#include "memory/device/suballocation_reports.h"
#include "runtime/registry/records.h"
#include "streams/common/extension.h"

namespace devrt::internal {

class ExpandableSegments {
 public:
  ExpandableSegments(DeviceRecord* device, MemoryBudget* budget, Ledger* ledger,
                     const SuballocationReports* reports,
                     SegmentSource* source);
  ExpandableSegments(const ExpandableSegments&) = delete;
  ExpandableSegments& operator=(const ExpandableSegments&) = delete;

  // True if the settings ask for expandable segments and the device has them.
  bool IsEnabled();
  // Reserves addresses without memory, which belong to no pool yet.  nullptr if
  // the driver has no addresses left, which is logged once.
  absl::StatusOr<Segment*> ReserveAddresses(bool small);
  // Gives the addresses of a segment back that has no page and no pool.
  void ReleaseAddresses(Segment* segment);
  // Puts memory behind a run of busy pages, for the stream with the id
  // `stream`.  False if there is no room.
  absl::StatusOr<bool> Map(const PageRun& run, uint64_t stream);
  // Gives the memory of a run of busy pages of `pool` back to the driver.
  void Free(BlockPool* pool, const PageRun& run);

 private:
  // In bytes; 0 if the device has no virtual memory, which is logged once.
  uint64_t Granularity();
  devrt_status MapPage(char* address, uint64_t bytes, devrt_chunk* chunk);
  // Returns the bytes that the driver would not take back.
  uint64_t Unmap(const PageRun& run);
  // Corrects figures after a page of the run could not be mapped.
  void UndoMap(const PageRun& run);

  static constexpr uint64_t kUnknown = UINT64_MAX;
  DeviceRecord* const device_;
  MemoryBudget* const budget_;
  Ledger* const ledger_;
  const SuballocationReports* const reports_;
  SegmentSource* const source_;
  const ExtensionOf<devrt_virtual_memory_v0> extension_;
  std::atomic<uint64_t> granularity_{kUnknown};
  std::atomic<bool> logged_no_addresses_{false};
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_EXPANDABLE_SEGMENTS_H_
