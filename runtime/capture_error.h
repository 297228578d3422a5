// SPDX-License-Identifier: Apache-2.0
//
// Errors that say: not while a stream captures.
//
//   absl::Status s = array.Ready(DEVRT_HERE);
//   if (devrt::IsCaptureError(s)) EndTheCaptureFirst();
//
// A capture of another library allows no host to wait or to ask, and no memory
// from the driver.  The driver refuses some of that, and devrt what it can tell
// before, so that the capture stays valid: both are errors of this kind.
//
// Not: what the capture only made impossible to export; that is a BufferError
// (arrays/exchange.h).

#ifndef DEVRT_RUNTIME_CAPTURE_ERROR_H_
#define DEVRT_RUNTIME_CAPTURE_ERROR_H_

#include <string>

#include "absl/status/status.h"
#include "devrt/runtime/export.h"

namespace devrt {

// Whether the operation was refused because a stream captures.
DEVRT_EXPORT bool IsCaptureError(const absl::Status& status);

// FAILED_PRECONDITION, for which IsCaptureError is true.
DEVRT_EXPORT absl::Status CaptureError(const std::string& text);

}  // namespace devrt

#endif  // DEVRT_RUNTIME_CAPTURE_ERROR_H_
