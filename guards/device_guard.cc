// SPDX-License-Identifier: Apache-2.0

#include "devrt/guards/device_guard.h"

#include "absl/strings/str_cat.h"
#include "devrt/runtime/internal/records.h"
#include "devrt/runtime/log.h"

namespace devrt {

using internal::DeviceRecord;

namespace internal {

void ReportGuardOrder(const char* kind, uint32_t depth) {
  std::string text = absl::StrCat(
      kind, " number ", depth, " of its thread is destroyed while ",
      t_streams.guard_depth,
      " are alive here: destroy guards in the reverse order of construction, "
      "on the thread that made them");
  DEVRT_LOG(kError, text);
}

void ReportGuardError(DeviceRecord* device, devrt_status error,
                      const char* kind) {
  absl::Status status = TakeError(device, error, kind);
  DEVRT_LOG(kError, std::string_view(status.message().data(),
                                     status.message().size()));
}

}  // namespace internal

absl::Status DeviceGuard::status() const {
  if (depth_ != 0) return absl::OkStatus();
  DeviceRecord* record = device_.record();
  if (!internal::IsOpen(record)) return internal::ClosedError(record);
  return absl::UnavailableError(
      absl::StrCat(device_.name(),
                   " could not be made current; the log says why"));
}

}  // namespace devrt
