// SPDX-License-Identifier: Apache-2.0

#include "collectives/bootstrap/rank_lists.h"

#include "absl/strings/str_cat.h"

namespace devrt::collectives::internal {

std::string RanksText(const std::vector<int>& ranks) {
  std::vector<RankRange> ranges;
  for (const int rank : ranks) {
    if (!ranges.empty() && rank == ranges.back().second + 1) {
      ranges.back().second = rank;
    } else {
      ranges.push_back({rank, rank});
    }
  }
  return RangesText(ranges);
}

std::string RangesText(const std::vector<RankRange>& ranges) {
  const bool is_one = ranges.size() == 1 && ranges[0].first == ranges[0].second;
  std::string text = is_one ? "rank " : "ranks ";
  const char* comma = "";
  for (const auto& [first, last] : ranges) {
    absl::StrAppend(&text, comma, first);
    comma = ", ";
    if (last > first)
      absl::StrAppend(&text, last == first + 1 ? ", " : "-", last);
  }
  return text;
}

absl::Status MissingRanksError(int size, const std::vector<int>& missing,
                               absl::Duration waited) {
  return absl::DeadlineExceededError(absl::StrCat(
      size - static_cast<int>(missing.size()), " of ", size,
      " ranks came within ",
      absl::FormatDuration(absl::Trunc(waited, absl::Milliseconds(1))),
      "; missing: ", RanksText(missing)));
}

absl::Status CheckRank(const char* call, int rank, int size) {
  if (rank >= 0 && rank < size) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      call, ": rank ", rank, " of ", size,
      size < 1 ? ": there must be one rank at least" : ": ranks count from 0"));
}

absl::Status CheckParts(size_t parts, int size) {
  if (parts == static_cast<size_t>(size)) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat("the bootstrap returned ", parts, " parts for ", size,
                   " ranks: it must return one of each rank"));
}

}  // namespace devrt::collectives::internal
