// SPDX-License-Identifier: Apache-2.0
#include "devrt/runtime/capture_error.h"

#include <optional>

#include "absl/strings/cord.h"
#include "devrt/runtime/status.h"

namespace devrt {
namespace {

constexpr char kCaptureErrorUrl[] = "devrt/CaptureError";

// The range cudaErrorStreamCaptureUnsupported to
// cudaErrorStreamCaptureWrongThread.  HIP uses equal numbers.
bool IsOfCapture(int64_t native_code) {
  return native_code >= 900 && native_code <= 908;
}

}  // namespace

bool IsCaptureError(const absl::Status& status) {
  if (status.ok()) return false;
  if (status.GetPayload(kCaptureErrorUrl).has_value()) return true;
  const std::optional<ErrorInfo> info = GetErrorInfo(status);
  return info.has_value() && !info->sticky && IsOfCapture(info->native_code) &&
         (info->backend == "cuda" || info->backend == "hip");
}

absl::Status CaptureError(const std::string& text) {
  absl::Status status = absl::FailedPreconditionError(text);
  status.SetPayload(kCaptureErrorUrl, absl::Cord());
  return status;
}

}  // namespace devrt
