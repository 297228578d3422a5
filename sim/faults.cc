// SPDX-License-Identifier: Apache-2.0
#include "devrt/sim/faults.h"

#include <cstddef>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "runtime/common/text.h"
#include "runtime/registry/shutdown.h"
#include "sim/fault_classes.h"
#include "sim/fault_table.h"
#include "sim/run_limit.h"
#include "sim/runner.h"

namespace devrt::sim {
namespace {

using internal::Counted;

// The text of an injected fault has it.
constexpr char kMark[] = "injected";

using Class = FaultClassOfSweep;

bool IsInjected(const absl::Status& status) {
  return absl::StrContains(StatusText(status), kMark);
}

class Sweeper {
 public:
  Sweeper(const SweepOptions& options, const Body& body)
      : options_(options), body_(body), limit_(options.time_limit) {}

  absl::Status Run() {
    DEVRT_RETURN_IF_ERROR(CheckOptions());
    DEVRT_RETURN_IF_ERROR(Open());
    DEVRT_RETURN_IF_ERROR(FindPoints());
    for (const Class* const c : classes_) {
      DEVRT_RETURN_IF_ERROR(Sweep(*c));
    }
    if (options_.rule.empty() || result_.faults != 0) return absl::OkStatus();
    return absl::NotFoundError(absl::StrCat(
        "no fault of the body has SweepOptions::rule, which is ",
        internal::Quoted(options_.rule),
        ": take the rule of a failure, with the body, config and classes of "
        "its sweep"));
  }

  SweepResult Take(absl::Status status) {
    Disarm();
    result_.status = std::move(status);
    return std::move(result_);
  }

 private:
  absl::Status CheckOptions() const {
    if (options_.time_limit <= std::chrono::nanoseconds(0)) {
      return absl::InvalidArgumentError(
          absl::StrCat("SweepOptions::time_limit is ",
                       options_.time_limit.count(), " ns: above 0"));
    }
    if (HasKey(options_.config, "faults")) {
      return absl::InvalidArgumentError(
          "SweepOptions::config has the key \"faults\", which the sweep sets: "
          "leave it out, and choose SweepOptions::classes");
    }
    if (!options_.token.empty() && options_.rule.empty()) {
      return absl::InvalidArgumentError(
          "SweepOptions::token is of the run with one fault: set "
          "SweepOptions::rule to that of the same failure");
    }
    return CheckMode(options_.config, "SweepOptions::config");
  }

  absl::Status Open() {
    DEVRT_ASSIGN_OR_RETURN(const Backend backend, GetBackend(options_.backend));
    DEVRT_ASSIGN_OR_RETURN(table_, FaultTable::Find(backend));
    const absl::StatusOr<Simulator> simulator = Simulator::Get(backend);
    if (simulator.ok()) simulator_ = *simulator;
    if (!simulator_.has_value() &&
        !(options_.config.empty() && options_.token.empty())) {
      return absl::InvalidArgumentError(absl::StrCat(
          "SweepOptions::", options_.config.empty() ? "token" : "config",
          " is for a simulator, and ", options_.backend, " is none"));
    }
    DEVRT_ASSIGN_OR_RETURN(
        classes_, ChooseFaultClasses(options_.classes, options_.backend,
                                     simulator_.has_value()));
    DEVRT_RETURN_IF_ERROR(limit_.Open());
    const RunLimit::Part part(&limit_, Report("before the first"));
    return EndRun();
  }

  // Ends the rules, the record, and the fault of the machine, if nothing is
  // alive on it.
  void Disarm() {
    if (!table_.has_value()) return;
    table_->Set("").IgnoreError();
    table_->Record(false).IgnoreError();
    if (!has_faulty_machine_) return;
    const RunLimit::Part part(&limit_, Report("behind the last"));
    Prepare("").IgnoreError();
  }

  absl::Status Sweep(const Class& c) {
    uint64_t made = 0;
    for (const FaultPoint& point : PointsOf(c, calls_, operations_)) {
      if (!options_.rule.empty() && options_.rule != RuleOf(c, point)) continue;
      if (options_.most_points != 0 && made == options_.most_points) break;
      ++made;
      const absl::StatusOr<bool> fired = TryFault(c, point);
      if (!fired.ok()) {
        return internal::WithPrefix(
            absl::StrCat("after ", Counted(result_.faults, "fault"), ": "),
            fired.status());
      }
      // No later match is there either.
      if (c.is_counted() && !*fired) break;
    }
    return absl::OkStatus();
  }

