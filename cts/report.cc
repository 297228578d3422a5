// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "devrt/cts/cts.h"

namespace devrt::cts {
namespace {

constexpr int kNothingRan = 77;

}  // namespace

using Outcome = TestResult::Outcome;

const char* ToString(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kUnsupported:
      return "unsupported";
    case Outcome::kSkipped:
      return "skipped";
    case Outcome::kExpectedFailure:
      return "expected_failure";
    case Outcome::kUnexpectedPass:
      return "unexpected_pass";
    case Outcome::kNotRun:
      return "not_run";
  }
  return "?";
}

const char* ToString(TestResult::How how) {
  switch (how) {
    case TestResult::How::kCheck:
      return "check";
    case TestResult::How::kCrash:
      return "crash";
    case TestResult::How::kHang:
      return "hang";
    case TestResult::How::kExit:
      return "exit";
  }
  return "?";
}

int Report::Count(Outcome outcome, std::string_view group) const {
  return static_cast<int>(
      std::count_if(results.begin(), results.end(), [&](const TestResult& r) {
        return r.outcome == outcome && (group.empty() || r.test.group == group);
      }));
}

bool Report::Passed() const {
  return Count(Outcome::kFailed) == 0 &&
         (!verify_waivers || Count(Outcome::kUnexpectedPass) == 0);
}

int Report::ExitCode() const {
  if (!Passed()) return 1;
  // A machine without devices has no properties to report.
  if (devices.empty()) return kNothingRan;
  const int ran = Count(Outcome::kPassed) + Count(Outcome::kExpectedFailure) +
                  Count(Outcome::kUnexpectedPass);
  return ran == 0 ? kNothingRan : 0;
}

Observer::~Observer() = default;
void Observer::Begin(const TestInfo&) {}
void Observer::End(const TestResult&) {}
bool Observer::Interrupted() { return false; }

}  // namespace devrt::cts
