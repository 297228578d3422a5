// SPDX-License-Identifier: Apache-2.0
//
// The error of a call on a device that takes no calls any more.

#ifndef DEVRT_RUNTIME_INTERNAL_REFUSED_CALL_H_
#define DEVRT_RUNTIME_INTERNAL_REFUSED_CALL_H_

#include "absl/status/status.h"
#include "runtime/internal/records.h"

namespace devrt::internal {

// Returns ClosedError, which says what happened to the device, and adds `call`,
// the name of the function that was refused.
[[gnu::cold]] absl::Status RefusedCallError(const DeviceRecord* device,
                                            const char* call);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_REFUSED_CALL_H_
