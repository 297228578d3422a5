// SPDX-License-Identifier: Apache-2.0
//
// FailOnFindings: a GoogleTest listener that fails each test in which the
// validate layer finds work that nothing orders.
//
//   int main(int argc, char** argv) {
//     ::testing::InitGoogleTest(&argc, argv);
//     devrt::validate::FailOnFindings::Install();
//     return RUN_ALL_TESTS();
//   }
//
// devrt does not need GoogleTest; only programs that include this header do.
//
// Threads: GoogleTest calls a listener from one thread.

#ifndef DEVRT_STREAMS_OPERATIONS_VALIDATE_GTEST_H_
#define DEVRT_STREAMS_OPERATIONS_VALIDATE_GTEST_H_

#include <gtest/gtest.h>

#include <optional>

#include "absl/status/status.h"
#include "devrt/streams/validate.h"

namespace devrt::validate {

// Fails each test with the reports of the work that it leaves unordered.
class FailOnFindings : public ::testing::EmptyTestEventListener {
 public:
  // Enables the layer and adds the listener.  Call it before devrt's first use.
  // If the layer cannot be enabled, every test fails with the reason.
  static void Install() {
    ::testing::UnitTest::GetInstance()->listeners().Append(
        new FailOnFindings(Enable()));  // GoogleTest owns it
  }

  // For Install.  Every test fails with `enabled` if it is an error.
  explicit FailOnFindings(absl::Status enabled) : enabled_(enabled) {}

  // Called by GoogleTest.
  void OnTestStart(const ::testing::TestInfo&) override { scope_.emplace(); }
  // Called by GoogleTest.
  void OnTestEnd(const ::testing::TestInfo&) override {
    if (!enabled_.ok()) ADD_FAILURE() << enabled_;
    for (const Finding& finding : scope_->Findings()) {
      ADD_FAILURE() << finding.text;
    }
  }

 private:
  const absl::Status enabled_;
  std::optional<Scope> scope_;
};

}  // namespace devrt::validate

#endif  // DEVRT_STREAMS_OPERATIONS_VALIDATE_GTEST_H_
