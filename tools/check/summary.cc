// SPDX-License-Identifier: Apache-2.0
#include <sstream>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/check/reports.h"
#include "tools/common/text.h"

namespace devrt::tools {
namespace {

std::string PlaceText(const CheckedOperation& operation) {
  return operation.site.empty() ? "an unknown line" : Printable(operation.site);
}

std::string OperationText(const CheckedOperation& operation) {
  return absl::StrFormat("%s \"%s\" on %s at %s", Printable(operation.access),
                         Printable(operation.name), Printable(operation.actor),
                         PlaceText(operation));
}

std::string Short(const CheckedFinding& finding) {
  if (!finding.IsOfPair()) {
    std::string text = absl::StrFormat("%s [%s] %s", finding.id, finding.kind,
                                       finding.heading);
    for (const CheckedOperation& part : finding.participants) {
      absl::StrAppendFormat(&text, "\n  %s %s at %s", Printable(part.actor),
                            Printable(part.name), PlaceText(part));
    }
    return absl::StrCat(text, "\n  to mend it: ", finding.remedy);
  }
  return absl::StrFormat(
      "%s [%s]\n  earlier  %s\n  later    %s\n  to mend it: %s", finding.id,
      finding.kind, OperationText(finding.earlier),
      OperationText(finding.later), finding.remedy);
}

// Indents the lines, and appends the count to the first.
std::string FindingLines(const CheckedFinding& finding, bool whole) {
  std::string text;
  std::istringstream lines(whole ? finding.text : Short(finding));
  for (std::string line; std::getline(lines, line);) {
    const bool first = text.empty();
    absl::StrAppend(&text, "  ", Printable(line));
    if (first && finding.count > 1) {
      absl::StrAppendFormat(&text, ", %d times", finding.count);
    }
    text += "\n";
  }
  if (finding.witness.has_value()) {
    absl::StrAppend(&text, "    witness: ", Printable(finding.witness->text),
                    "\n");
  }
  return text;
}

std::string Heading(const CheckedRun& run) {
  std::string text = run.findings.empty()
                         ? "no findings"
                         : Counted(run.findings.size(), "finding");
  if (run.begun > 1) text += absl::StrFormat(" in %d processes", run.begun);
  if (run.suppressed > 0) {
    text += absl::StrFormat(", %d suppressed", run.suppressed);
  }
  return text;
}

}  // namespace

std::string CheckSummary(const CheckedRun& run, bool texts) {
  std::string text = "devrt check: " + Heading(run) + "\n";
  for (const CheckedFinding& finding : run.findings) {
    text += FindingLines(finding, texts);
  }
  if (run.left_out > 0) {
    text += absl::StrFormat(
        "  %s left out: another library that uses an adopted stream may have "
        "waited for the earlier work\n",
        Counted(run.left_out, "unordered pair"));
  }
  if (run.undeclared > 0) {
    const std::string at =
        run.undeclared_at.empty() ? "an unknown line" : run.undeclared_at;
    text += absl::StrFormat(
        "  %s declared no memory, the first at %s: what such work uses is "
        "not seen\n",
        Counted(run.undeclared, "operation"), Printable(at));
  }
  for (const std::string& line : run.unmatched) {
    text += "  suppression that matched nothing: " + Printable(line) + "\n";
  }
  if (run.ended < run.begun) {
    text += absl::StrFormat(
        "  %d of %d processes ended early, by a signal or _exit, or could not "
        "write: their findings up to then are here, without counts\n",
        run.begun - run.ended, run.begun);
  }
  if (run.damaged > 0) {
    text += absl::StrFormat("  %s of the findings could not be read\n",
                            Counted(run.damaged, "line"));
  }
  return text;
}

}  // namespace devrt::tools
