// SPDX-License-Identifier: Apache-2.0
//
// The report of one communicator, for the error of a rank that fails.

#ifndef DEVRT_COLLECTIVES_RECORDER_REPORT_H_
#define DEVRT_COLLECTIVES_RECORDER_REPORT_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace devrt::collectives::internal {

// Where the ranks of the communicator differ by the files of `folder`, and
// which of them are gone.  One line, without the communicator's name and
// without what ranks say themselves.  Reads the files of that communicator
// only.
absl::StatusOr<std::string> CompareRanks(std::string_view folder, uint64_t id,
                                         uint64_t key);

// As CompareRanks, of images of their records (Ring::Image), by rank; nullopt:
// the rank has sent none.
std::string CompareImages(
    const std::vector<std::optional<std::string>>& images);

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_RECORDER_REPORT_H_
