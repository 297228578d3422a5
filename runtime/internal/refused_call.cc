// SPDX-License-Identifier: Apache-2.0

#include "runtime/internal/refused_call.h"

#include "absl/strings/str_cat.h"
#include "runtime/internal/text.h"

namespace devrt::internal {

absl::Status RefusedCallError(const DeviceRecord* device, const char* call) {
  const uint32_t state = device->state.load(std::memory_order_acquire);
  const absl::Status closed = ClosedError(device);
  // After Shutdown and in a forked child no device matters.
  if ((state & (kForkedChild | kShutDown)) != 0) return closed;
  return WithSuffix(closed, absl::StrCat("; refused call: ", call));
}

}  // namespace devrt::internal
