// SPDX-License-Identifier: Apache-2.0
//
// The table of all live blocks that devrt allocated or registered, by address.

#ifndef DEVRT_RUNTIME_RAW_MEMORY_ALLOCATION_TABLE_H_
#define DEVRT_RUNTIME_RAW_MEMORY_ALLOCATION_TABLE_H_

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
#include "runtime/registry/records.h"

namespace devrt::internal {

struct AllocationRange {
  DeviceRecord* device = nullptr;
  PointerKind kind = PointerKind::kUnregistered;
  bool registered = false;  // host memory of the user, from RegisterHost
  void* base = nullptr;
  uint64_t size = 0;  // > 0
  uint64_t id = 0;    // never reused
  CallSite allocated;
  CallSite freed;       // only of a freed block
  bool cached = false;  // from a caching allocator: only FreeMemory frees it
};

// Allocated blocks never overlap.  Registered ranges overlap only if they
// belong to different backends.
class AllocationTable {
 public:
  static AllocationTable& Get();

  // Gives `range` an id and adds it.  If `range` overlaps a block or range in
  // the table, returns that one and changes nothing.
  std::optional<AllocationRange> Insert(AllocationRange* range);
  // Adds a removed range again, with its old id.
  void Restore(const AllocationRange& range);
  // Returns false if another thread removed the range before.
  bool Remove(const AllocationRange& range, CallSite site);

  // The allocated block, otherwise the registered range, that holds `pointer`.
  std::optional<AllocationRange> Find(const void* pointer) const;
  std::optional<AllocationRange> FindRegistered(const BackendRecord* backend,
                                                const void* pointer) const;
  // An allocated block that overlaps the `bytes` (> 0) at `base`.
  std::optional<AllocationRange> FindOverlapped(const void* base,
                                                uint64_t bytes) const;
  // False if the table holds nothing but device memory of caching allocators,
  // which answer for their own memory.  Takes no lock.
  bool HasOthers() const {
    return others_.load(std::memory_order_acquire) != 0;
  }
  // The latest of the last kFreedKept removed ranges that held `pointer`.
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

  // std::shared_mutex, so that threads that copy can look up in parallel.
  mutable std::shared_mutex mutex_;
  Ranges allocated_;
  std::map<const BackendRecord*, Ranges> registered_;
  std::atomic<int64_t> others_{0};
  uint64_t last_id_ = 0;
  std::array<AllocationRange, kFreedKept> freed_;  // ring buffer
  uint64_t freed_count_ = 0;
};

// The block or range that holds `pointer`: asks the allocators (memory_hooks.h)
// first, then the table.  If `in_cache` is set: `*in_cache` becomes true if
// `pointer` lies in an allocator's memory; then only live blocks belong to the
// program.
std::optional<AllocationRange> FindAllocation(const void* pointer,
                                              bool* in_cache = nullptr);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_RAW_MEMORY_ALLOCATION_TABLE_H_
