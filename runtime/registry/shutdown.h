// SPDX-License-Identifier: Apache-2.0
//
// Ends backends, and counts the live objects that forbid it.

#ifndef DEVRT_RUNTIME_REGISTRY_SHUTDOWN_H_
#define DEVRT_RUNTIME_REGISTRY_SHUTDOWN_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

// OK, or FAILED_PRECONDITION: "Shutdown is refused: mtia:0 has 1 stream, 2
// allocations".
absl::Status CheckNothingAlive(const char* call,
                               const std::vector<DeviceRecord*>& devices);

// FAILED_PRECONDITION changes nothing.  With every other result all backends
// have ended and the process is closed for devrt; INTERNAL if a backend's
// shutdown threw.
absl::Status CloseBackends(absl::Span<BackendRecord* const> backends);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_REGISTRY_SHUTDOWN_H_
