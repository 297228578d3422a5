// SPDX-License-Identifier: Apache-2.0
//
// The picture of a finding of the validate layer, for `devrt check --svg` and
// for notebooks.

#ifndef DEVRT_TOOLS_TIMELINE_FINDING_PICTURE_H_
#define DEVRT_TOOLS_TIMELINE_FINDING_PICTURE_H_

#include "tools/timeline/findings_file.h"
#include "tools/timeline/timeline.h"

namespace devrt::tools {

// The streams of the two operations, with the last order that they have in
// common, waits that do not help, and the missing one.
Timeline FindingPicture(const CheckedFinding& finding);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_TIMELINE_FINDING_PICTURE_H_
