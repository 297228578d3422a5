// SPDX-License-Identifier: Apache-2.0
//
// The errors of exchange.h, and their kind, which is a payload of the status.

#include "arrays/exchange/exchange_error.h"

#include <string>

#include "absl/strings/cord.h"
#include "devrt/arrays/exchange.h"

namespace devrt {

namespace {

constexpr const char kPayload[] = "devrt/exchange";

absl::Status WithKind(const char* kind, const std::string& text) {
  absl::Status status = absl::FailedPreconditionError(text);
  status.SetPayload(kPayload, absl::Cord(kind));
  return status;
}

}  // namespace

namespace internal {

absl::Status BufferError(const std::string& text) {
  return WithKind("buffer", text);
}
absl::Status CopyRequiredError(const std::string& text) {
  return WithKind("copy", text);
}
absl::Status NotOfferedError(const std::string& text) {
  return WithKind("absent", text);
}

}  // namespace internal

ExchangeError GetExchangeError(const absl::Status& status) {
  const auto payload = status.GetPayload(kPayload);
  if (!payload.has_value()) return ExchangeError::kNone;
  if (*payload == "copy") return ExchangeError::kCopyRequired;
  if (*payload == "absent") return ExchangeError::kNotOffered;
  return ExchangeError::kBuffer;
}

}  // namespace devrt
