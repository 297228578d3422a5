// SPDX-License-Identifier: Apache-2.0

#include "devrt/guards/stream_guard.h"

#include "streams/internal/stream_record.h"

namespace devrt {

absl::Status StreamGuard::status() const {
  if (number_ != 0) return absl::OkStatus();
  absl::Status status = internal::CheckStream(stream_, "StreamGuard");
  if (!status.ok()) return status;
  return internal::EnterError(stream_.record()->device, previous_);
}

}  // namespace devrt
