// SPDX-License-Identifier: Apache-2.0

#include "streams/objects/event_record.h"

#include "absl/strings/str_cat.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

absl::Status UnusableEventError(EventRef event, const char* call) {
  if (event.moved_from()) {
    return absl::InvalidArgumentError(absl::StrCat(
        call,
        " with an Event that was moved from: use the Event that it was "
        "moved to"));
  }
  const DeviceRecord* const device = event.record()->device;
  // A destroyed event of a lost device is reported as destroyed.
  const bool lives =
      event.record()->serial.load(std::memory_order_acquire) == event.serial();
  const uint32_t closed = lives ? ~0u : ~kQuarantined;
  if ((device->state.load(std::memory_order_acquire) & closed) != 0) {
    return RefusedCallError(device, call);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      call, " with an event of ", event.device().name(),
      " that was destroyed: keep its Event alive while it is used"));
}

}  // namespace devrt::internal
