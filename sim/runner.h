// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_SIM_RUNNER_H_
#define DEVRT_SIM_RUNNER_H_

#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/runtime/log.h"
#include "devrt/sim/explore.h"
#include "sim/run_limit.h"

namespace devrt::sim {

// Keeps the log quiet while runs are made again and again, each of which would
// tell of one thing anew.
class Quiet {
 public:
  Quiet() : level_(GetLogLevel()) { SetLogLevel(LogLevel::kOff); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
  ~Quiet() { SetLogLevel(level_); }

 private:
  const LogLevel level_;
};

// What tells the failure of a run apart; empty for a run that passed.
std::string FailureKey(const absl::Status& status);

// True if the settings, in the syntax of DEVRT_MTIA, have the key.
bool HasKey(const std::string& config, std::string_view key);

// INVALID_ARGUMENT if the settings, which are `option`, have mode=threaded.
absl::Status CheckMode(const std::string& config, const char* option);

// Calls the body, in "the run with `name`".  An exception is an error; the end
// of the thread, by pthread_exit or a cancellation, goes on.  That end and one
// of the process are named on stderr.
absl::Status CallBody(const Body& body, const std::string& name);

// Names the run on stderr if the body calls abort(), while an object lives.
// Takes the signal SIGABRT, and hands it on to the handler from before.
class AbortWatch {
 public:
  AbortWatch();
  AbortWatch(const AbortWatch&) = delete;
  AbortWatch& operator=(const AbortWatch&) = delete;
  ~AbortWatch();
};

// FAILED_PRECONDITION in a body, which cannot make runs itself.
absl::Status CheckOutsideBody();

// The right to make runs, which one exploration or fault sweep has at a time:
// they share the machine and a signal.
class Turn {
 public:
  Turn() = default;
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;
  ~Turn();
  // FAILED_PRECONDITION in a body, or if another one has the turn.  `holder` is
  // "an exploration", for the error of others.
  absl::Status Take(const char* holder);

 private:
  bool has_it_ = false;
  std::optional<AbortWatch> watch_;
};

// Makes runs of one body, each from a machine that was reset.
//
// Threads: one.
class Runner {
 public:
  // Both outlive the runner.
  Runner(Simulator simulator, const Options* options, const Body* body);
  Runner(const Runner&) = delete;
  Runner& operator=(const Runner&) = delete;
  ~Runner();

  // Checks the options.  `limits`: a run that takes longer than the time limit
  // ends the process.
  absl::Status Open(bool limits);

  // Makes a run with a strategy, "random", and a seed, without a record of
  // decisions.  An error means that the run did not start.
  absl::StatusOr<Run> Start(std::string_view strategy, uint64_t seed);
  // Makes the run of a token.
  absl::StatusOr<Run> Replay(std::string_view token);
  // Calls the body within the time limit, in the run that CallBody names.
  absl::Status CallInLimit();
  // The report of a later run that takes too long tells of the failure, too.
  void NoteFailure(const Run& run);
  // Someone else has reset the machine.
  void ForgetMachine() { is_reset_ = false; }
  // The token of a run without decisions, for Enumerate.
  absl::StatusOr<std::string> EmptyToken();

 private:
  absl::Status Reset(const std::string& settings);
  absl::Status KeepDecisions(bool on);
  absl::Status BeforeRun() const;
  absl::StatusOr<Run> Make(const std::string& name);

  const Simulator simulator_;
  const Options& options_;
  const Body& body_;
  Turn turn_;
  std::optional<RunLimit> limit_;
  std::string found_;      // a line about the failure that was found
  std::string config_;     // what every run has
  bool is_reset_ = false;  // the machine has config_
  bool keeps_decisions_ = false;
  // True if reports of a race detector had call stacks before the run.  A run
  // takes none: a stack costs more than an operation of the simulator.
  bool had_stacks_ = false;
  uint64_t runs_ = 0;
};

}  // namespace devrt::sim

#endif  // DEVRT_SIM_RUNNER_H_
