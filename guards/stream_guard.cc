// SPDX-License-Identifier: Apache-2.0

#include "devrt/guards/stream_guard.h"

#include "devrt/streams/gate.h"

namespace devrt {

absl::Status StreamGuard::status() const {
  if (number_ != 0) return absl::OkStatus();
  absl::Status status = internal::CheckStream(stream_, "StreamGuard");
  if (!status.ok()) return status;
  return internal::EnterError(saved_.device, error_);
}

}  // namespace devrt
