// SPDX-License-Identifier: Apache-2.0
//
// Witness: turns a finding of the validate layer into a wrong value that can be
// repeated.  A finding says that nothing orders two operations, A and B.  A
// witness runs the program on the simulator in schedules that hold A until B is
// complete, until the program computes something else than it should.
//
//   // Before the first use of devrt:
//   DEVRT_RETURN_IF_ERROR(devrt::validate::Enable());
//   DEVRT_ASSIGN_OR_RETURN(devrt::Simulator sim, devrt::Simulator::Get());
//   const auto body = [] {
//     Work();  // the code that is tested
//     return absl::OkStatus();
//   };
//   DEVRT_ASSIGN_OR_RETURN(const devrt::sim::Witness witness,
//                          devrt::sim::Witness::Create(sim, body));
//   for (const devrt::validate::Finding& finding : witness.findings()) {
//     DEVRT_ASSIGN_OR_RETURN(const devrt::sim::WitnessResult result,
//                            witness.Try(finding));
//     std::cerr << finding.id << ": " << result.text << "\n";
//   }
//
// Runs are compared by the simulator's outcome, which is the bytes that work
// wrote to host memory, the contents of device memory, and faults; by the bytes
// that the host read of memory in flight; and by the status that the body
// returns.
//
// A finding without a witness stays a finding: the search does not prove that
// the finding is wrong.  A wrong value may come from another race of the body.
//
// `devrt check --witness` does this for whole programs.
//
// Ownership: a Witness keeps a copy of the body.
// Threads: one at a time; while it runs, no other thread may use the simulator.
// A time limit takes the signal SIGALRM, as that of an exploration does.

#ifndef DEVRT_SIM_WITNESS_H_
#define DEVRT_SIM_WITNESS_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/export.h"
#include "devrt/runtime/simulator.h"
#include "devrt/streams/validate.h"

namespace devrt::sim {

class RunLimit;

// How a Witness runs its body.
struct WitnessOptions {
  // The machine, in the syntax of DEVRT_MTIA.  Keys that choose a schedule do
  // not count, and the mode is the virtual one.
  std::string config;
  int runs = 64;      // directed runs for each finding, at most
  uint64_t seed = 1;  // of the first directed run; the next one has the next
  // The longest that a run may take; 0: no limit.  A run that takes longer ends
  // the process with a report on stderr, since nothing else can end it.  Under
  // a debugger there is no limit.
  std::chrono::nanoseconds time_limit = std::chrono::seconds(60);
};

// The result of the directed runs for one finding.
struct WitnessResult {
  bool confirmed = false;
  int runs = 0;       // directed runs; if confirmed, the last is the witness
  std::string token;  // repeats the witness by Simulator::Replay; else empty
  std::string text;   // "wrong value in directed run 1", without a full stop
};

// The reference run of a body, which its directed runs are compared with.
class Witness {
 public:
  // Uses the simulator as a program does, and leaves no streams, events or
  // memory alive.  Exceptions are errors of the run.
  using Body = std::function<absl::Status()>;

  // Runs the body twice, each operation as soon as it is submitted.
  //   FAILED_PRECONDITION  the validate layer is not enabled; the two runs
  //                        differ, because the body depends on time, chance or
  //                        threads; or streams, events or memory are alive; or
  //                        the call is in a body
  //   INVALID_ARGUMENT     a mistake in `options`
  DEVRT_EXPORT static absl::StatusOr<Witness> Create(
      const Simulator& sim, Body body, WitnessOptions options = {});

  // The findings of the layer in the reference runs.
  const std::vector<validate::Finding>& findings() const { return findings_; }

  // Makes directed runs until one differs from the reference.  Restarts the
  // simulator before each run, and at the end.  The layer must have made the
  // finding in a run of this body.
  //   INVALID_ARGUMENT     the simulator has no name for one of the operations:
  //                        the finding is of another backend, or one of its
  //                        operations is not the simulator's
  //   FAILED_PRECONDITION  streams, events or memory are alive, or the call is
  //                        in a body
  DEVRT_EXPORT absl::StatusOr<WitnessResult> Try(
      const validate::Finding& finding) const;

 private:
  // The result of one run of the body.
  struct Run {
    absl::Status status;  // of the body
    uint64_t outcome = 0;
  };

  Witness(const Simulator& sim, Body body, WitnessOptions options)
      : sim_(sim), body_(std::move(body)), options_(std::move(options)) {}

  absl::StatusOr<Run> RunBody(const std::string& config, RunLimit* limit) const;
  absl::Status OpenLimit(RunLimit* limit) const;
  static bool Differ(const Run& a, const Run& b);

  Simulator sim_;
  Body body_;
  WitnessOptions options_;
  Run reference_;
  std::vector<validate::Finding> findings_;
};

}  // namespace devrt::sim

#endif  // DEVRT_SIM_WITNESS_H_
