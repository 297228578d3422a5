// SPDX-License-Identifier: Apache-2.0
//
// The end of backends, and the counts that stand in its way.

#ifndef DEVRT_RUNTIME_INTERNAL_SHUTDOWN_H_
#define DEVRT_RUNTIME_INTERNAL_SHUTDOWN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "devrt/runtime/internal/records.h"

namespace devrt::internal {

// OK, or FAILED_PRECONDITION: "Shutdown is refused: mtia:0 has 1 stream, 2
// allocations".
absl::Status CheckNothingAlive(const char* call,
                               const std::vector<DeviceRecord*>& devices);

// Ends all backends and closes the process for devrt, or changes nothing.
absl::Status CloseBackends(absl::Span<BackendRecord* const> backends);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_SHUTDOWN_H_
