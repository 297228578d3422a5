// SPDX-License-Identifier: Apache-2.0
//
// Every live block that devrt handed out or registered, by address.

#ifndef DEVRT_RUNTIME_INTERNAL_ALLOCATION_TABLE_H_
#define DEVRT_RUNTIME_INTERNAL_ALLOCATION_TABLE_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <shared_mutex>

#include "absl/container/btree_map.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/raw_memory.h"
#include "runtime/internal/records.h"

namespace devrt::internal {

struct AllocationRange {
  DeviceRecord* device = nullptr;
  PointerKind kind = PointerKind::kUnregistered;
  bool registered = false;  // host memory of the user's
  void* base = nullptr;
  uint64_t size = 0;  // > 0
  uint64_t id = 0;    // never reused
  CallSite allocated;
  CallSite freed;       // of one that is not alive any more
  bool cached = false;  // of a caching allocator: FreeMemory's to give back
};

// Blocks that devrt allocated never overlap each other; registered ranges
// overlap only if they belong to different backends.
class AllocationTable {
 public:
  static AllocationTable& Get();

  // Gives `range` an id and adds it.  Returns what it overlaps, then nothing
  // has changed; a registered range must overlap no allocated block either.
  std::optional<AllocationRange> Insert(AllocationRange* range);
  // Back, under the id it had.
  void Restore(const AllocationRange& range);
  // False when another thread removed it before.
  bool Remove(const AllocationRange& range, CallSite site);

  // The allocated block, else the registered range, that holds `pointer`.
  std::optional<AllocationRange> Find(const void* pointer) const;
  std::optional<AllocationRange> FindRegistered(const BackendRecord* backend,
                                                const void* pointer) const;
  // An allocated block that has a part of the `bytes` (> 0) at `base`.
  std::optional<AllocationRange> FindOverlapped(const void* base,
                                                uint64_t bytes) const;
  // Whether there may be any but memory that caching allocators cut device
  // memory from, which they know themselves.  Takes no lock.
  bool HasOthers() const {
    return others_.load(std::memory_order_acquire) != 0;
  }
  // Of the last kFreedKept that were removed, the latest that held `pointer`.
  std::optional<AllocationRange> FindFreed(const void* pointer) const;

  static constexpr size_t kFreedKept = 256;

 private:
  using Ranges = absl::btree_map<uintptr_t, AllocationRange>;

  static const AllocationRange* FindIn(const Ranges& ranges, uintptr_t address);
  static const AllocationRange* Overlapped(const Ranges& ranges,
                                           const AllocationRange& range);
  Ranges& RangesFor(const AllocationRange& range);
  void Count(const AllocationRange& range, int by) {
    const bool segment = range.cached && range.kind == PointerKind::kDevice;
    if (!segment) others_.fetch_add(by, std::memory_order_release);
  }

  // std::shared_mutex: lookups of copies on many threads do not queue up.
  mutable std::shared_mutex mutex_;
  Ranges allocated_;
  std::map<const BackendRecord*, Ranges> registered_;
  std::atomic<int64_t> others_{0};
  uint64_t last_id_ = 0;
  std::array<AllocationRange, kFreedKept> freed_;  // a ring
  uint64_t freed_count_ = 0;
};

// The block or range that holds `pointer`: an allocator's (memory_hooks.h),
// else the table's.
// `in_cache`, if given: whether it lies in an allocator's memory, where nothing
// but a live block is the program's.
std::optional<AllocationRange> FindAllocation(const void* pointer,
                                              bool* in_cache = nullptr);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_ALLOCATION_TABLE_H_
