// SPDX-License-Identifier: Apache-2.0
#include "cts/result.h"

#include <iterator>

namespace devrt::cts {

const char* CodeName(devrt_code code) {
  static constexpr const char* kNames[] = {"OK",
                                           "CANCELLED",
                                           "UNKNOWN",
                                           "INVALID_ARGUMENT",
                                           "DEADLINE_EXCEEDED",
                                           "NOT_FOUND",
                                           "ALREADY_EXISTS",
                                           "PERMISSION_DENIED",
                                           "RESOURCE_EXHAUSTED",
                                           "FAILED_PRECONDITION",
                                           "ABORTED",
                                           "OUT_OF_RANGE",
                                           "UNIMPLEMENTED",
                                           "INTERNAL",
                                           "UNAVAILABLE",
                                           "DATA_LOSS"};
  const auto index = static_cast<size_t>(code);
  return index < std::size(kNames) ? kNames[index] : "no code of absl's";
}

std::string ToString(const Result& result) {
  if (result.ok()) return "OK";
  return std::string(CodeName(result.code)) + ": " + result.text;
}

}  // namespace devrt::cts
