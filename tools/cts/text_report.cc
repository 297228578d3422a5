// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "tools/common/describe.h"
#include "tools/common/text.h"
#include "tools/cts/reports.h"

namespace devrt::tools {
namespace {

using Outcome = cts::TestResult::Outcome;

constexpr size_t kCallsShown = 24;
constexpr size_t kNamesShown = 50;  // tests that share a reason
constexpr size_t kFewTests = 20;    // so few have their names in a table

// A text of several lines, a program for example, keeps its line breaks.
std::string Lines(const std::vector<std::string>& lines, size_t indent) {
  std::string text;
  const std::string blanks(indent, ' ');
  for (const std::string& line : lines) {
    std::vector<std::string> parts = absl::StrSplit(line, '\n');
    absl::StrAppend(&text, blanks,
                    Wrap(Printable(parts[0]), kTextWidth, indent + 2), "\n");
    for (size_t i = 1; i < parts.size(); ++i) {
      absl::StrAppend(&text, parts[i].empty() ? "" : blanks,
                      Printable(parts[i]), "\n");
    }
  }
  return text;
}

// The columns of waivers and of tests that did not run appear only if a test
// has such an outcome.
bool IsShown(const cts::Report& report, Outcome outcome) {
  return report.Count(outcome) > 0 || outcome == Outcome::kPassed ||
         outcome == Outcome::kFailed || outcome == Outcome::kUnsupported ||
         outcome == Outcome::kSkipped;
}

std::string GroupTable(const cts::Report& report) {
  static constexpr std::pair<Outcome, const char*> kColumns[] = {
      {Outcome::kPassed, "PASSED"},
      {Outcome::kFailed, "FAILED"},
      {Outcome::kExpectedFailure, "EXPECTED"},
      {Outcome::kUnexpectedPass, "UNEXPECTED"},
      {Outcome::kUnsupported, "UNSUPPORTED"},
      {Outcome::kSkipped, "SKIPPED"},
      {Outcome::kNotRun, "NOT RUN"}};
  std::vector<std::string> head = {"GROUP"};
  for (const auto& [outcome, title] : kColumns) {
    if (IsShown(report, outcome)) head.emplace_back(title);
  }
  Table table(head);
  for (const std::string& group : cts::Groups()) {
    std::vector<std::string> row = {group};
    int all = 0;
    for (const auto& [outcome, title] : kColumns) {
      const int count = report.Count(outcome, group);
      all += count;
      if (IsShown(report, outcome)) row.push_back(std::to_string(count));
    }
    if (all > 0) table.Add(row);
  }
  return table.empty() ? "" : "\n" + table.Text(2);
}

// Slots that are not written, each with the tests that fail without it.  For a
// new backend these are most of the tests.
std::string UnwrittenText(const cts::Report& report) {
  if (report.unwritten.empty()) return "";
  std::map<std::string, std::vector<std::string>> tests, alone;
  size_t all = 0;
  for (const cts::TestResult& result : report.results) {
    if (result.outcome != Outcome::kFailed || result.unwritten.empty())
      continue;
    ++all;
    for (const std::string& slot : result.unwritten) {
      tests[slot].push_back(result.test.name);
    }
    if (result.unwritten.size() == 1) {
      alone[result.unwritten.front()].push_back(result.test.name);
    }
  }
  Table table({"SLOT", "TESTS", "ALONE", "WHAT IT ANSWERED"});
  for (const cts::UnwrittenSlot& slot : report.unwritten) {
    table.Add({slot.slot, std::to_string(tests[slot.slot].size()),
               std::to_string(alone[slot.slot].size()), Printable(slot.answer)},
              all > kFewTests ? "" : absl::StrJoin(tests[slot.slot], " "));
  }
  std::string text = absl::StrCat(
      "\nNot written yet\n  ",
      Wrap(absl::StrCat("Of the failed tests ", all,
                        " met a slot that answers UNIMPLEMENTED: they say "
                        "nothing of the rest. ALONE are those that met no "
                        "other one."),
           kTextWidth, 2),
      "\n", table.Text(2));
  if (!report.never_called.empty()) {
    absl::StrAppend(&text, "  ",
                    Wrap(absl::StrCat("Called by no test of this run: ",
                                      absl::StrJoin(report.never_called, ", ")),
                         kTextWidth, 4),
                    "\n");
  }
  return text;
}

// Tests that did not run, by reason.  If hardly any test ran, as with a plugin
// that cannot be opened, the names are left out.
std::string NotRunText(const cts::Report& report) {
  std::map<std::string, std::vector<std::string>> by_reason;
  for (const cts::TestResult& result : report.results) {
    if (result.outcome != Outcome::kUnsupported &&
        result.outcome != Outcome::kSkipped &&
        result.outcome != Outcome::kNotRun) {
      continue;
    }
    const std::string reason =
        result.messages.empty() ? "no reason" : result.messages[0];
    by_reason[absl::StrCat(ToString(result.outcome), ": ", reason)].push_back(
        result.test.name);
  }
  std::string text;
  for (const auto& [reason, names] : by_reason) {
    const std::string tests =
        names.size() > kNamesShown
            ? absl::StrCat(names.size(), " tests, named by --report=json:FILE")
            : absl::StrJoin(names, ", ");
    absl::StrAppend(&text, "  ", Wrap(Printable(reason), kTextWidth, 2),
                    "\n    ", Wrap(tests, kTextWidth, 4), "\n");
  }
  return text.empty() ? "" : "\nNot run\n" + text;
}

std::string WaiversText(const cts::Report& report) {
  if (report.waivers.empty()) return "";
  std::string text = "\nWaivers\n";
  for (const cts::Waiver& waiver : report.waivers) {
    const char* const kind = waiver.kind == cts::Waiver::Kind::kUnsupported
                                 ? "unsupported"
                                 : "expected failure";
    absl::StrAppend(
        &text, "  ",
        Wrap(Printable(absl::StrCat(
                 waiver.what, ", ", kind, ": ", waiver.reason,
                 waiver.reference.empty() ? "" : ", ", waiver.reference)),
             kTextWidth, 4),
        "\n");
  }
  return text;
}

std::string TestedBackendText(const cts::Report& report) {
  if (report.backend.empty()) return "unknown, the file has no manifest";
  return absl::StrCat(Printable(report.backend), " ", Printable(report.version),
                      ", by ", Printable(report.vendor));
}

std::string Verdict(const cts::Report& report) {
  if (!report.Passed()) return "FAILED";
  return report.ExitCode() == 0 ? "PASSED" : "NOTHING RAN";
}

// How far the verdict depends on the seed.
std::string SeedText(const cts::Report& report) {
  const bool any_random =
      std::any_of(report.results.begin(), report.results.end(),
                  [](const cts::TestResult& result) {
                    return result.test.group == "random" &&
                           (result.outcome == Outcome::kPassed ||
                            result.outcome == Outcome::kFailed ||
                            result.outcome == Outcome::kExpectedFailure ||
                            result.outcome == Outcome::kUnexpectedPass);
                  });
  if (!any_random || report.deterministic) return absl::StrCat(report.seed);
  return absl::StrCat(
      report.seed,
      "; not deterministic: random programs are those of the seed, what runs "
      "when is not");
}

// A crash is reported first.
std::string How(const cts::TestResult& result) {
  return result.how == cts::TestResult::How::kCheck
             ? ""
             : absl::StrCat(" by ", ToString(result.how));
}

}  // namespace

std::string FailureText(const cts::TestResult& result) {
  const std::string items =
      result.test.items.empty()
          ? ""
          : absl::StrCat(" (", absl::StrJoin(result.test.items, ", "), ")");
  std::string text =
      absl::StrCat("FAILED  ",
                   Wrap(absl::StrCat(result.test.name, How(result), items),
                        kTextWidth - 8, 4),
                   "\n  ", Wrap(result.test.promise, kTextWidth, 2), "\n");
  text += Lines(result.messages, 4);
  if (!result.calls.empty()) {
    const size_t shown = std::min(kCallsShown, result.calls.size());
    text += "  Its last calls:\n";
    text += Lines({result.calls.end() - static_cast<std::ptrdiff_t>(shown),
                   result.calls.end()},
                  4);
  }
  if (!result.log.empty()) {
    text += "  The plugin and devrt wrote:\n";
    text += Lines(absl::StrSplit(result.log, '\n', absl::SkipEmpty()), 4);
  }
  return text + "\n";
}

std::string StatementText(const cts::Report& report) {
  const std::vector<std::string> names = CapabilityNames(report.capabilities);
  std::string text = absl::StrFormat(
      "Conformance statement: %s\n"
      "  backend       %s\n"
      "  file          %s\n"
      "  SHA-256       %s\n"
      "  ABI           major %d, minor %d\n",
      Verdict(report), TestedBackendText(report), Printable(report.plugin),
      report.sha256, report.abi_major, report.abi_minor);
  absl::StrAppend(
      &text, "  capabilities  ",
      Wrap(names.empty() ? "none" : absl::StrJoin(names, " "), kTextWidth, 16),
      "\n");
  for (const std::string& device : report.devices) {
    absl::StrAppend(&text, "  device        ", Printable(device), "\n");
  }
  absl::StrAppend(&text, "  seed          ",
                  Wrap(SeedText(report), kTextWidth, 16), "\n  time          ",
                  report.time, ", took ",
                  absl::StrFormat("%.1f s\n", report.seconds));
  text += GroupTable(report);
  absl::StrAppendFormat(
      &text,
      "\n  %d passed, %d failed, %d expected to fail, %d passed unexpectedly,\n"
      "  %d unsupported, %d skipped, %d not run\n",
      report.Count(Outcome::kPassed), report.Count(Outcome::kFailed),
      report.Count(Outcome::kExpectedFailure),
      report.Count(Outcome::kUnexpectedPass),
      report.Count(Outcome::kUnsupported), report.Count(Outcome::kSkipped),
      report.Count(Outcome::kNotRun));
  for (const cts::TestResult& result : report.results) {
    if (result.outcome != Outcome::kUnexpectedPass) continue;
    absl::StrAppend(&text, "  ", result.test.name,
                    " passed unexpectedly: ", result.messages[0], "\n");
  }
  return text + UnwrittenText(report) + NotRunText(report) +
         WaiversText(report);
}

std::string ListText() {
  std::string text;
  std::string group;
  for (const cts::TestInfo& test : cts::List()) {
    if (test.group != group) {
      group = test.group;
      absl::StrAppend(&text, text.empty() ? "" : "\n", group, "\n");
    }
    absl::StrAppend(
        &text, "  ",
        Wrap(absl::StrCat(test.name, "  ", absl::StrJoin(test.items, " ")),
             kTextWidth, 6),
        "\n    ", Wrap(test.promise, kTextWidth, 4), "\n");
  }
  return text;
}

}  // namespace devrt::tools
