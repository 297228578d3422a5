// SPDX-License-Identifier: Apache-2.0
//
// Error messages and the report, made from the load attempts.

#ifndef DEVRT_RUNTIME_REGISTRY_LOAD_REPORT_H_
#define DEVRT_RUNTIME_REGISTRY_LOAD_REPORT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "devrt/runtime/backend.h"

namespace devrt::internal {

// The name among `known` and devrt's own backends that `name` may be a typing
// error for; "" if there is none, or if `name` is one of them.
std::string NearestBackend(std::string_view name,
                           const std::vector<std::string>& known);

// The error for a backend `name` that was not found: NOT_FOUND, or the error of
// DEVRT_PLUGINS or of a file libdevrt_<name>.so that could not be used.
absl::Status NotFoundError(std::string_view name,
                           const std::vector<LoadAttempt>& attempts);

// Adds to `failure`, the error of the plugin in `attempt`, why no other file
// with that backend name can replace the plugin.
absl::Status WithOtherPaths(const absl::Status& failure,
                            const LoadAttempt& attempt,
                            const std::vector<LoadAttempt>& attempts);

// One line for each attempt.
std::string FormatAttempts(const std::vector<LoadAttempt>& attempts);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_REGISTRY_LOAD_REPORT_H_
