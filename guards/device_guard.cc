// SPDX-License-Identifier: Apache-2.0

#include "devrt/guards/device_guard.h"

#include "absl/strings/str_cat.h"
#include "devrt/guards/internal/depth.h"
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

}  // namespace internal

DeviceGuard::DeviceGuard(Device device) noexcept : device_(device), depth_(0) {
  DeviceRecord* record = device.record();
  if (ABSL_PREDICT_FALSE(!internal::IsOpen(record))) return;
  devrt_status error =
      record->ops->context_enter(record->self, record->ordinal, &previous_);
  if (ABSL_PREDICT_FALSE(error != nullptr)) {
    absl::Status status = internal::TakeError(record, error, "DeviceGuard");
    DEVRT_LOG(kError, std::string_view(status.message().data(),
                                       status.message().size()));
    return;
  }
  depth_ = internal::EnterGuard();
}

DeviceGuard::~DeviceGuard() {
  if (ABSL_PREDICT_FALSE(depth_ == 0)) return;
  internal::LeaveGuard("DeviceGuard", depth_);
  DeviceRecord* record = device_.record();
  // A device that was lost inside still has to give back the thread.
  const uint32_t state = record->state.load(std::memory_order_acquire);
  if (ABSL_PREDICT_FALSE((state & ~internal::kQuarantined) != 0)) return;
  devrt_status error = record->ops->context_exit(record->self, &previous_);
  if (ABSL_PREDICT_FALSE(error != nullptr)) {
    (void)internal::TakeError(record, error, "DeviceGuard");
  }
}

absl::Status DeviceGuard::status() const {
  if (depth_ != 0) return absl::OkStatus();
  DeviceRecord* record = device_.record();
  if (!internal::IsOpen(record)) return internal::ClosedError(record);
  return absl::UnavailableError(
      absl::StrCat(device_.name(),
                   " could not be made current; the log says why"));
}

}  // namespace devrt
