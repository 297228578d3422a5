// SPDX-License-Identifier: Apache-2.0
//
// FaultSweep makes each call of a function fail once, and looks at what the
// function makes of it.
//
//   DEVRT_RETURN_IF_ERROR(devrt::sim::EnableFaults());  // before other calls
//   devrt::sim::SweepResult result = devrt::sim::FaultSweep({}, [] {
//     return RunPipeline();  // an absl::Status, or nothing
//   });
//   if (!result.ok()) std::cerr << result.text();
//
// A first run lists the points: the calls of the backend that can fail, and on
// the simulator the operations.  Then each class of faults has a run for each
// point that it can hit, and a run without a fault behind it.  The points of
// fragmentation and stale_query are numbers of allocations and queries, tried
// from 1 on until no fault comes; those of link_down are pairs of devices.  A
// fault is wrongly handled if the body
//
//   - returns another error than that of the fault, or success although work
//     that it waited for was discarded,
//   - leaves objects alive, or more in devrt's caches than without the fault,
//   - loses a device by a fault of a call, as by a free before the last use,
//   - does not end, or
//   - fails in the next run, which has no fault.
//
// A body returns the error that it met, or handles it and succeeds.  It waits
// for its work, and destroys its streams, events and memory before it returns.
// Memory whose free has failed is alive, so that a body frees it again.
// Faults of calls also run on hardware: `backend` chooses it.
//
// What it is not: an exploration.  All runs have one schedule
// (devrt/sim/explore.h has the others), and one fault each.
//
// A sweep ends without rules, without a record, and with a machine of
// SweepOptions::config.  One that ends because objects are alive leaves the
// machine with its last fault: end the objects, and call Simulator::Reset.
//
// Threads: one sweep at a time.  No other thread uses the backend meanwhile but
// those that the body starts.  A sweep takes the signal SIGALRM for its time
// limit.  Signals of other timers go to the handler that was there before; a
// handler that is set meanwhile takes the limit away.

#ifndef DEVRT_SIM_FAULTS_H_
#define DEVRT_SIM_FAULTS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "devrt/runtime/export.h"
#include "devrt/sim/explore.h"

namespace devrt::sim {

// Puts the layer `faults` next to the backends, behind the layers that are
// chosen already.  Does nothing if it is among them.
//   FAILED_PRECONDITION  a backend is open: call it before, or set
//                        DEVRT_LAYERS=faults
DEVRT_EXPORT absl::Status EnableFaults();

// Replaces the rules of DEVRT_FAULTS for a backend; "" ends all.  `rules` has
// the syntax of that variable, and the rules count from now on.
//   FAILED_PRECONDITION  the layer is not loaded
//   INVALID_ARGUMENT     a mistake in `rules`, which stay as they were
DEVRT_EXPORT absl::Status SetFaults(std::string_view rules,
                                    std::string_view backend = "mtia");

// How to sweep.
struct SweepOptions {
  // The backend whose calls fail.  "mtia" has the faults of the simulator, too.
  std::string backend = "mtia";
  // Settings of the simulator, in the syntax of DEVRT_MTIA, but for `faults`
  // and mode=threaded.
  std::string config;
  // Names of classes: oom, error (a call fails without an effect), late (a
  // call has its effect, and fails); on the simulator also kernel_fault,
  // fragmentation, device_lost, link_down, hang, slow, stale_query and ecc.
  // Empty: all that the backend has.
  std::vector<std::string> classes;
  // Repeats one fault: SweepFailure::rule of a sweep with the same body, config
  // and classes.  Only the runs of this rule are made.  Empty: all.
  std::string rule;
  // With `rule`, on a simulator: the schedule in which the run with the fault
  // is repeated, SweepFailure::token of the same failure.  Empty: the schedule
  // that `config` chooses.
  std::string token;
  // The most points of each class; 0: all.
  uint64_t most_points = 0;
  // The longest that a run may take, with the waits and around_run behind it;
  // above 0.  A run that takes longer ends the process with a report on stderr,
  // since nothing else can end it.
  std::chrono::nanoseconds time_limit = std::chrono::seconds(10);
  // Called before the first and behind each run, to end objects that outlive a
  // run.  An error ends the sweep, unless it is that of the run's fault.
  std::function<absl::Status()> around_run;
};

// A fault that was wrongly handled.
struct SweepFailure {
  // "leak", "wrong status", "unnoticed", "lost device", "next run"
  std::string what;
  // The entry point, or the name of the operation; "allocation" and "query" for
  // fragmentation and stale_query, "link 0-1" for link_down.
  std::string call;
  uint64_t index = 0;  // its place among the calls of that name, from 1
  std::string file;    // of the program's call; may be empty
  int line = 0;
  std::string fault;  // the class
  // What SweepOptions::rule takes to repeat the fault.  It is written as
  // DEVRT_FAULTS or the key `faults` of DEVRT_MTIA, but counts from the begin
  // of a run on, and not from the opening of the backend on.
  std::string rule;
  // What SweepOptions::token takes to repeat the schedule of the run, too;
  // empty on hardware.
  std::string token;
  absl::Status status;  // what was returned, or what is alive
};

// What became of a sweep.
struct DEVRT_EXPORT SweepResult {
  // OK, or why the sweep could not be made or go on.
  absl::Status status;
  uint64_t points = 0;  // calls and operations that can fail
  // The entry points that the body called and that can fail, sorted.
  std::vector<std::string> calls;
  uint64_t faults = 0;    // runs with a fault
  uint64_t reported = 0;  // faults whose error the body returned
  uint64_t handled = 0;   // faults with which the body succeeded
  uint64_t missed = 0;    // faults that never came, because the runs differed
  std::vector<SweepFailure> failures;

  // Returns true if the sweep was made and every fault was handled rightly.
  bool ok() const { return status.ok() && failures.empty(); }
  // For people: what was swept, and each failure with how to repeat it.
  std::string text() const;
};

// Sweeps `body`.  The status of the result is
//   INVALID_ARGUMENT     an option is wrong, as a token that was made with
//                        another rule or config
//   FAILED_PRECONDITION  the layer is not loaded, or a sweep or an exploration
//                        runs already, or a run has left objects alive or has
//                        lost a device that nothing can restart, or the token
//                        is of another body
//   NOT_FOUND            no fault of the body has SweepOptions::rule
// or an error of the body without a fault, or of around_run.
DEVRT_EXPORT SweepResult FaultSweep(const SweepOptions& options,
                                    const Body& body);

}  // namespace devrt::sim

#endif  // DEVRT_SIM_FAULTS_H_