  // Runs without a fault: one to fill what devrt keeps for ever, and one for
  // the points and the counts.
  absl::Status FindPoints() {
    for (const bool lists : {false, true}) {
      const RunLimit::Part part(&limit_, Report("without a fault"));
      DEVRT_RETURN_IF_ERROR(Prepare(""));
      if (lists) {
        DEVRT_RETURN_IF_ERROR(table_->Record(true));
        if (simulator_.has_value()) {
          DEVRT_RETURN_IF_ERROR(simulator_->EnableTimeline(true));
        }
      }
      DEVRT_ASSIGN_OR_RETURN(const std::vector<int64_t> before, table_->Live());
      DEVRT_RETURN_IF_ERROR(internal::WithPrefix(
          "the body fails without a fault: ", CallBody(body_, "no fault")));
      DEVRT_ASSIGN_OR_RETURN(calls_, table_->Points());
      const size_t of_body = calls_.size();
      DEVRT_RETURN_IF_ERROR(
          internal::WithPrefix("the body without a fault: ", EndRun()));
      DEVRT_RETURN_IF_ERROR(table_->Record(false));
      if (lists) {
        DEVRT_RETURN_IF_ERROR(ListPoints(of_body));
      }
      DEVRT_ASSIGN_OR_RETURN(kept_, LiveSince(before));
    }
    return absl::OkStatus();
  }

  // Keeps the calls and operations of the run.  The first `of_body` calls are
  // those of the body itself.
  absl::Status ListPoints(size_t of_body) {
    DEVRT_ASSIGN_OR_RETURN(calls_, table_->Points());
    std::set<std::string> names;
    for (size_t i = 0; i < calls_.size(); ++i) {
      calls_[i].is_behind_body = i >= of_body;
      names.insert(calls_[i].call);
    }
    result_.calls.assign(names.begin(), names.end());
    if (simulator_.has_value()) {
      DEVRT_ASSIGN_OR_RETURN(operations_, simulator_->Timeline());
    }
    result_.points = calls_.size() + CountWork(operations_);
    return absl::OkStatus();
  }

  // Ends what the last run left, and begins a machine with the rule, if the
  // backend is a simulator.
  absl::Status Prepare(const std::string& rule) {
    DEVRT_RETURN_IF_ERROR(Settle());
    if (!simulator_.has_value()) return absl::OkStatus();
    const std::string faults =
        rule.empty() ? "" : absl::StrCat("faults=", rule);
    DEVRT_RETURN_IF_ERROR(simulator_->Reset(absl::StrCat(
        options_.config, options_.config.empty() || faults.empty() ? "" : ",",
        faults)));
    has_faulty_machine_ = !rule.empty();
    return absl::OkStatus();
  }

  // Waits for pending work, which keeps memory, and frees what devrt keeps
  // between runs.  An error names what is alive.
  absl::Status Settle() {
    for (const Device device : table_->backend().devices()) {
      // The rule of the run may hit the first call.
      if (!device.Synchronize().ok()) device.Synchronize().IgnoreError();
    }
    const auto* const record = internal::BackendRecord::Of(table_->backend());
    internal::RunSettleHooks(record);
    DEVRT_RETURN_IF_ERROR(
        internal::CheckNothingAlive("the next run", record->devices));
    for (internal::DeviceRecord* const device : record->devices) {
      internal::RunReleaseHook(device);
    }
    return absl::OkStatus();
  }

  // The error of a device that the run has lost.
  absl::Status LostDevice() const {
    for (const Device device : table_->backend().devices()) {
      if ((device.record()->state.load() & internal::kQuarantined) != 0) {
        return device.Synchronize();
      }
    }
    return absl::OkStatus();
  }

  absl::Status CallAround() const {
    return options_.around_run ? options_.around_run() : absl::OkStatus();
  }

  // What is done before the first and behind each run.
  absl::Status EndRun() {
    DEVRT_RETURN_IF_ERROR(CallAround());
    return Settle();
  }

  absl::StatusOr<std::vector<int64_t>> LiveSince(
      const std::vector<int64_t>& before) const {
    DEVRT_ASSIGN_OR_RETURN(std::vector<int64_t> live, table_->Live());
    for (size_t i = 0; i < live.size(); ++i) live[i] -= before[i];
    return live;
  }

  static std::string Report(const std::string& what) {
    return absl::StrCat(
        "devrt: a run of the fault sweep takes longer than its time limit. "
        "The run is one ",
        what, "\n");
  }

