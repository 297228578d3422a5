// SPDX-License-Identifier: Apache-2.0
//
// Explore runs a function in many schedules of the simulator, and makes a
// failing schedule as small as it can.
//
//   devrt::sim::Result result = devrt::sim::Explore({}, [] {
//     return RunPipeline();  // an absl::Status, or nothing
//   });
//   if (!result.ok()) std::cerr << result.text();
//
// A schedule is the order of all steps that the program leaves open.  Explore
// tries adverse ones first.  Enumerate tries all of them, for a body with a
// few operations.  Replay makes one run, by the token of a failure.
//
// A body fails by the status that it returns, by an exception, and by what the
// validate layer finds if it is enabled (devrt/streams/validate.h).  CANCELLED
// ends the exploration without a verdict on the body.  A body starts on a
// machine that was reset, and destroys the streams, events and memory that it
// made before it returns.  A body that calls exit() or quick_exit(), or ends
// the calling thread, ends the exploration; the run is then named on stderr, as
// it is for abort().  Nothing names the run of a body that calls _exit(): no
// code of the process runs then.  A body that never ends is found by
// `step_limit` or `Options::time_limit`.
//
// What it is not: a test on hardware, whose schedules nobody chooses.
//
// Threads: one exploration at a time, and no other thread uses the simulator
// meanwhile but those that the body starts.  A time limit takes the signal
// SIGALRM, as that of a fault sweep does (devrt/sim/faults.h).  SIGABRT is
// taken meanwhile, and handed on to the handler from before.

#ifndef DEVRT_SIM_EXPLORE_H_
#define DEVRT_SIM_EXPLORE_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "devrt/runtime/export.h"
#include "devrt/runtime/simulator.h"
#include "devrt/streams/validate.h"

namespace devrt::sim {

// A function that returns absl::Status or nothing.
class Body {
 public:
  // Keeps the function, which has no arguments.
  template <typename F,
            typename = std::enable_if_t<std::is_invocable_v<F&> &&
                                        !std::is_same_v<std::decay_t<F>, Body>>>
  Body(F function) {  // NOLINT: so that a lambda is a body
    if constexpr (std::is_void_v<std::invoke_result_t<F&>>) {
      run_ = [function = std::move(function)]() mutable {
        function();
        return absl::OkStatus();
      };
    } else {
      run_ = std::move(function);
    }
  }
  // Calls the function.
  absl::Status operator()() const { return run_(); }

 private:
  std::function<absl::Status()> run_;
};

// How to explore.
struct Options {
  // Settings of the machine, in the syntax of DEVRT_MTIA, but for seed and
  // strategy: "memory=64MiB".  Without step_limit the limit is 1,000,000 steps.
  std::string config;
  // How many schedules to try.  0: 100, and 100,000 by Enumerate.
  uint64_t runs = 0;
  // The seed of the first run; each further run has the next number.  Not set:
  // that of DEVRT_SIM_SEED, or a new one.
  std::optional<uint64_t> seed;
  // Names of strategies, with settings if they take some: "pct,changes=1".
  // Those that never vary (alap, asap, lifo) run once, the others in turn.
  // Empty: alap, lifo and hw once, then pos, random and pct in turn.
  std::vector<std::string> strategies;
  // A finding of the validate layer fails the run.  A run is then sought in
  // which the race makes a wrong value (devrt/sim/witness.h).
  bool race = true;
  // The most runs that make a failing schedule smaller; 0: none.  But for
  // Shrink, at most so many runs that their steps add up to 1,000,000.
  uint64_t shrink_runs = 500;
  // The first of so many runs is made twice.  If the runs differ, the body
  // depends on what the simulator does not control.  0: none is repeated.
  uint64_t check_every = 50;
  // The longest that a run may take; 0: no limit.  A run that takes longer ends
  // the process with a report on stderr, since nothing else can end it.  Replay
  // has no limit, and neither has a process under a debugger.
  std::chrono::nanoseconds time_limit = std::chrono::seconds(60);
  // Called before each run, before the machine is reset: to end objects that
  // outlive a run.  An error ends the exploration.
  std::function<absl::Status()> before_run;
};

// A run of the body.
struct Run {
  std::string token;    // repeats the run; empty if the run was too long
  absl::Status status;  // of the body, or what the detector found
  std::vector<validate::Finding> findings;
  Simulator::Trace trace;     // equal for equal runs
  uint64_t uncontrolled = 0;  // SimulatorStats::uncontrolled
  std::vector<SimulatedOp> operations;
  std::vector<SimulatedDecision> decisions;  // of runs by a token only
};

// What became of an exploration.
struct DEVRT_EXPORT Result {
  // The end of an exploration.
  enum class Verdict {
    kPassed,
    kFailed,      // a run failed
    kUncertain,   // equal decisions led to different runs, or the run of a
                  // token passed, which does not fit the body
    kNotStarted,  // the options, the token or the machine forbid a run
  };
  Verdict verdict = Verdict::kPassed;
  // Returns true if no run failed, and the runs are certain.
  bool ok() const { return verdict == Verdict::kPassed; }
  // For people: the failure, how to repeat it, which decisions it needs, the
  // failing and a passing run side by side, and what was covered.
  std::string text() const;
  // The end of text(), behind the failure and how to repeat it.
  std::string details() const;
  // A picture of both runs, as the text of an SVG file; empty if no run failed.
  std::string svg() const;

  absl::Status status;  // the failure, or why no run started
  Run failing;          // the smallest run that fails
  Run passing;          // a run that passes and differs little, if one is known
  // Repeats `failing`, by Replay or by DEVRT_SIM_REPLAY.
  const std::string& token() const { return failing.token; }
  std::string config;  // of the options, which the token needs
  // The rules of the layer `faults` (devrt/sim/faults.h) in the run that failed
  // first; `failing` has those of them that the failure needs.
  std::string faults;

  uint64_t seed = 0;       // of the first run
  uint64_t schedules = 0;  // runs, without repeated and shrinking ones
  uint64_t shrinking = 0;  // runs that made the schedule smaller
  // Schedules that differ in the order of operations that use one memory, or
  // in what the host had submitted when a copy touched its memory.
  uint64_t distinct = 0;
  bool exhaustive = false;  // Enumerate: no other schedule exists
  // Pairs of operations that use one memory and that nothing orders, by their
  // names and lines: those that ran in both orders, and those in one only.
  uint64_t pairs_in_both_orders = 0;
  std::vector<std::string> pairs_in_one_order;
  std::string note;  // more about the verdict: the first difference, ...
};

// Runs `body` in options.runs schedules, until one fails.
DEVRT_EXPORT Result Explore(const Options& options, const Body& body);

// Runs `body` in every schedule, but at most in options.runs.  Ignores the
// strategies.  The number of schedules grows fast with the operations: some ten
// operations on three streams have thousands.
DEVRT_EXPORT Result Enumerate(const Options& options, const Body& body);

// Makes the run of a token.  options.config is that of the exploration.
DEVRT_EXPORT Result Replay(const Options& options, std::string_view token,
                           const Body& body);

// Makes the run of a token, and if it fails, makes the schedule smaller.
DEVRT_EXPORT Result Shrink(const Options& options, std::string_view token,
                           const Body& body);

// Sets what tells failures of a body apart, in place of the status' code and
// text: a schedule is made smaller only while the failure stays.
DEVRT_EXPORT void SetFailureKey(std::string_view key, absl::Status* status);

}  // namespace devrt::sim

#endif  // DEVRT_SIM_EXPLORE_H_
