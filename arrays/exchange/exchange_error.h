// SPDX-License-Identifier: Apache-2.0
//
// Statuses with an ExchangeError.

#ifndef DEVRT_ARRAYS_EXCHANGE_EXCHANGE_ERROR_H_
#define DEVRT_ARRAYS_EXCHANGE_EXCHANGE_ERROR_H_

#include <string>

#include "absl/status/status.h"

namespace devrt::internal {

absl::Status BufferError(const std::string& text);
absl::Status CopyRequiredError(const std::string& text);
absl::Status NotOfferedError(const std::string& text);

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_EXCHANGE_EXCHANGE_ERROR_H_
