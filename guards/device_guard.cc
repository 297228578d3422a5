// SPDX-License-Identifier: Apache-2.0

#include "devrt/guards/device_guard.h"

#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <utility>

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
  DEVRT_LOG(kError,
            std::string_view(status.message().data(), status.message().size()));
}

void KeepGuardError(DeviceRecord* device, devrt_status error, const char* kind,
                    devrt_context* previous) {
  absl::Status status = TakeError(device, error, kind);
  DEVRT_LOG(kError,
            std::string_view(status.message().data(), status.message().size()));
  *previous = {};
  previous->state[0] = reinterpret_cast<uintptr_t>(
      new (std::nothrow) absl::Status(std::move(status)));
}

absl::Status GuardError(const devrt_context& previous) {
  const auto* kept = reinterpret_cast<const absl::Status*>(previous.state[0]);
  return kept != nullptr ? *kept : absl::OkStatus();
}

void DropGuardError(devrt_context* previous) {
  delete reinterpret_cast<absl::Status*>(previous->state[0]);
}

}  // namespace internal

absl::Status DeviceGuard::status() const {
  if (depth_ != 0) return absl::OkStatus();
  absl::Status kept = internal::GuardError(previous_);
  if (!kept.ok()) return kept;
  DeviceRecord* record = device_.record();
  if (!internal::IsOpen(record)) return internal::ClosedError(record);
  return absl::UnavailableError(absl::StrCat(
      device_.name(), " could not be made current; the log says why"));
}

}  // namespace devrt
