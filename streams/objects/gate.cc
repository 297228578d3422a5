// SPDX-License-Identifier: Apache-2.0

#include "devrt/streams/gate.h"

#include "absl/strings/str_cat.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

absl::Status UnusableStreamError(StreamRef stream, const char* call) {
  if (stream.moved_from()) {
    return absl::InvalidArgumentError(absl::StrCat(
        call,
        " on a Stream that was moved from: use the Stream that it was "
        "moved to"));
  }
  const DeviceRecord* const device = RecordOf(stream.gate()->device_gate);
  // A destroyed stream of a lost device is reported as destroyed, because that
  // is the program's mistake.
  const uint32_t closed = IsAlive(stream) ? ~0u : ~kQuarantined;
  if ((device->state.load(std::memory_order_acquire) & closed) != 0) {
    return RefusedCallError(device, call);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      call, " on stream ", stream.serial(), " of ", stream.device().name(),
      ", which was destroyed: keep its Stream alive while it is used"));
}

}  // namespace devrt::internal
