// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_SIM_SHRINK_H_
#define DEVRT_SIM_SHRINK_H_

#include <cstdint>

#include "absl/status/status.h"
#include "devrt/sim/explore.h"
#include "sim/runner.h"

namespace devrt::sim {

// Makes the schedule of result->failing smaller while it fails in the same way:
// leaves out rules of the layer `faults`, sets decisions to the default, in
// blocks of halving size, and then tries the schedules with one or two other
// decisions.  Makes some `most_runs` runs at most, and counts them in
// result->shrinking.  Fills result->passing with a run that passes, if there
// was one: that without the last decision at best.  An error means that a run
// did not start.
absl::Status ShrinkFailure(Runner* runner, uint64_t most_runs, Result* result);

}  // namespace devrt::sim

#endif  // DEVRT_SIM_SHRINK_H_
