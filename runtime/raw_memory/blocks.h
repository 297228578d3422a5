// SPDX-License-Identifier: Apache-2.0
//
// Steps that all kinds of raw memory share: checks before a call of the
// backend, and bookkeeping after it.

#ifndef DEVRT_RUNTIME_RAW_MEMORY_BLOCKS_H_
#define DEVRT_RUNTIME_RAW_MEMORY_BLOCKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/raw_memory/allocation_table.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

// OK if `call` may allocate `bytes` on `device`.
absl::Status CheckRequest(const DeviceRecord* device, uint64_t bytes,
                          uint64_t alignment, const char* call);

// Counts a block as alive before the device's gate is checked.  So either
// Shutdown sees the block, or the call sees the closed gate (C98).
class LiveCount {
 public:
  explicit LiveCount(DeviceRecord* device) : device_(device) {
    device_->live_allocations.fetch_add(1);
  }
  ~LiveCount() {
    if (device_ != nullptr) device_->live_allocations.fetch_sub(1);
  }
  LiveCount(const LiveCount&) = delete;
  LiveCount& operator=(const LiveCount&) = delete;
  // Called once the block is made: it stays counted until it is freed.
  void Keep() { device_ = nullptr; }

 private:
  DeviceRecord* device_;
};

// Enters a new block into the table, keeps its count and returns its address,
// or returns an error that says what is wrong with the block.
absl::StatusOr<void*> RecordBlock(AllocationRange range, LiveCount* live);

// Removes the block of `kind` that begins at `pointer` from the table.
// INVALID_ARGUMENT if there is no such block, or if it belongs to a device
// other than `device`; nullptr allows every device.
absl::StatusOr<AllocationRange> ClaimBlock(const void* pointer,
                                           PointerKind kind,
                                           const DeviceRecord* device,
                                           const char* call, CallSite site);

// True if a call reports what earlier work did: the call itself has had its
// effect.
bool IsOfEarlierWork(const absl::Status& status);

// Handles `error` of a native free.  A free does not report errors of earlier
// work (docs/reference/semantics.md 2.4).  If the free itself failed, the block
// stays allocated.
absl::Status SettleFree(const AllocationRange& range, devrt_status error,
                        const char* call);

// "0x7f00 is pinned host memory of mtia:0, 16 bytes into the block at 0x7ef0"
std::string DescribePointer(const void* pointer);
std::string DescribeRange(const AllocationRange& range);
// "it was in a block of 64 bytes of memory of mtia:0, allocated at a.cc:12,
// freed at a.cc:20"; empty if `pointer` was in no freed block.
std::string DescribeFreed(const void* pointer);

// True if the device is lost and the process is open: then memory is released
// without a call of the driver (docs/reference/semantics.md 2.5).
bool IsLost(const DeviceRecord* device);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_RAW_MEMORY_BLOCKS_H_