  // Makes the run with a fault, and one behind it.  Returns true if the fault
  // came.
  absl::StatusOr<bool> TryFault(const Class& c, const FaultPoint& point) {
    SweepFailure run;
    run.call = point.call;
    run.index = point.index;
    run.file = point.file;
    run.line = point.line;
    run.fault = c.name;
    run.rule = RuleOf(c, point);
    std::optional<RunLimit::Part> part;
    part.emplace(&limit_, Report(absl::StrCat("with the fault ", run.rule)));
    DEVRT_RETURN_IF_ERROR(Prepare(c.is_of_calls() ? "" : run.rule));
    DEVRT_RETURN_IF_ERROR(FollowToken(c.is_of_calls() ? run.rule : ""));
    if (simulator_.has_value()) {
      DEVRT_RETURN_IF_ERROR(simulator_->EnableTimeline(true));
    }
    DEVRT_ASSIGN_OR_RETURN(const std::vector<int64_t> before, table_->Live());
    DEVRT_RETURN_IF_ERROR(table_->Set(c.is_of_calls() ? run.rule : ""));
    run.status = CallBody(body_, absl::StrCat("the fault ", run.rule));
    if (!options_.token.empty()) {
      DEVRT_RETURN_IF_ERROR(simulator_->CheckReplay());
    }
    if (simulator_.has_value()) {
      const Quiet quiet;  // about what a token leaves to the operating system
      run.token = simulator_->Token().value_or("");
    }
    DEVRT_ASSIGN_OR_RETURN(const bool fired, EndFaultyRun(c));
    if (c.points == Class::kLinks) {
      DEVRT_RETURN_IF_ERROR(FindPlace(&run));
    }
    const absl::Status settled = Settle();
    part.reset();
    if (absl::IsCancelled(run.status)) return run.status;
    Judge(c, fired, run);
    DEVRT_RETURN_IF_ERROR(
        CheckAfterwards(c, point, before, settled, std::move(run)));
    return fired;
  }

  // Begins the run of SweepOptions::token, if there is one; `rule` is of the
  // layer.
  absl::Status FollowToken(const std::string& rule) const {
    if (options_.token.empty()) return absl::OkStatus();
    DEVRT_RETURN_IF_ERROR(table_->Set(rule));
    const absl::Status begun = simulator_->Replay(options_.token);
    if (begun.ok()) return begun;
    return absl::InvalidArgumentError(
        absl::StrCat("SweepOptions::token is not of a run with "
                     "SweepOptions::rule, config and this machine: ",
                     StatusText(begun)));
  }

  // Calls that end what outlives the run, and that free what devrt keeps, fail
  // too.  devrt may keep for the next time what it could not free.  Returns
  // true if the fault came.
  absl::StatusOr<bool> EndFaultyRun(const Class& c) {
    const absl::Status around = CallAround();
    if (!around.ok() && !IsInjected(around)) return around;
    Settle().IgnoreError();
    DEVRT_ASSIGN_OR_RETURN(const uint64_t fired, CountFired(c));
    DEVRT_RETURN_IF_ERROR(table_->Set(""));
    if (!around.ok()) {
      const absl::Status again = CallAround();
      if (!again.ok() && !IsInjected(again)) return again;
    }
    return fired != 0;
  }

  absl::StatusOr<uint64_t> CountFired(const Class& c) const {
    if (c.is_of_calls()) return table_->Fired();
    DEVRT_ASSIGN_OR_RETURN(const SimulatorStats stats, simulator_->Stats());
    return stats.faults_fired;
  }

  // The place of the operation that has failed.
  absl::Status FindPlace(SweepFailure* run) const {
    DEVRT_ASSIGN_OR_RETURN(const std::vector<SimulatedOp> operations,
                           simulator_->Timeline());
    for (const SimulatedOp& op : operations) {
      if (op.state != SimulatedOp::State::kFailed) continue;
      run->file = op.file;
      run->line = op.line;
      break;
    }
    return absl::OkStatus();
  }

  void Judge(const Class& c, bool fired, const SweepFailure& run) {
    const auto fail = [&](const char* what) {
      result_.failures.push_back(run);
      result_.failures.back().what = what;
    };
    // Not every match that is tried is there.
    if (c.may_miss() && !fired && run.status.ok()) return;
    ++result_.faults;
    if (run.status.ok()) {
      if (!fired) {
        ++result_.missed;
      } else if (c.effect == Class::kDiscards) {
        fail("unnoticed");
      } else {
        ++result_.handled;
      }
      return;
    }
    // The allocators write texts of their own about a lack of memory.
    const bool is_of_allocation = c.points == Class::kAllocations ||
                                  c.points == Class::kCountedAllocations;
    const bool is_of_fault =
        (is_of_allocation || IsInjected(run.status)) &&
        (c.code == nullptr ||
         absl::StrContains(StatusText(run.status), c.code));
    if (c.effect == Class::kLegal || !is_of_fault) {
      fail("wrong status");
    } else {
      ++result_.reported;
    }
  }

