// SPDX-License-Identifier: Apache-2.0
#include "devrt/sim/explore.h"

#include <stdlib.h>

#include <algorithm>
#include <string>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "backends/text/replay_token.h"
#include "devrt/runtime/status.h"
#include "devrt/sim/witness.h"
#include "runtime/common/text.h"
#include "sim/compare.h"
#include "sim/coverage.h"
#include "sim/plan.h"
#include "sim/runner.h"
#include "sim/shrink.h"

namespace devrt::sim {
namespace {

using Verdict = Result::Verdict;

constexpr uint64_t kRuns = 100;
constexpr uint64_t kEnumeratedRuns = 100'000;
constexpr uint64_t kMostWitnesses = 8;    // findings that are tried
constexpr uint64_t kRunsForPassing = 20;  // to find a run to compare with
// Of all runs that make a schedule smaller, and of all that are tried for a run
// to compare with: some 2 s.
constexpr uint64_t kMostStepsSearched = 1'000'000;

// Tries schedules of one body until one fails.
class Explorer {
 public:
  Explorer(Simulator simulator, const Options& options, const Body& body)
      : simulator_(simulator),
        options_(options),
        runner_(simulator, &options, &body) {}

  absl::Status Open(bool limits) {
    std::string error;
    const std::optional<uint64_t> seed =
        options_.seed.has_value() ? options_.seed : SeedFromEnvironment(&error);
    if (!seed.has_value()) return absl::InvalidArgumentError(error);
    result_.seed = *seed;
    DEVRT_RETURN_IF_ERROR(runner_.Open(limits));
    result_.config = options_.config;
    return absl::OkStatus();
  }

  absl::Status Explore() {
    Plan plan(options_.runs != 0 ? options_.runs : kRuns, result_.seed,
              options_.strategies);
    while (const auto schedule = plan.Next()) {
      DEVRT_ASSIGN_OR_RETURN(Run run,
                             runner_.Start(schedule->strategy, schedule->seed));
      DEVRT_ASSIGN_OR_RETURN(const bool goes_on, Judge(std::move(run)));
      if (goes_on) continue;
      return FindPassing(&plan);
    }
    return absl::OkStatus();
  }

  absl::Status Enumerate() {
    DEVRT_ASSIGN_OR_RETURN(const std::string empty, runner_.EmptyToken());
    internal::ReplayToken token;
    std::string error;
    if (!ParseReplayToken(empty, &token, &error)) {
      return absl::InternalError(error);
    }
    const uint64_t most = options_.runs != 0 ? options_.runs : kEnumeratedRuns;
    std::vector<SimulatedDecision> path;
    for (uint64_t made = 0; made < most; ++made) {
      token.runs = RunsOf(path);
      DEVRT_ASSIGN_OR_RETURN(Run run, runner_.Replay(FormatReplayToken(token)));
      if (!Follows(run, path)) {
        result_.failing = std::move(run);
        SetUncertain("the candidates of a decision changed between two runs");
        return absl::OkStatus();
      }
      path = run.decisions;
      DEVRT_ASSIGN_OR_RETURN(const bool goes_on, Judge(std::move(run)));
      if (!goes_on) return absl::OkStatus();
      if (!Advance(&path)) {
        result_.exhaustive = true;
        return absl::OkStatus();
      }
    }
    return absl::OkStatus();
  }

  absl::Status Replay(std::string_view token, bool shrinks) {
    DEVRT_ASSIGN_OR_RETURN(Run run, runner_.Replay(token));
    coverage_.Add(run);
    const absl::Status fits = simulator_.CheckReplay();
    if (run.status.ok()) {
      if (!fits.ok()) {
        result_.verdict = Verdict::kUncertain;
        result_.status = fits;
      }
      result_.passing = std::move(run);
      return absl::OkStatus();
    }
    // The run fails, whatever it was meant to repeat.
    if (!fits.ok()) AddLine(StatusText(fits));
    SetFailed(std::move(run));
    return shrinks ? Confirm(options_.shrink_runs) : absl::OkStatus();
  }

  Result Take(absl::Status status) {
    if (!status.ok()) {
      result_.verdict = Verdict::kNotStarted;
      result_.status = std::move(status);
    }
    coverage_.Report(&result_);
    return std::move(result_);
  }

 private:
  // Returns true if the exploration goes on after the run.
  absl::StatusOr<bool> Judge(Run run) {
    const bool is_checked =
        options_.check_every != 0 && checks_++ % options_.check_every == 0;
    coverage_.Add(run);
    if (!run.status.ok()) {
      SetFailed(std::move(run));
      DEVRT_RETURN_IF_ERROR(Confirm(AtMost(options_.shrink_runs)));
      return false;
    }
    result_.passing = std::move(run);
    if (!is_checked || result_.passing.token.empty()) return true;
    DEVRT_ASSIGN_OR_RETURN(Run again, runner_.Replay(result_.passing.token));
    return IsRepeated(result_.passing, std::move(again));
  }

