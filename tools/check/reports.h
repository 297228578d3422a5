// SPDX-License-Identifier: Apache-2.0
//
// The forms in which `devrt check` reports what it found.

#ifndef DEVRT_TOOLS_CHECK_REPORTS_H_
#define DEVRT_TOOLS_CHECK_REPORTS_H_

#include <string>
#include <vector>

#include "tools/timeline/findings_file.h"

namespace devrt::tools {

// Each finding once, with its places and its count.  With `texts`, the whole
// text of each.
std::string CheckSummary(const CheckedRun& run, bool texts);

// A log in SARIF 2.1.0, for systems that show findings beside the source.
// `command` is the program's command line, and `exit_code` its result.
std::string CheckSarif(const CheckedRun& run,
                       const std::vector<std::string>& command, int exit_code);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_CHECK_REPORTS_H_