  // True if a run with the fault leaves no more in the backend than one
  // without.
  // The handles of a lost device are not given back, and neither is an object
  // whose end has failed early.  What devrt keeps for later runs is forgotten
  // if the call that would free it fails.
  static bool GivesAllBack(const Class& c, const FaultPoint& point) {
    if (c.effect == Class::kDiscards) return false;
    const bool ends = (point.forms & DEVRT_FAULT_ENDS) != 0;
    const bool is_late = std::string_view(c.name) == "late";
    return ends ? is_late : !point.is_behind_body;
  }

  // Looks for what the run has left, and runs the body without a fault.
  absl::Status CheckAfterwards(const Class& c, const FaultPoint& point,
                               const std::vector<int64_t>& before,
                               const absl::Status& settled, SweepFailure run) {
    const auto fail = [&](const char* what, absl::Status status) {
      run.what = what;
      run.status = std::move(status);
      result_.failures.push_back(run);
    };
    if (!settled.ok()) {
      fail("leak", settled);
      return absl::FailedPreconditionError(
          "a run has left objects alive, so that no other run can begin");
    }
    const absl::Status lost = LostDevice();
    if (c.effect != Class::kDiscards && !lost.ok()) {
      fail("lost device", lost);
      if (!simulator_.has_value()) {
        return absl::FailedPreconditionError(
            "a run has lost a device, so that no other run can begin");
      }
    } else if (GivesAllBack(c, point)) {
      DEVRT_ASSIGN_OR_RETURN(const std::vector<int64_t> kept,
                             LiveSince(before));
      for (size_t i = 0; i < kept.size(); ++i) {
        if (kept[i] <= kept_[i]) continue;
        fail("leak",
             absl::InternalError(absl::StrCat(
                 kept[i], " of the kind ", FaultTable::kNames[i],
                 " stay in the backend, and ", kept_[i], " without a fault")));
      }
    }
    const RunLimit::Part part(
        &limit_, Report(absl::StrCat("behind the fault ", run.rule)));
    DEVRT_RETURN_IF_ERROR(Prepare(""));
    const absl::Status clean =
        CallBody(body_, absl::StrCat("no fault, behind the fault ", run.rule));
    if (absl::IsCancelled(clean)) return clean;
    if (!clean.ok()) fail("next run", clean);
    return EndRun();
  }

  const SweepOptions& options_;
  const Body& body_;
  RunLimit limit_;
  std::optional<FaultTable> table_;
  std::optional<Simulator> simulator_;
  std::vector<const Class*> classes_;
  std::vector<FaultPoint> calls_;        // of a run without a fault
  std::vector<SimulatedOp> operations_;  // of the same run
  bool has_faulty_machine_ = false;      // the last reset gave it a rule
  std::vector<int64_t> kept_;  // by the backend after a run without a fault
  SweepResult result_;
};

std::string PlaceText(const SweepFailure& failure) {
  std::string text =
      absl::StrCat(failure.call, ", number ", failure.index, " of its name");
  if (!failure.file.empty()) {
    absl::StrAppend(&text, ", at ", failure.file, ":", failure.line);
  }
  return text;
}

}  // namespace

std::string SweepResult::text() const {
  std::string text =
      absl::StrCat(ok() ? "passed: " : "failed: ", Counted(points, "point"),
                   ", ", Counted(faults, "fault"), ": ", reported,
                   " reported, ", handled, " handled, ", missed,
                   " never came, ", failures.size(), " handled wrongly\n");
  if (!status.ok()) absl::StrAppend(&text, StatusText(status), "\n");
  for (const SweepFailure& failure : failures) {
    absl::StrAppend(&text, failure.what, ": class ", failure.fault, " at ",
                    PlaceText(failure), "\n  ", StatusText(failure.status),
                    "\n  repeat it: sweep with the rule ", failure.rule, "\n");
    if (!failure.token.empty()) {
      absl::StrAppend(&text, "  in this schedule: with the token ",
                      failure.token, "\n");
    }
  }
  return text;
}

SweepResult FaultSweep(const SweepOptions& options, const Body& body) {
  Turn turn;
  absl::Status status = turn.Take("a fault sweep");
  if (!status.ok()) {
    SweepResult refused;
    refused.status = std::move(status);
    return refused;
  }
  Sweeper sweeper(options, body);
  status = sweeper.Run();
  return sweeper.Take(std::move(status));
}

}  // namespace devrt::sim
