// SPDX-License-Identifier: Apache-2.0
//
// Reports for programs to read: JSON, and the XML that JUnit's readers expect.
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/common/describe.h"
#include "tools/common/json.h"
#include "tools/common/text.h"
#include "tools/cts/reports.h"

namespace devrt::tools {
namespace {

using Outcome = cts::TestResult::Outcome;

constexpr Outcome kOutcomes[] = {
    Outcome::kPassed,         Outcome::kFailed,      Outcome::kExpectedFailure,
    Outcome::kUnexpectedPass, Outcome::kUnsupported, Outcome::kSkipped,
    Outcome::kNotRun};

void WriteTexts(const char* key, const std::vector<std::string>& texts,
                JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const std::string& text : texts) json->String(text);
  json->End();
}

void WriteTest(const cts::TestInfo& test, JsonWriter* json) {
  json->Key("group").String(test.group).Key("name").String(test.name);
  json->Key("items").BeginArray();
  for (const std::string& item : test.items) json->String(item);
  json->End().Key("promise").String(test.promise);
}

void WriteCounts(const cts::Report& report, std::string_view group,
                 JsonWriter* json) {
  json->BeginObject();
  for (const Outcome outcome : kOutcomes) {
    json->Key(ToString(outcome)).Number(report.Count(outcome, group));
  }
  json->End();
}

void WriteStatement(const cts::Report& report, JsonWriter* json) {
  json->Key("plugin").String(report.plugin).Key("sha256").String(report.sha256);
  json->Key("backend").String(report.backend);
  json->Key("vendor").String(report.vendor);
  json->Key("version").String(report.version);
  json->Key("abi_major").Unsigned(report.abi_major);
  json->Key("abi_minor").Unsigned(report.abi_minor);
  WriteTexts("capabilities", CapabilityNames(report.capabilities), json);
  WriteTexts("devices", report.devices, json);
  json->Key("seed").Unsigned(report.seed);
  json->Key("deterministic").Bool(report.deterministic);
  json->Key("time").String(report.time);
  json->Key("seconds").Decimal(report.seconds);
  json->Key("waivers").BeginArray();
  for (const cts::Waiver& waiver : report.waivers) {
    json->BeginObject().Key("what").String(waiver.what);
    json->Key("kind").String(waiver.kind == cts::Waiver::Kind::kUnsupported
                                 ? "unsupported"
                                 : "expected_failure");
    json->Key("reason").String(waiver.reason);
    json->Key("reference").String(waiver.reference).End();
  }
  json->End().Key("verify_waivers").Bool(report.verify_waivers);
  json->Key("unwritten").BeginArray();
  for (const cts::UnwrittenSlot& slot : report.unwritten) {
    json->BeginObject().Key("slot").String(slot.slot);
    json->Key("answer").String(slot.answer).End();
  }
  json->End();
  WriteTexts("never_called", report.never_called, json);
  json->Key("passed").Bool(report.ExitCode() == 0);
  json->Key("counts");
  WriteCounts(report, "", json);
  json->Key("groups").BeginObject();
  for (const std::string& group : cts::Groups()) {
    json->Key(group);
    WriteCounts(report, group, json);
  }
  json->End();
}

std::string JunitCase(const cts::TestResult& result, bool verify) {
  std::string text = absl::StrFormat(
      "    <testcase classname=\"devrt.cts.%s\" name=\"%s\" time=\"%.3f\">\n",
      MarkupText(result.test.group), MarkupText(result.test.name),
      result.seconds);
  const std::string messages = absl::StrJoin(result.messages, "\n");
  switch (result.outcome) {
    case Outcome::kPassed:
      break;
    case Outcome::kUnexpectedPass:
      // Counts as a failure only if waivers are verified.  The report has it in
      // any case.
      absl::StrAppend(&text, "      <", verify ? "failure" : "system-out", ">",
                      MarkupText(messages), "</",
                      verify ? "failure" : "system-out", ">\n");
      break;
    case Outcome::kFailed:
      absl::StrAppend(&text, "      <failure type=\"", ToString(result.how),
                      "\" message=\"", MarkupText(result.test.promise), "\">",
                      MarkupText(absl::StrCat(messages, "\n",
                                              absl::StrJoin(result.calls, "\n"),
                                              "\n", result.log)),
                      "</failure>\n");
      break;
    default:
      absl::StrAppend(
          &text, "      <skipped message=\"",
          MarkupText(absl::StrCat(ToString(result.outcome), ": ", messages)),
          "\"/>\n");
  }
  return text + "    </testcase>\n";
}

}  // namespace

std::string ReportJson(const cts::Report& report) {
  JsonWriter json;
  json.BeginObject();
  WriteStatement(report, &json);
  json.Key("tests").BeginArray();
  for (const cts::TestResult& result : report.results) {
    json.BeginObject();
    WriteTest(result.test, &json);
    json.Key("outcome").String(ToString(result.outcome));
    json.Key("seconds").Decimal(result.seconds);
    WriteTexts("messages", result.messages, &json);
    if (result.outcome == Outcome::kFailed ||
        result.outcome == Outcome::kExpectedFailure) {
      json.Key("how").String(ToString(result.how));
      WriteTexts("calls", result.calls, &json);
      json.Key("log").String(result.log);
      WriteTexts("unwritten", result.unwritten, &json);
    }
    json.End();
  }
  json.End().End();
  return std::move(json).Finish();
}

std::string ReportJunit(const cts::Report& report) {
  std::string text = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n";
  absl::StrAppendFormat(&text, "<testsuites name=\"devrt cts: %s %s\">\n",
                        MarkupText(report.backend), MarkupText(report.version));
  for (const std::string& group : cts::Groups()) {
    std::string cases;
    int count = 0;
    for (const cts::TestResult& result : report.results) {
      if (result.test.group != group) continue;
      cases += JunitCase(result, report.verify_waivers);
      ++count;
    }
    if (count == 0) continue;
    const int unexpected = report.Count(Outcome::kUnexpectedPass, group);
    const int failed = report.Count(Outcome::kFailed, group) +
                       (report.verify_waivers ? unexpected : 0);
    const int ran = report.Count(Outcome::kPassed, group) + unexpected +
                    report.Count(Outcome::kFailed, group);
    absl::StrAppendFormat(
        &text,
        "  <testsuite name=\"%s\" tests=\"%d\" failures=\"%d\" errors=\"0\" "
        "skipped=\"%d\" timestamp=\"%s\">\n",
        group, count, failed, count - ran,
        report.time.substr(0, report.time.size() - 1));
    text += cases + "  </testsuite>\n";
  }
  return text + "</testsuites>\n";
}

std::string ListJson() {
  JsonWriter json;
  json.BeginObject().Key("tests").BeginArray();
  for (const cts::TestInfo& test : cts::List()) {
    json.BeginObject();
    WriteTest(test, &json);
    json.End();
  }
  json.End().End();
  return std::move(json).Finish();
}

}  // namespace devrt::tools
