// SPDX-License-Identifier: Apache-2.0
//
// Lists of ranks in texts.

#ifndef DEVRT_COLLECTIVES_BOOTSTRAP_RANK_LISTS_H_
#define DEVRT_COLLECTIVES_BOOTSTRAP_RANK_LISTS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

namespace devrt::collectives::internal {

// "rank 3", "ranks 0-3, 7".  `ranks` ascends.
std::string RanksText(const std::vector<int>& ranks);

// Ranges of ranks, the last rank of each included, as text.
using RankRange = std::pair<int, int>;
std::string RangesText(const std::vector<RankRange>& ranges);

// DEADLINE_EXCEEDED: "6 of 8 ranks came within 300 s; missing: ranks 2, 5".
absl::Status MissingRanksError(int size, const std::vector<int>& missing,
                               absl::Duration waited);

// INVALID_ARGUMENT unless 0 <= rank < size.  `call` is for the text.
absl::Status CheckRank(const char* call, int rank, int size);

// DATA_LOSS unless an exchange of `size` ranks returned a part of each.
absl::Status CheckParts(size_t parts, int size);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_BOOTSTRAP_RANK_LISTS_H_