  // Returns true if both runs are equal; else the verdict is that nobody knows.
  bool IsRepeated(const Run& run, Run again) {
    if (again.trace.hash == run.trace.hash &&
        FailureKey(again.status) == FailureKey(run.status)) {
      return true;
    }
    const std::string difference = FirstDifference(run, again);
    if (run.status.ok()) result_.failing = std::move(again);
    SetUncertain(difference);
    return false;
  }

  void SetFailed(Run run) {
    result_.verdict = Verdict::kFailed;
    result_.status = run.status;
    result_.failing = std::move(run);
    runner_.NoteFailure(result_.failing);
  }

  void SetUncertain(const std::string& difference) {
    result_.verdict = Verdict::kUncertain;
    result_.note = absl::StrCat(
        "two runs with equal decisions differ: the body depends on something "
        "that the simulator does not control, such as real time, random "
        "numbers, or threads that do not call devrt",
        difference.empty() ? "" : "\n", difference);
    if (result_.failing.uncontrolled > 0) {
      AddLine(absl::StrCat(
          internal::Counted(result_.failing.uncontrolled, "step"),
          " followed the operating system: a thread slept or computed for long "
          "outside of devrt, or a host function did not return"));
    }
    if (result_.status.ok()) result_.status = result_.failing.status;
    if (result_.status.ok()) {
      result_.status = absl::AbortedError("a run does not repeat");
    }
  }

  // Repeats the failing run, and makes its schedule smaller in `most` runs.
  absl::Status Confirm(uint64_t most) {
    if (result_.failing.token.empty()) {
      result_.note = "the run is too long for a token, so nothing repeats it";
      return absl::OkStatus();
    }
    const Quiet quiet;
    DEVRT_ASSIGN_OR_RETURN(Run again, runner_.Replay(result_.failing.token));
    if (!IsRepeated(result_.failing, again)) return absl::OkStatus();
    result_.failing = std::move(again);
    result_.faults = internal::FaultsOfToken(result_.failing.token);
    const uint64_t steps = result_.failing.trace.steps;
    if (most != 0) {
      DEVRT_RETURN_IF_ERROR(ShrinkFailure(&runner_, most, &result_));
      result_.status = result_.failing.status;
    }
    if (most < options_.shrink_runs && result_.shrinking >= most) {
      AddLine(
          absl::StrCat("the schedule has ", internal::Counted(steps, "step"),
                       ", so it was made smaller in ",
                       internal::Counted(result_.shrinking, "run"), " only"));
    }
    return SeekWitnesses();
  }

  // Looks for runs in which the races of the failing run make a wrong value,
  // and makes the first of them the failing run.
  absl::Status SeekWitnesses() {
    const std::vector<validate::Finding> found = result_.failing.findings;
    if (found.empty()) return absl::OkStatus();
    DEVRT_RETURN_IF_ERROR(EndRun());
    WitnessOptions options;
    options.config = options_.config;
    options.time_limit = std::chrono::nanoseconds(0);  // the body has its own
    const auto runs = static_cast<uint64_t>(options.runs);
    options.runs = static_cast<int>(std::max<uint64_t>(1, AtMost(runs)));
    const absl::StatusOr<Witness> witness = Witness::Create(
        simulator_,
        [this] {
          absl::Status status = runner_.CallInLimit();
          const absl::Status ended = EndRun();
          return status.ok() ? ended : status;
        },
        options);
    runner_.ForgetMachine();
    if (!witness.ok()) return AddToNote("no witness", witness.status());
    std::string token;
    uint64_t tries = 0;
    // The witness knows the names of the operations, which `found` may lack.
    for (const validate::Finding& finding : witness->findings()) {
      const bool wanted = std::any_of(
          found.begin(), found.end(),
          [&](const validate::Finding& one) { return one.id == finding.id; });
      if (!wanted || ++tries > kMostWitnesses) continue;
      const absl::StatusOr<WitnessResult> tried = witness->Try(finding);
      if (!tried.ok()) {
        DEVRT_RETURN_IF_ERROR(AddToNote(finding.id, tried.status()));
        continue;
      }
      AddLine(absl::StrCat(finding.id, ": ", tried->text));
      if (token.empty()) token = tried->token;
    }
    if (token.empty()) return absl::OkStatus();
    DEVRT_ASSIGN_OR_RETURN(Run run, runner_.Replay(token));
    if (!run.status.ok()) SetFailed(std::move(run));
    return absl::OkStatus();
  }

