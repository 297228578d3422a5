// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/statistics.h"

#include "memory/common/hot_settings.h"
#include "memory/device/device_allocator.h"
#include "memory/pinned/pinned_allocator.h"
#include "runtime/raw_memory/blocks.h"
#include "runtime/registry/process_state.h"

namespace devrt {

namespace {

// nullptr if nothing was ever allocated, and in a forked child (C105).
internal::Ledger* LedgerOf(Device device) {
  if (internal::IsForkedChild()) return nullptr;
  internal::DeviceAllocator* allocator =
      device.record()->allocator.load(std::memory_order_acquire);
  return allocator == nullptr ? nullptr : &allocator->ledger();
}

// nullptr if no pinned memory was ever allocated, and in a forked child.
internal::PinnedAllocator* PinnedAllocatorOf(Backend backend) {
  if (internal::IsForkedChild()) return nullptr;
  return internal::PinnedAllocator::Existing(
      internal::BackendRecord::Of(backend));
}

}  // namespace

MemoryStatistics GetMemoryStatistics(Device device) {
  MemoryStatistics statistics;
  if (internal::Ledger* ledger = LedgerOf(device)) statistics = ledger->Read();
  const uint64_t most =
      internal::hot_settings.max_split_size.load(std::memory_order_relaxed);
  statistics.max_split_size =
      most > INT64_MAX ? -1 : static_cast<int64_t>(most);
  return statistics;
}

void ResetPeakMemoryStatistics(Device device) {
  if (internal::Ledger* ledger = LedgerOf(device)) ledger->ResetPeak();
}

void ResetAccumulatedMemoryStatistics(Device device) {
  if (internal::Ledger* ledger = LedgerOf(device)) ledger->ResetAccumulated();
}

PinnedStatistics GetPinnedStatistics(Backend backend) {
  internal::PinnedAllocator* const allocator = PinnedAllocatorOf(backend);
  return allocator != nullptr ? allocator->Statistics() : PinnedStatistics();
}

void ResetPeakPinnedStatistics(Backend backend) {
  internal::PinnedAllocator* const allocator = PinnedAllocatorOf(backend);
  if (allocator != nullptr) allocator->ResetPeak();
}

void ResetAccumulatedPinnedStatistics(Backend backend) {
  internal::PinnedAllocator* const allocator = PinnedAllocatorOf(backend);
  if (allocator != nullptr) allocator->ResetAccumulated();
}

}  // namespace devrt
