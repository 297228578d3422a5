// SPDX-License-Identifier: Apache-2.0
//
// Errors of calls that are impossible while a stream captures a graph.
//
//   absl::Status s = array.Ready();
//   if (devrt::IsCaptureError(s)) EndTheCaptureFirst();
//
// During a CUDA or HIP graph capture that another library began, the host must
// not wait for or query a stream, and must not allocate memory from the driver.
// devrt refuses such a call before it reaches the driver if it can, so that the
// capture stays valid; otherwise the driver refuses it.  IsCaptureError is true
// for both errors.
//
// What it is not: the error of an export that the capture makes impossible.
// That is a BufferError (arrays/exchange.h).
#ifndef DEVRT_RUNTIME_COMMON_CAPTURE_ERROR_H_
#define DEVRT_RUNTIME_COMMON_CAPTURE_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "devrt/runtime/export.h"

namespace devrt {

// True if the operation was refused because a stream captures.
DEVRT_EXPORT bool IsCaptureError(const absl::Status& status);

// Makes a FAILED_PRECONDITION error for which IsCaptureError is true.
DEVRT_EXPORT absl::Status CaptureError(const std::string& text);

}  // namespace devrt

#endif  // DEVRT_RUNTIME_COMMON_CAPTURE_ERROR_H_
