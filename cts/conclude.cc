// SPDX-License-Identifier: Apache-2.0
//
// Turns what the supervisor itself saw into results, and applies waivers to
// the results.
#include <algorithm>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/recorder.h"
#include "cts/supervisor.h"
#include "cts/waived.h"

namespace devrt::cts {

using Outcome = TestResult::Outcome;

void Supervisor::Conclude() {
  ConcludeOpening();
  ConcludeEnding();
  for (TestResult& result : report_->results) {
    if (result.outcome == Outcome::kNotRun) {
      result.messages = {"the plugin could not be opened"};
    }
  }
  FindUnexpectedPasses();
  ReportUnwritten();
}

void Supervisor::ReportUnwritten() {
  if (unwritten_.empty()) return;
  for (const std::string& slot : RequiredSlots()) {
    if (called_.count(slot) == 0) report_->never_called.push_back(slot);
    const auto found = unwritten_.find(slot);
    if (found == unwritten_.end()) continue;
    report_->unwritten.push_back({found->first, found->second});
    unwritten_.erase(found);
  }
  // The other slots belong to capabilities that the plugin promises.
  for (const auto& [slot, answer] : unwritten_) {
    report_->unwritten.push_back({slot, answer});
  }
}

TestResult* Supervisor::ResultOfSeen(const char* name, const Seen& seen) {
  TestResult* const chosen = ResultOf(name);
  if (chosen != nullptr) {
    return chosen->outcome == Outcome::kUnsupported ? nullptr : chosen;
  }
  // Whatever tests were chosen, a plugin that fails like this does not pass.
  TestResult result;
  result.test = InfoOf(Named(name));
  if (!seen.failed ||
      WaiverOf(result.test, Waiver::Kind::kUnsupported) != nullptr) {
    return nullptr;
  }
  report_->results.push_back(std::move(result));
  return &report_->results.back();
}

void Supervisor::Fill(const Seen& seen, TestResult* result) {
  result->seconds = seen.seconds;
  result->outcome = seen.failed ? Outcome::kFailed : Outcome::kPassed;
  if (!seen.failed) return;
  result->how = seen.how;
  result->messages = {seen.message};
  result->calls = seen.calls;
  result->log = seen.log;
}

void Supervisor::ConcludeOpening() {
  TestResult* const result = ResultOfSeen("load.opens", opening_);
  if (result == nullptr) return;
  observer_->Begin(result->test);
  Fill(opening_, result);
  // This is no fault of the plugin: it was never opened.
  if (!absent_.empty()) result->outcome = Outcome::kSkipped;
  observer_->End(*result);
}

void Supervisor::ConcludeEnding() {
  if (!opened_) return;
  TestResult* const result = ResultOfSeen("load.process_ends_well", ending_);
  if (result == nullptr) return;
  observer_->Begin(result->test);
  Fill(ending_, result);
  Expect(result);
  observer_->End(*result);
}

void Supervisor::Expect(TestResult* result) const {
  if (result->outcome == Outcome::kFailed &&
      WaiverOf(result->test, Waiver::Kind::kExpectedFailure) != nullptr) {
    result->outcome = Outcome::kExpectedFailure;
  }
}

// The waiver of an item is needed as long as one test of the item fails.
void Supervisor::FindUnexpectedPasses() {
  for (const Waiver& waiver : options_.waivers) {
    if (waiver.kind != Waiver::Kind::kExpectedFailure) continue;
    std::vector<TestResult*> passed;
    bool failed = false;
    for (TestResult& result : report_->results) {
      if (!IsWaivedBy(waiver.what, result.test)) continue;
      failed = failed || result.outcome == Outcome::kExpectedFailure;
      if (result.outcome == Outcome::kPassed) passed.push_back(&result);
    }
    if (failed) continue;
    for (TestResult* const result : passed) {
      result->outcome = Outcome::kUnexpectedPass;
      result->messages = {absl::StrCat(
          waiver.line > 0
              ? absl::StrCat("line ", waiver.line, " of the waivers")
              : absl::StrCat("a waiver of ", waiver.what),
          " expects a failure: ", waiver.reason)};
    }
  }
}

}  // namespace devrt::cts
