// SPDX-License-Identifier: Apache-2.0
#include "devrt/sim/witness.h"

#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "backends/text/witness_runs.h"
#include "devrt/backends/abi/devrt_race.h"
#include "devrt/runtime/status.h"
#include "runtime/registry/registry.h"
#include "sim/run_limit.h"
#include "sim/runner.h"
#include "streams/objects/device_streams.h"

namespace devrt::sim {
namespace {

// Lets the layer name the simulator's operations from now on.
absl::Status EnableNames(const Simulator& sim) {
  internal::DeviceRecord* const device =
      internal::BackendRecord::Of(sim.backend())->devices[0];
  const auto& race = internal::DeviceStreams::Of(device)->race;
  if (race.table == nullptr) {
    return absl::FailedPreconditionError(
        "a witness needs the validate layer, which is not loaded; call "
        "validate::Enable before the first use of devrt, or set "
        "DEVRT_LAYERS=validate");
  }
  return internal::FromPlugin(device, race.table->witness_enable(race.self),
                              "Witness");
}

}  // namespace

bool Witness::Differ(const Run& a, const Run& b) {
  return a.status.code() != b.status.code() || a.outcome != b.outcome;
}

absl::StatusOr<Witness::Run> Witness::RunBody(const std::string& config,
                                              RunLimit* limit) const {
  DEVRT_RETURN_IF_ERROR(sim_.Reset(config));
  Run run;
  {
    std::optional<RunLimit::Part> part;
    if (options_.time_limit.count() != 0) {
      part.emplace(limit,
                   absl::StrCat("devrt: a run of the witness takes longer than "
                                "its time limit. The run is the one with ",
                                config, "\n"));
    }
    run.status = CallBody(body_, config);
    // Work in flight would be in the outcome of one schedule and not of
    // another.  A fault that a wait meets is in the outcome.
    for (const Device device : sim_.backend().devices()) {
      device.Synchronize().IgnoreError();
    }
  }
  DEVRT_ASSIGN_OR_RETURN(run.outcome, sim_.Outcome());
  return run;
}

absl::Status Witness::OpenLimit(RunLimit* limit) const {
  return options_.time_limit.count() == 0 ? absl::OkStatus() : limit->Open();
}

absl::StatusOr<Witness> Witness::Create(const Simulator& sim, Body body,
                                        WitnessOptions options) {
  DEVRT_RETURN_IF_ERROR(CheckOutsideBody());
  if (options.runs < 1) {
    return absl::InvalidArgumentError(absl::StrFormat(
        "WitnessOptions::runs is %d; expected at least 1", options.runs));
  }
  if (options.time_limit < std::chrono::nanoseconds(0)) {
    return absl::InvalidArgumentError(
        absl::StrCat("WitnessOptions::time_limit is ",
                     options.time_limit.count(), " ns: 0 for none, or above"));
  }
  DEVRT_RETURN_IF_ERROR(EnableNames(sim));
  options.config = internal::ReplayedMachine(options.config);
  Witness witness(sim, std::move(body), std::move(options));
  const std::string config = internal::ReferenceRun(witness.options_.config);
  const AbortWatch watch;
  RunLimit limit(witness.options_.time_limit);
  DEVRT_RETURN_IF_ERROR(witness.OpenLimit(&limit));
  const validate::Scope scope;
  DEVRT_ASSIGN_OR_RETURN(witness.reference_, witness.RunBody(config, &limit));
  DEVRT_ASSIGN_OR_RETURN(const Run again, witness.RunBody(config, &limit));
  witness.findings_ = scope.Findings();
  DEVRT_RETURN_IF_ERROR(sim.Reset(witness.options_.config));
  if (Differ(witness.reference_, again)) {
    return absl::FailedPreconditionError(
        "two runs of the body in one schedule computed different values: the "
        "body depends on time, chance, threads or what an earlier run left; "
        "make it repeatable");
  }
  return witness;
}

absl::StatusOr<WitnessResult> Witness::Try(
    const validate::Finding& finding) const {
  DEVRT_RETURN_IF_ERROR(CheckOutsideBody());
  if (finding.hold.empty() || finding.until.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        finding.id, " has no witness: the simulator does not run its ",
        finding.hold.empty() ? "earlier" : "later",
        " operation, so no schedule can hold it"));
  }
  const AbortWatch watch;
  RunLimit limit(options_.time_limit);
  DEVRT_RETURN_IF_ERROR(OpenLimit(&limit));
  WitnessResult result;
  while (!result.confirmed && result.runs < options_.runs) {
    const uint64_t seed = options_.seed + static_cast<uint64_t>(result.runs);
    ++result.runs;
    const std::string config = internal::DirectedRun(
        options_.config, seed, result.runs, finding.hold, finding.until);
    DEVRT_ASSIGN_OR_RETURN(const Run run, RunBody(config, &limit));
    if (!Differ(reference_, run)) continue;
    result.confirmed = true;
    result.token = sim_.Token().value_or("");
    result.text = run.status.code() == reference_.status.code()
                      ? "wrong value"
                      : absl::StrCat("failure (", run.status.message(), ")");
    absl::StrAppend(&result.text, " in directed run ", result.runs);
  }
  if (!result.confirmed) {
    result.text =
        absl::StrFormat("unconfirmed in %d directed runs", result.runs);
  }
  DEVRT_RETURN_IF_ERROR(sim_.Reset(options_.config));
  return result;
}

}  // namespace devrt::sim
