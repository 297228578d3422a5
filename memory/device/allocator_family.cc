// SPDX-License-Identifier: Apache-2.0

#include "memory/device/allocator_family.h"

#include <algorithm>
#include <utility>

#include "memory/common/hot_settings.h"
#include "memory/device/device_allocator.h"
#include "runtime/raw_memory/blocks.h"

namespace devrt::internal {

// ---- Members ----------------------------------------------------------------

absl::InlinedVector<DeviceAllocator*, 4> AllocatorFamily::Members() {
  absl::InlinedVector<DeviceAllocator*, 4> all = {main_};
  MutexLock lock(&mutex_);
  all.insert(all.end(), others_.begin(), others_.end());
  return all;
}

DeviceAllocator* AllocatorFamily::MakePrivate() {
  for (DeviceAllocator* each : Members()) {
    if (Revive(each)) return each;
  }
  return Add();
}

void AllocatorFamily::EndPrivate(DeviceAllocator* allocator) {
  allocator->abandoned_.store(true, std::memory_order_relaxed);
  (void)allocator->EmptyCache();
}

bool AllocatorFamily::Revive(DeviceAllocator* allocator) {
  if (!allocator->abandoned_.load(std::memory_order_relaxed) ||
      allocator->pools().CountLive() != 0) {
    return false;
  }
  // Streams may still have used some of the memory when EndPrivate was called.
  (void)allocator->EmptyCache();
  if (allocator->ledger().Read().reserved_bytes.all.current != 0) return false;
  bool expected = true;
  return allocator->abandoned_.compare_exchange_strong(expected, false);
}

DeviceAllocator* AllocatorFamily::MakeForGraphs() {
  for (DeviceAllocator* each : Members()) {
    GraphUse& graphs = each->graphs();
    if (graphs.was_begun() && each->pools().CountLive() == 0 &&
        graphs.Begin()) {
      return each;
    }
  }
  DeviceAllocator* const made = Add();
  made->graphs().Begin();
  return made;
}

DeviceAllocator* AllocatorFamily::Add() {
  auto* const made = new DeviceAllocator(device_, this);
  MutexLock lock(&mutex_);
  others_.push_back(made);
  has_others_.store(true, std::memory_order_release);
  return made;
}

// ---- Steps of a recovery ----------------------------------------------------

void AllocatorFamily::Poll() {
  // Most devices have one allocator, and each request that its pool cannot
  // serve comes here.
  if (!has_others_.load(std::memory_order_acquire)) {
    main_->pending().Poll(SIZE_MAX);
    return;
  }
  for (DeviceAllocator* each : Members()) each->pending().Poll(SIZE_MAX);
}

absl::Status AllocatorFamily::WaitForFrees(Ledger* ledger) {
  absl::Status gave_up;
  bool waits = false;
  for (DeviceAllocator* each : Members()) {
    if (each->pending().empty()) continue;
    if (!std::exchange(waits, true)) {
      ledger->num_sync_all_streams.fetch_add(1, std::memory_order_relaxed);
    }
    gave_up.Update(each->pending().WaitForAll());
  }
  return gave_up;
}

std::vector<FreeSegment> AllocatorFamily::ListFree() {
  std::vector<FreeSegment> list;
  for (DeviceAllocator* each : Members()) each->cache().List(&list);
  return list;
}

bool AllocatorFamily::ReleaseSegments(uint64_t bytes, uint64_t least,
                                      absl::Status* gave_up) {
  std::vector<FreeSegment> list = ListFree();
  // First the smallest that is enough by itself, then the largest ones.
  std::sort(list.begin(), list.end(),
            [bytes](const FreeSegment& a, const FreeSegment& b) {
              const bool a_enough = a.bytes >= bytes;
              const bool b_enough = b.bytes >= bytes;
              if (a_enough != b_enough) return a_enough;
              return a_enough ? a.bytes < b.bytes : a.bytes > b.bytes;
            });
  uint64_t released = 0;
  for (const FreeSegment& segment : list) {
    if (released >= bytes || !IsOpen(device_)) break;
    if (segment.bytes >= least &&
        segment.segment->allocator->cache().Release(segment, gave_up)) {
      released += segment.bytes;
    }
  }
  return released != 0;
}

void AllocatorFamily::CollectGarbage() {
  const double threshold =
      hot_settings.garbage_collection_threshold.load(std::memory_order_relaxed);
  if (threshold <= 0) return;
  const double most = threshold * static_cast<double>(budget_.Allowed());
  const auto above = [&] {
    return static_cast<double>(budget_.reserved()) > most;
  };
  if (!above()) return;
  std::vector<FreeSegment> list = ListFree();
  std::stable_sort(
      list.begin(), list.end(),
      [](const FreeSegment& a, const FreeSegment& b) { return a.age > b.age; });
  for (const FreeSegment& segment : list) {
    if (!above()) return;
    segment.segment->allocator->cache().Release(segment, nullptr);
  }
}

// ---- Figures ----------------------------------------------------------------

uint64_t AllocatorFamily::CountFrees() {
  uint64_t frees = 0;
  for (DeviceAllocator* each : Members()) {
    for (BlockPool* pool : each->pools().All()) frees += pool->CountFrees();
  }
  return frees;
}

bool AllocatorFamily::HasRoom(uint64_t bytes) {
  for (DeviceAllocator* each : Members()) {
    bytes += static_cast<uint64_t>(
        each->ledger().Read().allocated_bytes.all.current);
  }
  return bytes <= budget_.Allowed();
}

void AllocatorFamily::AddFigures(OutOfMemoryInfo* info) {
  for (DeviceAllocator* each : Members()) {
    const MemoryStatistics s = each->ledger().Read();
    info->allocated += static_cast<uint64_t>(s.allocated_bytes.all.current);
    info->reserved_unallocated += static_cast<uint64_t>(std::max<int64_t>(
        0, s.reserved_bytes.all.current - s.active_bytes.all.current));
  }
}

}  // namespace devrt::internal
