// SPDX-License-Identifier: Apache-2.0
//
// The texts of a result.
#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "backends/text/fault_rule.h"
#include "backends/text/replay_token.h"
#include "devrt/runtime/status.h"
#include "devrt/sim/explore.h"
#include "runtime/common/text.h"
#include "sim/compare.h"

namespace devrt::sim {
namespace {

using internal::Counted;

constexpr size_t kMostLines = 10;  // of a list

void AppendList(const std::vector<std::string>& lines, std::string* text) {
  const size_t shown = std::min(lines.size(), kMostLines);
  for (size_t i = 0; i < shown; ++i)
    absl::StrAppend(text, "  ", lines[i], "\n");
  if (shown < lines.size()) {
    absl::StrAppend(text, "  and ", lines.size() - shown, " more\n");
  }
}

std::string CoverageText(const Result& result) {
  std::string text = absl::StrCat(Counted(result.schedules, "schedule"), ", ",
                                  result.distinct, " distinct");
  if (result.exhaustive) absl::StrAppend(&text, "; no other schedule exists");
  text += "\n";
  const uint64_t one = result.pairs_in_one_order.size();
  if (one + result.pairs_in_both_orders == 0) return text;
  absl::StrAppend(&text, "unordered pairs of operations on one memory: ",
                  result.pairs_in_both_orders, " ran in both orders, ", one,
                  " in one order only\n");
  AppendList(result.pairs_in_one_order, &text);
  return text;
}

// How the program repeats the failing run.
std::string RepeatText(const Result& result) {
  if (result.token().empty()) return std::string();
  const std::string config =
      result.config.empty()
          ? std::string()
          : absl::StrCat("DEVRT_MTIA=", internal::ShellWord(result.config),
                         " ");
  return absl::StrCat("repeat it: ", config,
                      "DEVRT_SIM_REPLAY=", result.token(), " PROGRAM\n");
}

std::string FailureText(const Result& result) {
  std::string text = absl::StrCat(StatusText(result.status), "\n");
  if (!result.note.empty()) absl::StrAppend(&text, result.note, "\n");
  absl::StrAppend(&text, "seed: ", result.seed, "\n", RepeatText(result));
  return text;
}

uint64_t CountRules(const std::string& rules) {
  std::vector<internal::FaultRule> read;
  std::string error;
  internal::ParseFaultRules(rules, /*of_calls=*/true, &read, &error);
  return read.size();
}

// Which of the rules of the layer `faults` the failure needs.
std::string RulesText(const Result& result) {
  if (result.faults.empty() || result.shrinking == 0) return std::string();
  const std::string needed(internal::FaultsOfToken(result.token()));
  const uint64_t count = CountRules(needed);
  return absl::StrCat("rules of the layer faults that the failure needs: ",
                      count, " of ", CountRules(result.faults),
                      count == 0 ? "" : ": ", count == 0 ? "" : needed, "\n");
}

std::string ScheduleText(const Result& result) {
  std::string text = RulesText(result);
  const std::vector<std::string> decisions = DecisionTexts(result.failing);
  absl::StrAppend(&text,
                  "decisions that are not the default: ", decisions.size(),
                  " of ", result.failing.decisions.size());
  if (result.shrinking > 0) {
    absl::StrAppend(&text, ", after ", Counted(result.shrinking, "run"),
                    " to make the schedule smaller");
  }
  text += "\n";
  AppendList(decisions, &text);
  if (!result.passing.operations.empty()) {
    const auto turned = TurnedTexts(result.failing, result.passing);
    if (!turned.empty()) text += "other order than in a passing run:\n";
    AppendList(turned, &text);
    text += SideBySide(result.failing, result.passing);
  }
  return text;
}

}  // namespace

std::string Result::text() const {
  switch (verdict) {
    case Verdict::kPassed:
      if (exhaustive && schedules == 1) return "the only schedule passes\n";
      if (exhaustive) {
        return absl::StrCat("all ", Counted(schedules, "schedule"), " pass, ",
                            distinct, " distinct\n");
      }
      return absl::StrCat("passed: ", CoverageText(*this));
    case Verdict::kFailed:
      return absl::StrCat("failed: ", FailureText(*this), details());
    case Verdict::kUncertain:
      return absl::StrCat("no verdict: ", FailureText(*this), details());
    case Verdict::kNotStarted:
      return absl::StrCat("not explored: ", StatusText(status), "\n");
  }
  return std::string();
}

std::string Result::details() const {
  if (verdict == Verdict::kNotStarted) return std::string();
  return absl::StrCat(verdict == Verdict::kFailed ? ScheduleText(*this) : "",
                      CoverageText(*this));
}

std::string Result::svg() const {
  if (verdict != Verdict::kFailed) return std::string();
  return PictureOf(failing, passing);
}

}  // namespace devrt::sim
