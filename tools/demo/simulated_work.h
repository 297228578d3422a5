// SPDX-License-Identifier: Apache-2.0
//
// What the simulator ran, as operations of a timeline.

#ifndef DEVRT_TOOLS_DEMO_SIMULATED_WORK_H_
#define DEVRT_TOOLS_DEMO_SIMULATED_WORK_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/simulator.h"
#include "tools/demo/timeline.h"

namespace devrt::tools {

// The operations of its timeline that take time: no records, no waits.
absl::StatusOr<std::vector<SimulatedOp>> SimulatedWork(Simulator simulator);

// Begin, end and waits of each operation, from the one of the same index in
// `work`.  INTERNAL: one is not complete.
absl::Status SetTimes(const std::vector<SimulatedOp>& work,
                      std::vector<TimelineOp>* ops);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_DEMO_SIMULATED_WORK_H_
