// SPDX-License-Identifier: Apache-2.0

#include "streams/internal/kept_stream.h"

#include <optional>

#include "runtime/internal/process_state.h"
#include "streams/internal/deferred_deletion.h"
#include "streams/internal/device_streams.h"
#include "streams/internal/relaxed_captures.h"

namespace devrt::internal {

bool KeptStream::HandOver(StreamRecord* record) {
  if (record->keepers.fetch_or(kEnded, std::memory_order_acq_rel) != 0) {
    return true;
  }
  record->keepers.store(0, std::memory_order_relaxed);
  return false;
}

void KeptStream::LetGo(StreamRecord* record) {
  if (record->keepers.fetch_sub(1, std::memory_order_acq_rel) != (kEnded | 1)) {
    return;
  }
  // After Shutdown or in a forked child, the backend takes no handles (E39).
  if (!IsProcessOpen()) return;
  record->keepers.store(0, std::memory_order_relaxed);
  RunOutsideHostFunction([record] {
    // This may be any thread, and the thread may be capturing another stream.
    std::optional<RelaxedCaptures> relaxed;
    if (IsOpen(record->device)) relaxed.emplace(record->device);
    DeviceStreams::Of(record->device)->streams.GiveBack(record);
  });
}

}  // namespace devrt::internal
