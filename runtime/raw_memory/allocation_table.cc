// SPDX-License-Identifier: Apache-2.0
#include "runtime/raw_memory/allocation_table.h"

#include <algorithm>
#include <iterator>
#include <mutex>  // std::unique_lock

#include "runtime/registry/memory_hooks.h"

namespace devrt::internal {
namespace {

uintptr_t AddressOf(const void* pointer) {
  return reinterpret_cast<uintptr_t>(pointer);
}

}  // namespace

AllocationTable& AllocationTable::Get() {
  static AllocationTable* const table = new AllocationTable;
  return *table;
}

const AllocationRange* AllocationTable::FindIn(const Ranges& ranges,
                                               uintptr_t address) {
  auto after = ranges.upper_bound(address);
  if (after == ranges.begin()) return nullptr;
  const auto& [base, range] = *std::prev(after);
  return address - base < range.size ? &range : nullptr;
}

const AllocationRange* AllocationTable::Overlapped(
    const Ranges& ranges, const AllocationRange& range) {
  const uintptr_t base = AddressOf(range.base);
  if (const AllocationRange* found = FindIn(ranges, base)) return found;
  const auto next = ranges.lower_bound(base);
  const bool overlaps = next != ranges.end() && next->first - base < range.size;
  return overlaps ? &next->second : nullptr;
}

AllocationTable::Ranges& AllocationTable::RangesFor(
    const AllocationRange& range) {
  return range.registered ? registered_[range.device->backend] : allocated_;
}

std::optional<AllocationRange> AllocationTable::Insert(AllocationRange* range) {
  std::unique_lock lock(mutex_);
  Ranges& own = RangesFor(*range);
  for (const Ranges* ranges : {&allocated_, &own}) {
    if (const AllocationRange* in_the_way = Overlapped(*ranges, *range)) {
      return *in_the_way;
    }
  }
  range->id = ++last_id_;
  own.emplace(AddressOf(range->base), *range);
  Count(*range, 1);
  return std::nullopt;
}

void AllocationTable::Restore(const AllocationRange& range) {
  std::unique_lock lock(mutex_);
  RangesFor(range).emplace(AddressOf(range.base), range);
  Count(range, 1);
  for (AllocationRange& freed : freed_) {
    if (freed.id == range.id) freed = AllocationRange();
  }
}

bool AllocationTable::Remove(const AllocationRange& range, CallSite site) {
  std::unique_lock lock(mutex_);
  Ranges& ranges = RangesFor(range);
  const auto found = ranges.find(AddressOf(range.base));
  if (found == ranges.end() || found->second.id != range.id) return false;
  AllocationRange& kept = freed_[freed_count_++ % kFreedKept];
  kept = found->second;
  kept.freed = site;
  ranges.erase(found);
  Count(kept, -1);
  return true;
}

std::optional<AllocationRange> AllocationTable::Find(
    const void* pointer) const {
  const uintptr_t address = AddressOf(pointer);
  std::shared_lock lock(mutex_);
  if (const AllocationRange* found = FindIn(allocated_, address)) {
    return *found;
  }
  for (const auto& [backend, ranges] : registered_) {
    if (const AllocationRange* found = FindIn(ranges, address)) return *found;
  }
  return std::nullopt;
}

std::optional<AllocationRange> AllocationTable::FindRegistered(
    const BackendRecord* backend, const void* pointer) const {
  std::shared_lock lock(mutex_);
  const auto ranges = registered_.find(backend);
  if (ranges == registered_.end()) return std::nullopt;
  const AllocationRange* found = FindIn(ranges->second, AddressOf(pointer));
  if (found == nullptr) return std::nullopt;
  return *found;
}

std::optional<AllocationRange> AllocationTable::FindOverlapped(
    const void* base, uint64_t bytes) const {
  AllocationRange range;
  range.base = const_cast<void*>(base);
  range.size = bytes;
  std::shared_lock lock(mutex_);
  const AllocationRange* found = Overlapped(allocated_, range);
  if (found == nullptr) return std::nullopt;
  return *found;
}

std::optional<AllocationRange> AllocationTable::FindFreed(
    const void* pointer) const {
  const uintptr_t address = AddressOf(pointer);
  std::shared_lock lock(mutex_);
  for (uint64_t i = 1; i <= std::min<uint64_t>(freed_count_, kFreedKept); ++i) {
    const AllocationRange& range = freed_[(freed_count_ - i) % kFreedKept];
    if (address - AddressOf(range.base) < range.size) return range;
  }
  return std::nullopt;
}

std::optional<AllocationRange> FindAllocation(const void* pointer,
                                              bool* in_cache) {
  bool cached = false;
  if (const MemoryHooks* hooks = GetMemoryHooks()) {
    std::optional<AllocationRange> block = hooks->find(pointer, &cached);
    if (in_cache != nullptr) *in_cache = cached;
    if (cached) return block;
  }
  const AllocationTable& table = AllocationTable::Get();
  if (!table.HasOthers()) return std::nullopt;
  return table.Find(pointer);
}

}  // namespace devrt::internal
