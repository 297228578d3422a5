// SPDX-License-Identifier: Apache-2.0
//
// Explore finds the mistakes of public reports without the race detector, by
// what the programs compute.
//
// tokens.txt has a line for each report: its source and the token of the
// smallest failing schedule.  docs/evidence/reports.md says in which run of
// Explore the program failed.  A change of the simulator or of the programs may
// need others.  This writes both:
//
//   DEVRT_TEST_WRITE_TOKENS=1 meson test -C build sim_reports

#include "tests/sim/reports/reports.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <fstream>
#include <stdexcept>
#include <string>

#include "devrt/sim/explore.h"

namespace devrt::testing {
namespace {

using Verdict = sim::Result::Verdict;

constexpr uint64_t kRuns = 128;

sim::Options Seeded() {
  sim::Options options;
  options.runs = kRuns;
  options.seed = 1;
  return options;
}

// A text file of which each test reads the line of its report, or writes it.
class Table {
 public:
  // `variable` has the path.
  explicit Table(const char* variable) {
    const char* const path = std::getenv(variable);
    if (path == nullptr) {
      throw std::runtime_error(std::string(variable) +
                               " is not set; meson test sets it");
    }
    path_ = path;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) lines_.push_back(line);
  }
  // The line with this beginning; a new line, which is that, if there is none.
  std::string& LineOf(const std::string& beginning) {
    for (std::string& line : lines_) {
      if (line.compare(0, beginning.size(), beginning) == 0) return line;
    }
    return lines_.emplace_back(beginning);
  }
  void Write() const {
    std::ofstream file(path_);
    for (const std::string& line : lines_) file << line << "\n";
    ASSERT_TRUE(file.flush()) << path_;
  }

 private:
  std::string path_;
  std::deque<std::string> lines_;
};

// "| owner/repo#12 | what was wrong | 3 |", with another number.
std::string Row(const std::string& row, uint64_t run) {
  const size_t end = row.rfind(" |");
  const size_t cell = row.rfind("| ", end - 1);
  if (end == std::string::npos || cell == std::string::npos) return row;
  return row.substr(0, cell) + "| " + std::to_string(run) + " |";
}

constexpr char kRemedy[] =
    "; DEVRT_TEST_WRITE_TOKENS=1 meson test -C build sim_reports writes the "
    "tokens and the page anew";

class Reports : public ::testing::TestWithParam<Report> {
 protected:
  static absl::Status Faulty() { return GetParam().run(false); }
  static absl::Status Mended() { return GetParam().run(true); }
};

TEST_P(Reports, ExploreFindsTheMistake) {
  const sim::Result result = sim::Explore(Seeded(), Faulty);
  ASSERT_EQ(result.verdict, Verdict::kFailed) << result.text();
  const auto decisions = std::count_if(
      result.failing.decisions.begin(), result.failing.decisions.end(),
      [](const SimulatedDecision& made) { return made.choice != 0; });
  EXPECT_LE(decisions, 2) << result.text();

  const std::string source = GetParam().source;
  std::printf("  %s: run %d, %d decisions, %s\n", source.c_str(),
              static_cast<int>(result.schedules), static_cast<int>(decisions),
              result.token().c_str());
  Table page("DEVRT_TEST_REPORTS_PAGE");
  const std::string beginning = "| " + source + " |";
  std::string& row = page.LineOf(beginning);
  ASSERT_NE(row, beginning) << "docs/evidence/reports.md has no such row";
  if (std::getenv("DEVRT_TEST_WRITE_TOKENS") == nullptr) {
    EXPECT_EQ(row, Row(row, result.schedules)) << kRemedy;
    return;
  }
  row = Row(row, result.schedules);
  page.Write();
  Table tokens("DEVRT_TEST_TOKENS");
  tokens.LineOf(source + " ") = source + " " + result.token();
  tokens.Write();
}

TEST_P(Reports, TheTokenRepeatsTheFailure) {
  const std::string beginning = std::string(GetParam().source) + " ";
  const std::string token =
      Table("DEVRT_TEST_TOKENS").LineOf(beginning).substr(beginning.size());
  const sim::Result result = sim::Replay(Seeded(), token, Faulty);
  EXPECT_EQ(result.verdict, Verdict::kFailed)
      << "token \"" << token << "\": " << result.text() << kRemedy;
  EXPECT_EQ(result.status.code(), absl::StatusCode::kInternal) << result.status;
}

TEST_P(Reports, TheMendedProgramPassesInEachSchedule) {
  const sim::Result result = sim::Explore(Seeded(), Mended);
  EXPECT_TRUE(result.ok()) << result.text();
}

INSTANTIATE_TEST_SUITE_P(FreedBlocks, Reports,
                         ::testing::ValuesIn(FreedBlockReports()),
                         NameOfReport);
INSTANTIATE_TEST_SUITE_P(HostBuffers, Reports,
                         ::testing::ValuesIn(HostBufferReports()),
                         NameOfReport);
INSTANTIATE_TEST_SUITE_P(ReusedBlocks, Reports,
                         ::testing::ValuesIn(ReusedBlockReports()),
                         NameOfReport);

}  // namespace
}  // namespace devrt::testing
