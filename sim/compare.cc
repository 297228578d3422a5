// SPDX-License-Identifier: Apache-2.0
#include "sim/compare.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "sim/coverage.h"

namespace devrt::sim {
namespace {

constexpr size_t kColumn = 38;      // characters of a run
constexpr size_t kMostSteps = 400;  // that are compared
constexpr size_t kAround = 3;       // equal rows shown around a difference

struct Step {
  uint64_t number;
  std::string text;
};

bool IsMark(const SimulatedOp& op) {
  return op.kind == SimulatedOp::Kind::kRecord ||
         op.kind == SimulatedOp::Kind::kWait;
}

std::string StreamOf(const SimulatedOp& op) {
  return absl::StrCat("mtia:", op.device, " s", op.stream);
}

// What the host submits, and what begins and ends, in order.  An operation that
// ends in the step after its begin has one line.
std::vector<std::string> StepsOf(const Run& run) {
  std::vector<Step> steps;
  for (const SimulatedOp& op : run.operations) {
    if (IsMark(op)) continue;
    steps.push_back({op.submit_step, absl::StrCat("host: ", NameOf(op))});
    if (op.begin_step == 0) continue;
    const std::string what = absl::StrCat(" \"", op.name, "\" ", StreamOf(op));
    if (op.end_step != 0 && op.end_step <= op.begin_step + 1) {
      steps.push_back({op.end_step, "  runs" + what});
      continue;
    }
    steps.push_back({op.begin_step, "  begins" + what});
    if (op.end_step != 0) steps.push_back({op.end_step, "  ends" + what});
  }
  std::stable_sort(
      steps.begin(), steps.end(),
      [](const Step& a, const Step& b) { return a.number < b.number; });
  std::vector<std::string> texts;
  for (Step& step : steps) texts.push_back(std::move(step.text));
  return texts;
}

using Row = std::pair<std::string, std::string>;

// Rows of a longest common subsequence, with what only one side has between.
std::vector<Row> Align(const std::vector<std::string>& left,
                       const std::vector<std::string>& right) {
  const size_t n = std::min(left.size(), kMostSteps);
  const size_t m = std::min(right.size(), kMostSteps);
  std::vector<std::vector<uint16_t>> length(n + 1,
                                            std::vector<uint16_t>(m + 1));
  for (size_t i = n; i-- > 0;) {
    for (size_t j = m; j-- > 0;) {
      length[i][j] = left[i] == right[j]
                         ? static_cast<uint16_t>(length[i + 1][j + 1] + 1)
                         : std::max(length[i + 1][j], length[i][j + 1]);
    }
  }
  std::vector<Row> rows;
  for (size_t i = 0, j = 0; i < n || j < m;) {
    if (i < n && j < m && left[i] == right[j]) {
      rows.emplace_back(left[i++], right[j++]);
    } else if (j == m || (i < n && length[i + 1][j] >= length[i][j + 1])) {
      rows.emplace_back(left[i++], "");
    } else {
      rows.emplace_back("", right[j++]);
    }
  }
  return rows;
}

std::string Cell(std::string text) {
  if (text.size() > kColumn) text = text.substr(0, kColumn - 3) + "...";
  text.resize(kColumn, ' ');
  return text;
}

// Where the program's call is, "a.cc:17", or nothing.
std::string PlaceOf(const std::string& file, int line) {
  if (file.empty()) return std::string();
  const size_t folder = file.rfind('/');
  return absl::StrCat(" at ", file.substr(folder == file.npos ? 0 : folder + 1),
                      ":", line);
}

std::string TextOf(const SimulatedDecision& decision,
                   const std::vector<SimulatedOp>& operations) {
  if (decision.kind == SimulatedDecision::Kind::kPageable) {
    return absl::StrCat(
        "a copy of pageable memory ",
        decision.choice == 1 ? "waits for its end" : "reads its source late");
  }
  if (decision.kind == SimulatedDecision::Kind::kFault) {
    return "a rule of the key faults hits";
  }
  if (decision.seq == 0) {
    return absl::StrCat("host thread ", decision.thread, " moves",
                        PlaceOf(decision.file, decision.line));
  }
  for (const SimulatedOp& op : operations) {
    if (op.stream != decision.stream || op.seq != decision.seq) continue;
    return absl::StrCat(NameOf(op), " of ", StreamOf(op), " moves");
  }
  return absl::StrCat("stream ", decision.stream, " moves",
                      PlaceOf(decision.file, decision.line));
}

}  // namespace

std::string SideBySide(const Run& left, const Run& right) {
  const std::vector<Row> rows = Align(StepsOf(left), StepsOf(right));
  const auto differs = [&](size_t i) {
    return rows[i].first != rows[i].second;
  };
  std::string text = absl::StrCat(Cell("failing run"), "   passing run\n");
  bool skipped = false;
  for (size_t i = 0; i < rows.size(); ++i) {
    const size_t from = i < kAround ? 0 : i - kAround;
    const size_t to = std::min(rows.size(), i + kAround + 1);
    bool near = false;
    for (size_t k = from; k < to; ++k) near = near || differs(k);
    if (!near) {
      if (!std::exchange(skipped, true)) text += "  ...\n";
      continue;
    }
    skipped = false;
    std::string row = absl::StrCat(
        Cell(rows[i].first), differs(i) ? " | " : "   ", Cell(rows[i].second));
    row.erase(row.find_last_not_of(' ') + 1);
    absl::StrAppend(&text, row, "\n");
  }
  return text;
}

std::string FirstDifference(const Run& first, const Run& second) {
  const std::vector<std::string> a = StepsOf(first), b = StepsOf(second);
  for (size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    const std::string left = i < a.size() ? a[i] : "the end";
    const std::string right = i < b.size() ? b[i] : "the end";
    if (left == right) continue;
    const auto trimmed = [](const std::string& text) {
      return text.substr(text.find_first_not_of(' '));
    };
    return absl::StrCat("step ", i + 1, " was: ", trimmed(left),
                        "; and in the repetition: ", trimmed(right));
  }
  return std::string();
}

std::vector<std::string> TurnedTexts(const Run& failing, const Run& passing) {
  std::vector<std::string> texts;
  for (const TurnedPair& pair : TurnedPairs(failing, passing)) {
    texts.push_back(absl::StrCat(NameOf(failing.operations[pair.first]),
                                 " ran before ",
                                 NameOf(failing.operations[pair.second])));
  }
  return texts;
}

std::vector<std::string> DecisionTexts(const Run& run) {
  std::vector<std::string> texts;
  for (size_t i = 0; i < run.decisions.size(); ++i) {
    if (run.decisions[i].choice == 0) continue;
    texts.push_back(
        absl::StrCat(i + 1, ": ", TextOf(run.decisions[i], run.operations)));
  }
  return texts;
}

}  // namespace devrt::sim
