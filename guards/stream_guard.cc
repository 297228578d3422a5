// SPDX-License-Identifier: Apache-2.0

#include "devrt/guards/stream_guard.h"

#include "absl/strings/str_cat.h"
#include "devrt/runtime/internal/records.h"
#include "devrt/streams/internal/stream_record.h"

namespace devrt {

absl::Status StreamGuard::status() const {
  if (depth_ != 0) return absl::OkStatus();
  absl::Status kept = internal::GuardError(previous_);
  if (!kept.ok()) return kept;
  absl::Status status = internal::CheckStream(stream_, "StreamGuard");
  if (!status.ok()) return status;
  return absl::UnavailableError(absl::StrCat(
      stream_.device().name(), " could not be made current; the log says why"));
}

}  // namespace devrt
