// SPDX-License-Identifier: Apache-2.0
//
// What all kinds of raw memory have in common: checks before the backend is
// called, and the bookkeeping after it.

#ifndef DEVRT_RUNTIME_INTERNAL_BLOCKS_H_
#define DEVRT_RUNTIME_INTERNAL_BLOCKS_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/internal/allocation_table.h"
#include "runtime/internal/records.h"

namespace devrt::internal {

// OK when `call` may ask `device` for `bytes` of memory.
absl::Status CheckRequest(const DeviceRecord* device, uint64_t bytes,
                          uint64_t alignment, const char* call);

// A block that is being made counts as alive before the gate is looked at, so
// that Shutdown sees the one or the call sees the other (C98).
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
  // The block is alive: its free ends the count.
  void Keep() { device_ = nullptr; }

 private:
  DeviceRecord* device_;
};

// Hands a fresh block out and keeps its count, or says what is wrong with it.
absl::StatusOr<void*> RecordBlock(AllocationRange range, LiveCount* live);

// Takes the block of `kind` that begins at `pointer` out of the table;
// `device` is nullptr where any will do.  INVALID_ARGUMENT if there is none.
absl::StatusOr<AllocationRange> ClaimBlock(const void* pointer,
                                           PointerKind kind,
                                           const DeviceRecord* device,
                                           const char* call, CallSite site);

// After a native free answered `error`.  Frees report no earlier work
// (docs/semantics.md 2.4); one that failed itself leaves the block allocated.
absl::Status SettleFree(const AllocationRange& range, devrt_status error,
                        const char* call);

// "0x7f00 is pinned host memory of mtia:0, 16 bytes into the block at 0x7ef0"
std::string DescribePointer(const void* pointer);
std::string DescribeRange(const AllocationRange& range);
// "it was in a block of 64 bytes of memory of mtia:0, allocated at a.cc:12,
// freed at a.cc:20"; empty if nothing is known.
std::string DescribeFreed(const void* pointer);

// A device that is lost, in a process that may use devrt: its memory is
// released without asking the driver (docs/semantics.md 2.5).
bool IsLost(const DeviceRecord* device);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_BLOCKS_H_
