// SPDX-License-Identifier: Apache-2.0
//
// Fills a timeline from the records of a simulator.

#ifndef DEVRT_TOOLS_TIMELINE_SIMULATED_H_
#define DEVRT_TOOLS_TIMELINE_SIMULATED_H_

#include <cstdint>
#include <vector>

#include "devrt/runtime/simulator.h"
#include "tools/timeline/timeline.h"

namespace devrt::tools {

// A stream of the simulator, and its row in the picture.
struct SimulatedStream {
  uint32_t device;  // its index
  uint64_t id;      // as StreamId returns it
  TimelineRow row;
};

// StreamRef::id() of the operation's stream, or the simulator's own number of
// the stream if the id is unknown.
uint64_t StreamId(const SimulatedOp& op);

// True if the operation ran to its end or to a fault.
bool HasRun(const SimulatedOp& op);

// Sets begin_ns, end_ns and waits of ops[i] from work[i].  All of `work` has
// run.
void SetTimes(const std::vector<SimulatedOp>& work,
              std::vector<TimelineOp>* ops);

// Returns a timeline with a row for each of `streams` and an operation for each
// of `work`.  All of `work` has run on these streams.  The title is empty.
Timeline SimulatedTimeline(const std::vector<SimulatedOp>& work,
                           const std::vector<SimulatedStream>& streams);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_TIMELINE_SIMULATED_H_
