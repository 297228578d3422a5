// SPDX-License-Identifier: Apache-2.0

#include "streams/objects/kept_stream.h"

#include <optional>

#include "runtime/registry/process_state.h"
#include "streams/common/deferred_deletion.h"
#include "streams/common/relaxed_captures.h"
#include "streams/objects/device_streams.h"

namespace devrt::internal {

bool KeptStream::MarkEnded(StreamRecord* record) {
  if (record->keepers.fetch_or(kEnded, std::memory_order_acq_rel) != 0) {
    return true;
  }
  record->keepers.store(0, std::memory_order_relaxed);
  return false;
}

void KeptStream::ReleaseRecord(StreamRecord* record) {
  if (record->keepers.fetch_sub(1, std::memory_order_acq_rel) != (kEnded | 1)) {
    return;
  }
  // After Shutdown or in a forked child, the backend takes no handles (E39).
  if (!IsProcessOpen()) return;
  record->keepers.store(0, std::memory_order_relaxed);
  RunOutsideHostFunction([record] {
    // This may be any thread, and the thread may be capturing another stream.
    std::optional<RelaxedCaptures> relaxed;
    DeviceStreams* const streams = DeviceStreams::Of(record->device);
    if (IsOpen(record->device)) {
      relaxed.emplace(record->device, streams->capture);
    }
    streams->streams.GiveBack(record);
  });
}

}  // namespace devrt::internal
