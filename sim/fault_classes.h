// SPDX-License-Identifier: Apache-2.0
//
// The classes of faults that a sweep makes, and where each of them can hit.

#ifndef DEVRT_SIM_FAULT_CLASSES_H_
#define DEVRT_SIM_FAULT_CLASSES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "devrt/runtime/simulator.h"
#include "sim/fault_table.h"

namespace devrt::sim {

struct FaultClassOfSweep {
  const char* name;
  enum Points : uint8_t {
    kCalls,
    kAllocations,
    kEnds,    // of operations, in the order of their ends
    kBegins,  // the same in the order of their begins
    kLinks,   // pairs of devices: a link that is down hits all that crosses it
    // The simulator counts several calls together, and not all of them: the
    // sweep tries n = 1, 2, ... until the rule does not fire.
    kCountedAllocations,
    kCountedQueries,
  } points;
  // A rule for the n-th point: "%" is n, "#" the name of the call, "@" the
  // devices of the link.
  const char* rule;
  const char* code;  // that the body has to return; nullptr: any
  enum Effect : uint8_t {
    kFails,     // the call fails, and a body may go on
    kDiscards,  // work is discarded, and a body has to say so
    kLegal,     // nothing fails
  } effect;

  // True if the layer makes it; else the simulator does.
  bool is_of_calls() const {
    return points == kCalls || points == kAllocations;
  }
  // True if the points are tried until a rule does not fire.
  bool is_counted() const {
    return points == kCountedAllocations || points == kCountedQueries;
  }
  // True if a rule may hit nothing although the runs are equal.
  bool may_miss() const { return is_counted() || points == kLinks; }
};

// The classes in the order in which they are swept.
const std::vector<FaultClassOfSweep>& FaultClasses();

// The classes of `names`, or all if there are none.  INVALID_ARGUMENT names one
// that the backend does not have.
absl::StatusOr<std::vector<const FaultClassOfSweep*>> ChooseFaultClasses(
    const std::vector<std::string>& names, std::string_view backend,
    bool is_simulator);

// The points that the class can hit, in the order in which its rules count
// them.  `points` has the calls of a run, `operations` its timeline.  The
// points of a class that is_counted() are as many as can be at most.
std::vector<FaultPoint> PointsOf(const FaultClassOfSweep& c,
                                 const std::vector<FaultPoint>& calls,
                                 const std::vector<SimulatedOp>& operations);

// The rule with which the class hits the point.
std::string RuleOf(const FaultClassOfSweep& c, const FaultPoint& point);

// How many of the operations rules can hit: kernels, copies and fills that have
// ended.
uint64_t CountWork(const std::vector<SimulatedOp>& operations);

}  // namespace devrt::sim

#endif  // DEVRT_SIM_FAULT_CLASSES_H_
