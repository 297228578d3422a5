// SPDX-License-Identifier: Apache-2.0
#include "sim/shrink.h"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/text/fault_rule.h"
#include "backends/text/replay_token.h"
#include "devrt/runtime/status.h"

namespace devrt::sim {
namespace {

using internal::ChoiceRun;
using internal::FaultRule;
using internal::kNoFaults;
using internal::ReplayToken;

// More would take longer to try than a person waits.
constexpr uint64_t kMostChoices = 100'000;

// A decision that is not the default, and its number.
struct Choice {
  uint64_t position;
  uint32_t choice;
};

bool ToChoices(const std::vector<ChoiceRun>& runs, std::vector<Choice>* out) {
  uint64_t position = 0;
  for (const ChoiceRun& run : runs) {
    position += run.zeros;
    if (run.count > kMostChoices - std::min(kMostChoices, out->size())) {
      return false;
    }
    for (uint64_t i = 0; i < run.count; ++i) {
      out->push_back({position++, run.choice});
    }
  }
  return true;
}

std::vector<ChoiceRun> ToRuns(const std::vector<Choice>& choices) {
  std::vector<ChoiceRun> runs;
  uint64_t next = 0;
  for (const Choice& choice : choices) {
    const uint64_t zeros = choice.position - next;
    if (zeros == 0 && !runs.empty() && runs.back().choice == choice.choice) {
      ++runs.back().count;
    } else {
      runs.push_back({zeros, choice.choice, 1});
    }
    next = choice.position + 1;
  }
  return runs;
}

class Shrinker {
 public:
  Shrinker(Runner* runner, uint64_t most_runs, Result* result)
      : runner_(*runner), most_runs_(most_runs), result_(*result) {}

  absl::Status Run() {
    std::string error;
    if (!ParseReplayToken(result_.failing.token, &token_, &error) ||
        !ToChoices(token_.runs, &choices_)) {
      return absl::OkStatus();
    }
    key_ = FailureKey(result_.failing.status);
    DEVRT_RETURN_IF_ERROR(TryFewerRules(/*searches=*/false));
    for (size_t size = choices_.size(); size > 0; size /= 2) {
      DEVRT_RETURN_IF_ERROR(TryBlocks(size));
    }
    // One decision that is gone may make another one needless.
    for (bool again = true; again && !choices_.empty();) {
      const size_t before = choices_.size();
      DEVRT_RETURN_IF_ERROR(TryBlocks(1));
      again = choices_.size() < before;
    }
    if (choices_.size() > 1) {
      DEVRT_ASSIGN_OR_RETURN(const bool found, TryUpTo(choices_.size() - 1));
      static_cast<void>(found);
    }
    // So may a rule.
    DEVRT_RETURN_IF_ERROR(TryFewerRules(/*searches=*/true));
    return FindNeighbour();
  }

 private:
  // Tries the schedule without rules of the layer `faults`, and without each.
  // `searches`: and the schedules with one other decision.
  absl::Status TryFewerRules(bool searches) {
    std::vector<FaultRule> rules;
    std::string error;
    if (token_.faults.empty() || token_.faults == kNoFaults ||
        !ParseFaultRules(token_.faults, /*of_calls=*/true, &rules, &error)) {
      return absl::OkStatus();
    }
    DEVRT_ASSIGN_OR_RETURN(const bool needs_none, TryRules({}, searches));
    for (size_t at = 0; !needs_none && rules.size() > 1 && at < rules.size();) {
      if (result_.shrinking >= most_runs_) return absl::OkStatus();
      std::vector<FaultRule> fewer = rules;
      fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(at));
      DEVRT_ASSIGN_OR_RETURN(const bool fails, TryRules(fewer, searches));
      if (fails) {
        rules = std::move(fewer);
      } else {
        ++at;
      }
    }
    return absl::OkStatus();
  }

  // Makes the run with these rules, and keeps it if it fails.  A call that does
  // not fail may be a decision more, so `searches` tries each single decision.
  absl::StatusOr<bool> TryRules(const std::vector<FaultRule>& rules,
                                bool searches) {
    std::string text =
        rules.empty() ? std::string(kNoFaults) : FaultRulesText(rules);
    const std::string before = std::exchange(token_.faults, std::move(text));
    DEVRT_ASSIGN_OR_RETURN(bool fails, TryChoices(choices_));
    if (!fails && searches && !choices_.empty()) {
      DEVRT_ASSIGN_OR_RETURN(fails, TryChoices({}));
      if (!fails) {
        DEVRT_ASSIGN_OR_RETURN(fails, TryUpTo(1));
      }
    }
    if (!fails) token_.faults = before;
    return fails;
  }

