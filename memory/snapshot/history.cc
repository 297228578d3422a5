// SPDX-License-Identifier: Apache-2.0

#include "devrt/memory/history.h"

#include "devrt/runtime/status.h"
#include "memory/common/hot_settings.h"
#include "memory/device/device_allocator.h"
#include "memory/snapshot/snapshot.h"
#include "runtime/registry/process_state.h"

namespace devrt {

using internal::DeviceAllocator;
using internal::HistoryRing;
using internal::Ledger;

absl::Status RecordMemoryHistory(Device device,
                                 std::optional<HistoryOptions> options) {
  if (internal::IsForkedChild()) return internal::ProcessClosedError();
  Ledger& ledger = DeviceAllocator::Of(device.record())->ledger();
  if (options.has_value()) return ledger.StartHistory(*options);
  ledger.StopHistory();
  return absl::OkStatus();
}

absl::StatusOr<MemorySnapshot> TakeMemorySnapshot(Device device) {
  if (internal::IsForkedChild()) return internal::ProcessClosedError();
  DeviceAllocator* const allocator =
      device.record()->allocator.load(std::memory_order_acquire);
  MemorySnapshot snapshot;
  if (allocator != nullptr) {
    if (HistoryRing* const history = allocator->ledger().history()) {
      history->Add(MemoryAction::kSnapshot, nullptr, 0, 0, 0);
    }
    snapshot = internal::SnapshotOf(allocator);
  }
  snapshot.device = device.name();
  const absl::StatusOr<DeviceProperties> properties = device.Properties();
  if (properties.ok()) snapshot.total_memory = properties->total_memory;
  const uint64_t most =
      internal::hot_settings.max_split_size.load(std::memory_order_relaxed);
  snapshot.statistics.max_split_size =
      most > INT64_MAX ? -1 : static_cast<int64_t>(most);
  return snapshot;
}

absl::StatusOr<std::string> MemorySnapshotJson(Device device) {
  DEVRT_ASSIGN_OR_RETURN(const MemorySnapshot snapshot,
                         TakeMemorySnapshot(device));
  return ToJson(snapshot);
}

}  // namespace devrt
