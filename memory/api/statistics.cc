// SPDX-License-Identifier: Apache-2.0
//
// Functions of devrt/memory/statistics.h.

#include "devrt/memory/statistics.h"

#include "memory/common/hot_settings.h"
#include "memory/device/device_allocator.h"
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

}  // namespace devrt
