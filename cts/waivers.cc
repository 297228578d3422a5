// SPDX-License-Identifier: Apache-2.0
//
// Reads the text of waivers, one in a line:
//
//   what  unsupported | expected_failure  reason  [" -- " reference]
//
// A message begins with the file, the line and the column.
#include <map>
#include <optional>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "backends/text/settings.h"
#include "cts/catalog.h"
#include "cts/waived.h"
#include "devrt/cts/cts.h"

namespace devrt::cts {
namespace {

constexpr std::string_view kBlank = " \t\r";

// Takes words from a line, from left to right.
class LineParser {
 public:
  LineParser(std::string_view line, std::string_view file, int number)
      : line_(line), file_(file), number_(number) {}

  bool AtEnd() {
    at_ = std::min(line_.find_first_not_of(kBlank, at_), line_.size());
    return at_ == line_.size();
  }
  std::string_view Word() {
    if (AtEnd()) return {};
    word_at_ = at_;
    at_ = std::min(line_.find_first_of(kBlank, at_), line_.size());
    return line_.substr(word_at_, at_ - word_at_);
  }
  std::string_view Rest() {
    if (AtEnd()) return {};
    word_at_ = at_;
    at_ = line_.size();
    return line_.substr(word_at_);
  }
  // The message names the position of the last word, or of the line's end.
  absl::Status Error(absl::string_view text) const {
    return absl::InvalidArgumentError(
        absl::StrCat(absl::string_view(file_.data(), file_.size()), ":",
                     number_, ":", word_at_ + 1, ": ", text));
  }
  void PointHere() { word_at_ = at_; }

 private:
  std::string_view line_, file_;
  int number_;
  size_t at_ = 0, word_at_ = 0;
};

absl::StatusOr<Waiver> ParseLine(LineParser* line) {
  Waiver waiver;
  waiver.what = line->Word();
  const absl::Status known = CheckWaived(waiver.what);
  if (!known.ok()) return line->Error(known.message());
  const std::string kind(line->Word());
  if (kind == "unsupported") {
    waiver.kind = Waiver::Kind::kUnsupported;
  } else if (kind != "expected_failure") {
    if (kind.empty()) line->PointHere();
    return line->Error(absl::StrCat(
        "expected unsupported or expected_failure after ", waiver.what,
        kind.empty() ? "" : ", not \"", kind, kind.empty() ? "" : "\""));
  }
  if (line->AtEnd()) {
    line->PointHere();
    return line->Error("a reason is missing");
  }
  const std::string_view rest = line->Rest();
  const size_t mark = rest.find(" -- ");
  waiver.reason = internal::Trimmed(rest.substr(0, mark));
  if (mark != std::string_view::npos) {
    waiver.reference = internal::Trimmed(rest.substr(mark + 4));
  }
  return waiver;
}

}  // namespace

bool IsWaivedBy(std::string_view what, const TestInfo& test) {
  if (what == test.name) return true;
  return test.group != "random" && !test.items.empty() &&
         what == test.items.front();
}

absl::StatusOr<std::vector<Waiver>> ParseWaivers(std::string_view text,
                                                 std::string_view file) {
  std::vector<Waiver> waivers;
  std::map<std::string, int> lines;
  int number = 0;
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    LineParser line(text.substr(0, end), file, ++number);
    const std::string_view all = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line.AtEnd() || all[all.find_first_not_of(kBlank)] == '#') continue;
    absl::StatusOr<Waiver> waiver = ParseLine(&line);
    if (!waiver.ok()) return waiver.status();
    const auto [first, is_new] = lines.try_emplace(waiver->what, number);
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat(
          absl::string_view(file.data(), file.size()), ":", number,
          ":1: ", waiver->what, " stands in line ", first->second, " already"));
    }
    waiver->line = number;
    waivers.push_back(*std::move(waiver));
  }
  return waivers;
}

}  // namespace devrt::cts
