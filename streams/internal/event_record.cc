// SPDX-License-Identifier: Apache-2.0

#include "streams/internal/event_record.h"

#include "absl/strings/str_cat.h"

namespace devrt::internal {

absl::Status StaleEventError(EventRef event, const char* call) {
  if (event.moved_from()) {
    return absl::InvalidArgumentError(absl::StrCat(
        call,
        " with an Event that was moved from: use the Event that it was "
        "moved to"));
  }
  DeviceRecord* device = event.record()->device;
  if ((device->state.load(std::memory_order_acquire) & ~kQuarantined) != 0) {
    return ClosedError(device);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      call, " with an event of ", event.device().name(),
      " that was destroyed: keep its Event alive while it is used"));
}

}  // namespace devrt::internal