  absl::Status TryBlocks(size_t size) {
    for (size_t at = 0; at < choices_.size();) {
      if (result_.shrinking >= most_runs_) return absl::OkStatus();
      DEVRT_ASSIGN_OR_RETURN(const bool fails, TryWithout(at, size));
      if (!fails) at += size;
    }
    return absl::OkStatus();
  }

  // Tries the schedules with one decision that is not the default, and then
  // those with two, but not more than `most`: what is left of a long schedule
  // need not be its shortest form, since each decision changes what the later
  // ones mean.  Returns true if one fails.
  absl::StatusOr<bool> TryUpTo(size_t most) {
    std::vector<std::vector<Choice>> level = {{}};
    for (size_t size = 1; size <= std::min<size_t>(most, 2); ++size) {
      std::vector<std::vector<Choice>> next;
      for (const std::vector<Choice>& base : level) {
        DEVRT_ASSIGN_OR_RETURN(const bool found, TryOneMore(base, &next));
        if (found || result_.shrinking >= most_runs_) return found;
      }
      level = std::move(next);
    }
    return false;
  }

  // Tries `base` with each further decision behind it.  Adds to `*tried` those
  // that do not fail.  Returns true if one fails.
  absl::StatusOr<bool> TryOneMore(const std::vector<Choice>& base,
                                  std::vector<std::vector<Choice>>* tried) {
    DEVRT_ASSIGN_OR_RETURN(const sim::Run run, Make(base));
    const size_t first = base.empty() ? 0 : base.back().position + 1;
    for (size_t i = first; i < run.decisions.size(); ++i) {
      const uint32_t count = run.decisions[i].count;
      for (uint32_t choice = 1; choice < count; ++choice) {
        if (result_.shrinking >= most_runs_) return false;
        std::vector<Choice> more = base;
        more.push_back({i, choice});
        DEVRT_ASSIGN_OR_RETURN(const bool fails, TryChoices(more));
        if (fails) return true;
        tried->push_back(std::move(more));
      }
    }
    return false;
  }

  // Sets the passing run to that without the last decision, if it passes.
  absl::Status FindNeighbour() {
    if (choices_.empty()) return absl::OkStatus();
    std::vector<Choice> fewer = choices_;
    fewer.pop_back();
    DEVRT_ASSIGN_OR_RETURN(sim::Run run, Make(fewer));
    if (run.status.ok()) result_.passing = std::move(run);
    return absl::OkStatus();
  }

  absl::StatusOr<sim::Run> Make(const std::vector<Choice>& choices) {
    ReplayToken token = token_;
    token.runs = ToRuns(choices);
    ++result_.shrinking;
    return runner_.Replay(FormatReplayToken(token));
  }

  // Makes the run without choices_[at, at + size), and keeps it if it fails.
  absl::StatusOr<bool> TryWithout(size_t at, size_t size) {
    std::vector<Choice> fewer = choices_;
    const auto first = fewer.begin() + static_cast<std::ptrdiff_t>(at);
    fewer.erase(first, first + static_cast<std::ptrdiff_t>(
                                   std::min(size, fewer.size() - at)));
    return TryChoices(std::move(fewer));
  }

  // Makes a run, and keeps it if it fails as the first one did.
  absl::StatusOr<bool> TryChoices(std::vector<Choice> choices) {
    DEVRT_ASSIGN_OR_RETURN(sim::Run run, Make(choices));
    // A body may set rules itself.
    if (FailureKey(run.status) != key_ ||
        internal::FaultsOfToken(run.token) != token_.faults) {
      if (run.status.ok()) result_.passing = std::move(run);
      return false;
    }
    choices_ = UsedChoices(run, std::move(choices));
    result_.failing = std::move(run);
    return true;
  }

  // The choices that the run made: some of `given` may have had no effect.
  static std::vector<Choice> UsedChoices(const sim::Run& run,
                                         std::vector<Choice> given) {
    ReplayToken used;
    std::string error;
    std::vector<Choice> choices;
    if (!ParseReplayToken(run.token, &used, &error) ||
        !ToChoices(used.runs, &choices) || choices.size() >= given.size()) {
      return given;
    }
    return choices;
  }

  Runner& runner_;
  const uint64_t most_runs_;
  Result& result_;
  ReplayToken token_;
  std::vector<Choice> choices_;
  std::string key_;
};

}  // namespace

absl::Status ShrinkFailure(Runner* runner, uint64_t most_runs, Result* result) {
  return Shrinker(runner, most_runs, result).Run();
}

}  // namespace devrt::sim
