// SPDX-License-Identifier: Apache-2.0
#include "cts/legal_outcomes.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace devrt::cts {

std::string CheckOutcome(const std::vector<std::string>& legal,
                         const std::string& outcome, int schedule) {
  if (std::find(legal.begin(), legal.end(), outcome) != legal.end()) return "";
  return absl::StrCat("the outcome \"", outcome,
                      "\" is none of: ", absl::StrJoin(legal, ", "),
                      " (schedule ", schedule, ")");
}

std::string Reach(const std::vector<std::string>& legal,
                  const std::function<std::string(int schedule)>& run) {
  std::set<std::string> seen;
  for (int i = 0; i < kMostSchedules; ++i) {
    if (i >= kFewestSchedules && seen.size() == legal.size()) return "";
    const std::string outcome = run(i);
    std::string wrong = CheckOutcome(legal, outcome, i);
    if (!wrong.empty()) return wrong;
    seen.insert(outcome);
  }
  for (const std::string& outcome : legal) {
    if (seen.count(outcome) > 0) continue;
    return absl::StrCat("the outcome \"", outcome, "\" never came in ",
                        kMostSchedules, " schedules");
  }
  return "";
}

}  // namespace devrt::cts
