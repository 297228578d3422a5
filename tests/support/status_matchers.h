// SPDX-License-Identifier: Apache-2.0
//
// Matchers and helpers for absl::Status in tests.
//
//   EXPECT_OK(stream.Synchronize());
//   EXPECT_THAT(event.Record(other),
//               StatusIs(absl::StatusCode::kInvalidArgument,
//                        HasSubstr("mtia:1")));
//   Stream s = Must(Stream::Create(device));   // throws: ends the test
#ifndef DEVRT_TESTS_SUPPORT_STATUS_MATCHERS_H_
#define DEVRT_TESTS_SUPPORT_STATUS_MATCHERS_H_

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <ostream>
#include <stdexcept>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace devrt::testing {

// The codes that many tests expect.
inline constexpr auto kDenied = absl::StatusCode::kPermissionDenied;
inline constexpr auto kFailedPrecondition =
    absl::StatusCode::kFailedPrecondition;
inline constexpr auto kInvalid = absl::StatusCode::kInvalidArgument;

inline const absl::Status& StatusOf(const absl::Status& status) {
  return status;
}
template <typename T>
const absl::Status& StatusOf(const absl::StatusOr<T>& result) {
  return result.status();
}

inline std::string MessageOf(const absl::Status& status) {
  return std::string(status.message());
}

// Returns the value.  An error is thrown, and GoogleTest reports a failure.
template <typename T>
T Must(absl::StatusOr<T> result) {
  if (!result.ok()) throw std::runtime_error(result.status().ToString());
  return *std::move(result);
}
inline void Must(const absl::Status& status) {
  if (!status.ok()) throw std::runtime_error(status.ToString());
}

MATCHER(IsOk, "is OK") {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).ok();
}

// Matches OK with a matching value.
MATCHER_P(IsOkAndHolds, value, "") {
  if (!arg.ok()) {
    *result_listener << arg.status().ToString();
    return false;
  }
  *result_listener << "holds " << ::testing::PrintToString(*arg) << " ";
  return ::testing::ExplainMatchResult(value, *arg, result_listener);
}

// Matches a code, and a text by a matcher.
MATCHER_P2(StatusIs, code, text,
           absl::StatusCodeToString(code) + " with a text that " +
               ::testing::DescribeMatcher<std::string>(text, negation)) {
  *result_listener << StatusOf(arg).ToString();
  return StatusOf(arg).code() == code &&
         ::testing::ExplainMatchResult(text, MessageOf(StatusOf(arg)),
                                       result_listener);
}

#define EXPECT_OK(expr) EXPECT_THAT(expr, ::devrt::testing::IsOk())
#define ASSERT_OK(expr) ASSERT_THAT(expr, ::devrt::testing::IsOk())
// EXPECT_STATUS(Free(device, p), kInvalidArgument, "freed before");
#define EXPECT_STATUS(expr, code, text)                                  \
  EXPECT_THAT(expr, ::devrt::testing::StatusIs(::absl::StatusCode::code, \
                                               ::testing::HasSubstr(text)))

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_SUPPORT_STATUS_MATCHERS_H_
