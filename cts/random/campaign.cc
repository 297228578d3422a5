// SPDX-License-Identifier: Apache-2.0
#include "cts/random/campaign.h"

#include <chrono>
#include <cstdlib>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cts/random/printer.h"
#include "cts/random/runner.h"
#include "cts/random/shrink.h"

namespace devrt::cts {
namespace {

using RealClock = std::chrono::steady_clock;
constexpr std::chrono::seconds kTimeToShrink(20);
// The timeout of gates, for backends that do not detect deadlocks.
constexpr uint64_t kGateTimeout = 10'000'000'000;
// A smaller program passes if it passes this many times.
constexpr int kTriesVirtual = 60, kTriesElsewhere = 10;

// Mostly random schedules, which show a missing order best.
std::string ScheduleOf(uint64_t seed) {
  switch (seed % 10) {
    case 0:
      return "strategy=hw,seed=" + std::to_string(seed >> 8);
    case 1:
      return "strategy=lifo";
    case 2:
      return "strategy=alap";
    default:
      return "strategy=random,seed=" + std::to_string(seed >> 8);
  }
}

// A program that failed, and its failure.
struct Failure {
  Program program;
  std::string schedule;  // empty without a simulator
  Mismatch mismatch;
};

class Campaign {
 public:
  Campaign(Test& t, const char* test, const ProgramShape& shape)
      : t_(t),
        test_(test),
        shape_(shape),
        venue_{t.machine().backend(), {}, {}, 0} {
    const std::vector<Device> all = t.machine().backend().devices();
    for (const uint32_t device : t.devices()) {
      venue_.devices.push_back(all[device]);
    }
    if (t.machine().IsVirtual()) venue_.simulator = t.machine().simulator();
    if (!t.machine().simulator().has_value()) {
      venue_.gate_timeout_ns = kGateTimeout;
    }
  }

  void Run(int count) {
    for (int i = 0; i < count; ++i) {
      const uint64_t seed = ProgramSeed(t_.seed(), i);
      const Program program = Generate(seed, shape_);
      std::string schedule = ScheduleOf(seed);
      std::optional<Mismatch> bad = RunUnder(program, schedule);
      if (!bad.has_value()) continue;
      ReportFailure({program, std::move(schedule), *std::move(bad)});
      break;
    }
    if (Virtual()) t_.Require(t_.machine().Reset(""), "reset of the simulator");
  }

 private:
  bool Virtual() const { return venue_.simulator.has_value(); }

  std::optional<Mismatch> RunUnder(const Program& program,
                                   const std::string& schedule) {
    if (Virtual()) {
      t_.Require(t_.machine().Reset(schedule), "reset of the simulator");
    }
    return RunProgram(program, venue_);
  }

  int Tries() const { return Virtual() ? kTriesVirtual : kTriesElsewhere; }

  // Tries the schedule of the failure, and others.
  std::optional<Failure> Reproduce(const Program& program,
                                   const std::string& schedule) {
    for (int i = 0; i < Tries(); ++i) {
      std::string tried = schedule;
      if (i > 0) {
        tried =
            i == 1 ? "strategy=lifo" : absl::StrCat("strategy=random,seed=", i);
      }
      std::optional<Mismatch> bad = RunUnder(program, tried);
      if (!bad.has_value()) continue;
      return Failure{program, std::move(tried), *std::move(bad)};
    }
    return std::nullopt;
  }

  void ReportFailure(const Failure& first) {
    // The smallest program that failed.
    Failure found = first;
    const auto end = RealClock::now() + kTimeToShrink;
    Shrink(
        first.program, shape_.limits,
        [&](const Program& smaller) {
          std::optional<Failure> again = Reproduce(smaller, found.schedule);
          if (!again.has_value()) return false;
          found = *std::move(again);
          return true;
        },
        [&] { return RealClock::now() > end; });
    // Runs the program once more, so that the reported calls are its calls.
    std::optional<Failure> again = Reproduce(found.program, found.schedule);
    const bool repeats = again.has_value();
    if (repeats) found = *std::move(again);
    const Program& small = found.program;
    Listing listing;
    listing.plugin = t_.machine().backend().path();
    listing.devices = t_.devices();
    if (Virtual()) {
      listing.reset = t_.Require(venue_.simulator->Config(), "configuration");
    }
    listing.gate_timeout_ns = venue_.gate_timeout_ns;
    listing.replay = Replay(small.seed);
    listing.finding = Finding(found);
    t_.Fail(absl::StrCat("the program of seed ", small.seed, ", made small (",
                         first.program.steps.size(), " steps to ",
                         small.steps.size(), "): ", listing.finding, "\n",
                         repeats ? "" : NotRepeated(), ToText(small),
                         "\nAgain: ", listing.replay, "\nAs a program:\n\n",
                         ToCpp(small, listing)));
  }

  static std::string Finding(const Failure& failure) {
    const int step = failure.mismatch.step;
    if (step == 0) return absl::StrCat("at the end: ", failure.mismatch.what);
    const Step& failed = failure.program.steps[static_cast<size_t>(step - 1)];
    return absl::StrCat("step ", step, ", ", ToText(failed), ": ",
                        failure.mismatch.what);
  }

  std::string NotRepeated() const {
    return absl::StrCat(
        "The failure is not deterministic: the program that follows failed as "
        "told, and then passed ",
        Tries(), " times. The calls below are those of a run that passed.\n");
  }

  // The command that runs the program again.
  std::string Replay(uint64_t seed) const {
    const Backend backend = t_.machine().backend();
    std::string command;
    const std::string variable =
        absl::StrCat("DEVRT_", absl::AsciiStrToUpper(backend.name()));
    const char* const value = std::getenv(variable.c_str());
    if (value != nullptr && *value != 0) {
      command = absl::StrCat(variable, "='", value, "' ");
    }
    absl::StrAppend(&command, "devrt cts --plugin=", backend.path());
    if (t_.devices().size() != backend.devices().size()) {
      absl::StrAppend(&command, " --device=", absl::StrJoin(t_.devices(), ","));
    }
    return absl::StrCat(command, " --items=", test_, " --seed=", seed,
                        " --programs=1");
  }

  Test& t_;
  const char* const test_;
  const ProgramShape shape_;
  Venue venue_;
};

}  // namespace

Limits LimitsOf(const Machine& machine) {
  Limits limits;
  limits.pinned = machine.Has(DEVRT_CAP_PINNED_HOST);
  limits.host_func = machine.Has(DEVRT_CAP_HOST_FUNC);
  limits.peer_copy = machine.Has(DEVRT_CAP_PEER_COPY);
  limits.timing = machine.Has(DEVRT_CAP_EVENT_TIMING);
  limits.gates = machine.probe() != nullptr;
  for (const uint32_t device : machine.devices()) {
    if (machine.props(device).raw_free_syncs != 0) limits.free_waits = true;
  }
  return limits;
}

void RunCampaign(Test& t, const char* test, const ProgramShape& shape,
                 int count) {
  Campaign(t, test, shape).Run(count);
}

}  // namespace devrt::cts