  absl::Status EndRun() const {
    return options_.before_run ? options_.before_run() : absl::OkStatus();
  }

  void AddLine(const std::string& line) {
    absl::StrAppend(&result_.note, result_.note.empty() ? "" : "\n", line);
  }

  // Tells of what went wrong beside the failure.  CANCELLED comes from a body
  // that ends the exploration.
  absl::Status AddToNote(const std::string& what, const absl::Status& status) {
    if (absl::IsCancelled(status)) return status;
    AddLine(absl::StrCat(what, ": ", StatusText(status)));
    return absl::OkStatus();
  }

  // How many of `runs` like the failing one have kMostStepsSearched at most.
  uint64_t AtMost(uint64_t runs) const {
    return std::min(runs,
                    kMostStepsSearched / (1 + result_.failing.trace.steps));
  }

  // Goes on with the plan for a run to compare with, if there is none yet.
  absl::Status FindPassing(Plan* plan) {
    if (result_.verdict != Verdict::kFailed) return absl::OkStatus();
    const Quiet quiet;
    const uint64_t most = std::max<uint64_t>(1, AtMost(kRunsForPassing));
    for (uint64_t i = 0; i < most; ++i) {
      if (!result_.passing.operations.empty()) return absl::OkStatus();
      const auto schedule = plan->Next();
      if (!schedule.has_value()) return absl::OkStatus();
      DEVRT_ASSIGN_OR_RETURN(Run run,
                             runner_.Start(schedule->strategy, schedule->seed));
      if (run.status.ok()) result_.passing = std::move(run);
    }
    return absl::OkStatus();
  }

  static std::vector<internal::ChoiceRun> RunsOf(
      const std::vector<SimulatedDecision>& path) {
    std::vector<internal::ChoiceRun> runs;
    uint64_t zeros = 0;
    for (const SimulatedDecision& decision : path) {
      if (decision.choice == 0) {
        ++zeros;
        continue;
      }
      runs.push_back({std::exchange(zeros, 0), decision.choice, 1});
    }
    return runs;
  }

  // Returns true if the run made the decisions of the path.
  static bool Follows(const Run& run,
                      const std::vector<SimulatedDecision>& path) {
    if (run.decisions.size() < path.size()) return false;
    for (size_t i = 0; i < path.size(); ++i) {
      const SimulatedDecision& made = run.decisions[i];
      if (made.count != path[i].count || made.choice != path[i].choice) {
        return false;
      }
    }
    return true;
  }

  // Counts the path up as an odometer: the last decision that has another
  // candidate takes it, and those behind it are dropped.
  static bool Advance(std::vector<SimulatedDecision>* path) {
    while (!path->empty()) {
      if (++path->back().choice < path->back().count) return true;
      path->pop_back();
    }
    return false;
  }

  const Simulator simulator_;
  const Options& options_;
  Runner runner_;
  Coverage coverage_;
  Result result_;
  uint64_t checks_ = 0;
};

template <typename Act>
Result RunExplorer(const Options& options, const Body& body, Act act,
                   bool limits = true) {
  absl::StatusOr<Simulator> simulator = Simulator::Get();
  if (!simulator.ok()) {
    Result result;
    result.verdict = Verdict::kNotStarted;
    result.status = simulator.status();
    return result;
  }
  Explorer explorer(*simulator, options, body);
  absl::Status status = explorer.Open(limits);
  if (status.ok()) status = act(&explorer);
  return explorer.Take(std::move(status));
}

// The token of DEVRT_SIM_REPLAY, which takes the place of an exploration.
std::optional<std::string> TokenOfEnvironment() {
  const char* const token = secure_getenv("DEVRT_SIM_REPLAY");
  if (token == nullptr || *token == '\0') return std::nullopt;
  return token;
}

}  // namespace

Result Explore(const Options& options, const Body& body) {
  if (const auto token = TokenOfEnvironment()) {
    return Replay(options, *token, body);
  }
  return RunExplorer(options, body,
                     [](Explorer* explorer) { return explorer->Explore(); });
}

Result Enumerate(const Options& options, const Body& body) {
  if (const auto token = TokenOfEnvironment()) {
    return Replay(options, *token, body);
  }
  return RunExplorer(options, body,
                     [](Explorer* explorer) { return explorer->Enumerate(); });
}

Result Replay(const Options& options, std::string_view token,
              const Body& body) {
  return RunExplorer(
      options, body,
      [token](Explorer* explorer) { return explorer->Replay(token, false); },
      /*limits=*/false);
}

Result Shrink(const Options& options, std::string_view token,
              const Body& body) {
  return RunExplorer(options, body, [token](Explorer* explorer) {
    return explorer->Replay(token, true);
  });
}

}  // namespace devrt::sim
