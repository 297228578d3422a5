// SPDX-License-Identifier: Apache-2.0
//
// devrt cts: runs the conformance suite against one plugin.

#include "devrt/cts/cts.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "devrt/runtime/status.h"
#include "tools/commands.h"
#include "tools/common/arguments.h"
#include "tools/common/terminal.h"
#include "tools/common/text.h"
#include "tools/cts/progress.h"
#include "tools/cts/reports.h"

namespace devrt::tools {
namespace {

constexpr Flag kCtsFlags[] = {
    {"--plugin", "FILE", "The plugin's file."},
    {"--device", "LIST",
     "Ordinals of the devices to test, \"0,2\"; or all, the default."},
    {"--groups", "LIST", "Only these groups, \"event,order\"."},
    {"--items", "LIST",
     "Only tests of these items of semantics.md, \"C27\", or of these names."},
    {"--seed", "N", "For random tests (default: 1)."},
    {"--programs", "N", "How many random programs (default: 2000)."},
    {"--timeout", "S",
     "Seconds after which a test is ended (default: 60; slow ones have five "
     "times as many). After three that hang, the rest gets less."},
    {"--report", "FORM:FILE",
     "Also write json:FILE or junit:FILE, or both when given twice; \"text\" "
     "is "
     "what is printed anyway."},
    {"--xfail", "FILE", "Waivers, one a line: WHAT KIND REASON -- REFERENCE."},
    {"--verify-xfail", nullptr,
     "An expected failure that passes fails the run."},
    {"--list", nullptr, "Print all tests and run none."},
    kJsonFlag,
    kHelpFlag,
};

struct Report {
  std::string form, file;
};

// The values of the flags.
struct Request {
  cts::Options options;
  std::vector<Report> reports;
};

std::vector<std::string> ListOf(const std::string& text) {
  return absl::StrSplit(text, ',', absl::SkipEmpty());
}

absl::StatusOr<std::vector<int>> DevicesOf(const std::string& text) {
  std::vector<int> devices;
  if (text == "all") return devices;
  for (const std::string& word : ListOf(text)) {
    int ordinal = 0;
    if (!absl::SimpleAtoi(word, &ordinal) || ordinal < 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--device takes ordinals, \"0,2\", or all, not ", Quoted(word)));
    }
    devices.push_back(ordinal);
  }
  if (devices.empty()) {
    return absl::InvalidArgumentError("--device names no device");
  }
  return devices;
}

absl::StatusOr<std::vector<cts::Waiver>> WaiversOf(const std::string& path) {
  DEVRT_ASSIGN_OR_RETURN(const std::string text, ReadFile(path));
  return cts::ParseWaivers(text, path);
}

absl::StatusOr<std::vector<Report>> ReportsOf(
    const std::vector<std::string>& texts) {
  std::vector<Report> reports;
  for (const std::string& text : texts) {
    if (text == "text") continue;
    const size_t colon = text.find(':');
    Report report = {text.substr(0, colon),
                     colon == std::string::npos ? "" : text.substr(colon + 1)};
    if ((report.form != "json" && report.form != "junit") ||
        report.file.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--report takes text, json:FILE or junit:FILE, not ", Quoted(text)));
    }
    for (const Report& other : reports) {
      if (AbsolutePath(other.file) != AbsolutePath(report.file)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("two reports in one file, ", Quoted(report.file)));
    }
    // Learn before the run that a report cannot be written.
    DEVRT_RETURN_IF_ERROR(CheckWritable(report.file));
    reports.push_back(std::move(report));
  }
  return reports;
}

absl::StatusOr<Request> RequestOf(const Arguments& arguments) {
  Request request;
  cts::Options& options = request.options;
  options.plugin = arguments.Get("--plugin", "");
  if (options.plugin.empty()) {
    return absl::InvalidArgumentError("--plugin=FILE is missing");
  }
  options.plugin = AbsolutePath(options.plugin);
  DEVRT_ASSIGN_OR_RETURN(options.devices,
                         DevicesOf(arguments.Get("--device", "all")));
  options.groups = ListOf(arguments.Get("--groups", ""));
  options.items = ListOf(arguments.Get("--items", ""));
  DEVRT_ASSIGN_OR_RETURN(const int64_t seed,
                         arguments.GetNumber("--seed", 1, 0, INT64_MAX));
  options.seed = static_cast<uint64_t>(seed);
  DEVRT_ASSIGN_OR_RETURN(
      const int64_t programs,
      arguments.GetNumber("--programs", options.programs, 1, 1'000'000'000));
  options.programs = static_cast<int>(programs);
  DEVRT_ASSIGN_OR_RETURN(
      const int64_t timeout,
      arguments.GetNumber("--timeout", options.timeout_s, 1, 86'400));
  options.timeout_s = static_cast<int>(timeout);
  const std::string xfail = arguments.Get("--xfail", "");
  if (!xfail.empty()) {
    DEVRT_ASSIGN_OR_RETURN(options.waivers, WaiversOf(xfail));
  }
  options.verify_waivers = arguments.Has("--verify-xfail");
  DEVRT_ASSIGN_OR_RETURN(request.reports, ReportsOf(arguments.All("--report")));
  return request;
}

int WriteReports(const std::vector<Report>& reports,
                 const cts::Report& report) {
  int code = report.ExitCode();
  for (const Report& to : reports) {
    const absl::Status written = WriteFile(
        to.file, to.form == "json" ? ReportJson(report) : ReportJunit(report));
    if (!written.ok()) code = Failure(kCtsCommand, Explain(written));
  }
  return code;
}

// Prints why there is no report.
int PrintNoReport(const absl::Status& status) {
  if (absl::IsCancelled(status)) {
    Failure(kCtsCommand, Explain(status));
    return Interruption::Code();
  }
  return absl::IsResourceExhausted(status)
             ? Failure(kCtsCommand, Explain(status))
             : UsageError(kCtsCommand, Explain(status));
}

int RunCtsCommand(const Arguments& arguments) {
  const bool json = arguments.Has("--json");
  if (arguments.Has("--list")) {
    Print(json ? ListJson() : ListText());
    return kSuccess;
  }
  absl::StatusOr<Request> request = RequestOf(arguments);
  if (!request.ok()) return UsageError(kCtsCommand, Explain(request.status()));
  const Interruption interruption;
  Progress progress(!json);
  absl::StatusOr<cts::Report> report = cts::Run(request->options, &progress);
  progress.Clear();
  if (!report.ok()) return PrintNoReport(report.status());
  Print(json ? ReportJson(*report) : StatementText(*report));
  return WriteReports(request->reports, *report);
}

}  // namespace

const Command kCtsCommand = {
    "cts",
    nullptr,
    "Test whether a plugin is a devrt backend.",
    "Runs the conformance suite: each test shows items of semantics.md, and "
    "what fails is told with the calls that led there. Tests run in processes "
    "of their own, so that one that crashes or hangs ends nothing but itself. "
    "What the plugin does not promise is told as unsupported. A simulator is "
    "configured as ever, DEVRT_MTIA=mode=threaded.\n\n"
    "Exit code 0: all that ran passed. 1: something failed. 77: nothing ran, "
    "for example since this machine lacks the accelerator. Ctrl-C ends the "
    "worker, too: 130.",
    kCtsFlags,
    &RunCtsCommand,
};

}  // namespace devrt::tools
