// SPDX-License-Identifier: Apache-2.0
//
// Texts made from what was tried.

#ifndef DEVRT_RUNTIME_INTERNAL_LOAD_REPORT_H_
#define DEVRT_RUNTIME_INTERNAL_LOAD_REPORT_H_

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "devrt/runtime/backend.h"

namespace devrt::internal {

// Why there is no backend `name`.  NOT_FOUND; but where DEVRT_PLUGINS or a
// file libdevrt_<name>.so could not be used, that failure's code.
absl::Status NotFoundError(std::string_view name,
                           const std::vector<LoadAttempt>& attempts);

// `failure` of `attempt`, the plugin that its backend's name stands for, and
// why no other file of that name serves in its place.
absl::Status WithOtherPaths(const absl::Status& failure,
                            const LoadAttempt& attempt,
                            const std::vector<LoadAttempt>& attempts);

// One line an attempt.
std::string FormatAttempts(const std::vector<LoadAttempt>& attempts);

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_LOAD_REPORT_H_
