// SPDX-License-Identifier: Apache-2.0

#include "devrt/guards/device_guard.h"

namespace devrt {

absl::Status DeviceGuard::status() const {
  if (number_ != 0) return absl::OkStatus();
  return internal::EnterError(saved_.device, error_);
}

}  // namespace devrt
