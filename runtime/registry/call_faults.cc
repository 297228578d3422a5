// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/call_faults.h"

#include <cstdlib>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "backends/text/fault_rule.h"
#include "backends/text/replay_token.h"
#include "devrt/backends/abi/devrt_faults.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"
#include "runtime/common/text.h"
#include "runtime/registry/open.h"

namespace devrt::internal {
namespace {

class CallFaults {
 public:
  explicit CallFaults(const BackendRecord& backend)
      : backend_(backend),
        found_(backend.chain->FindExtension(DEVRT_FAULTS_EXTENSION)),
        table_(static_cast<const devrt_faults_v0*>(found_.table)) {}

  // False also for a layer that is older than its function `rules`.
  bool is_there() const {
    return table_ != nullptr && DEVRT_HAS_FIELD(table_, devrt_faults_v0, rules);
  }

  absl::Status Set(const std::string& rules) const {
    return CallPlugin(backend_.name, "the layer faults", [&] {
      return table_->set(found_.self, rules.data(), rules.size());
    });
  }

  absl::StatusOr<std::string> Rules() const {
    std::string rules;
    if (!is_there()) return rules;
    uint64_t size = 0;
    // Repeats if the text has grown since its size was read.
    do {
      rules.resize(size);
      DEVRT_RETURN_IF_ERROR(CallPlugin(backend_.name, "the layer faults", [&] {
        return table_->rules(found_.self, rules.data(), rules.size(), &size);
      }));
    } while (size > rules.size());
    rules.resize(size);
    return rules;
  }

 private:
  const BackendRecord& backend_;
  const Extension found_;
  const devrt_faults_v0* const table_;
};

std::string RulesText(const std::string& rules) {
  return rules.empty() ? "without a rule"
                       : absl::StrCat("with the rules ", rules);
}

// `remedy` is for a token whose rules are not those of the program.
absl::Status OtherRulesError(const std::string& of_token,
                             const std::string& of_program,
                             const char* remedy) {
  return absl::FailedPreconditionError(
      absl::StrCat("the token was made ", RulesText(of_token),
                   " of the layer faults, and the layer is ",
                   RulesText(of_program), ": ", remedy));
}

// The rules of the program, which a replay may have made fewer.
absl::StatusOr<std::string> RulesOfProgram(const BackendRecord& backend) {
  {
    MutexLock lock(&backend.left_faults.mutex);
    if (!backend.left_faults.rules.empty()) return backend.left_faults.rules;
  }
  return CallFaults(backend).Rules();
}

// True if the rules of a token are those of the program, or some of them in
// their order.
bool Fits(std::string_view of_token, const std::string& of_program) {
  if (of_token == of_program || of_token == kNoFaults) return true;
  std::vector<FaultRule> wanted, there;
  std::string error;
  if (!ParseFaultRules(of_token, true, &wanted, &error) || wanted.empty() ||
      !ParseFaultRules(of_program, true, &there, &error)) {
    return false;
  }
  auto next = wanted.begin();
  for (const FaultRule& rule : there) {
    if (next == wanted.end()) break;
    if (FaultRuleText(rule) == FaultRuleText(*next)) ++next;
  }
  return next == wanted.end();
}

std::string RulesOf(std::string_view token) {
  const std::string_view rules = FaultsOfToken(token);
  return rules == kNoFaults ? std::string() : std::string(rules);
}

}  // namespace

absl::StatusOr<std::string> WithCallFaults(const BackendRecord& backend,
                                           std::string token) {
  DEVRT_ASSIGN_OR_RETURN(std::string rules, CallFaults(backend).Rules());
  if (rules.empty()) {
    DEVRT_ASSIGN_OR_RETURN(const std::string all, RulesOfProgram(backend));
    if (!all.empty()) rules = kNoFaults;
  }
  if (!rules.empty()) absl::StrAppend(&token, ":", rules);
  return token;
}

absl::StatusOr<SplitToken> SplitCallFaults(const BackendRecord& backend,
                                           std::string_view token) {
  const std::string_view of_token = FaultsOfToken(token);
  DEVRT_ASSIGN_OR_RETURN(const std::string all, RulesOfProgram(backend));
  if (!Fits(of_token, all)) {
    return OtherRulesError(std::string(of_token), all,
                           "set the rules of the token before the replay, by "
                           "DEVRT_FAULTS or devrt::sim::SetFaults");
  }
  SplitToken parts{std::string(token), RulesOf(token)};
  if (!of_token.empty()) {
    parts.schedule.resize(token.size() - of_token.size() - 1);
  }
  return parts;
}

absl::Status RestartCallFaults(const BackendRecord& backend) {
  DEVRT_ASSIGN_OR_RETURN(const std::string rules, RulesOfProgram(backend));
  return FollowCallFaults(backend, rules);
}

absl::Status FollowCallFaults(const BackendRecord& backend,
                              const std::string& rules) {
  DEVRT_ASSIGN_OR_RETURN(const std::string all, RulesOfProgram(backend));
  if (all.empty()) return absl::OkStatus();
  DEVRT_RETURN_IF_ERROR(CallFaults(backend).Set(rules));
  MutexLock lock(&backend.left_faults.mutex);
  backend.left_faults.rules = rules == all ? "" : all;
  return absl::OkStatus();
}

void ForgetLeftFaults(const BackendRecord& backend) {
  MutexLock lock(&backend.left_faults.mutex);
  backend.left_faults.rules.clear();
}

absl::Status FollowTokenOfEnvironment(const BackendRecord& backend) {
  const char* const text = secure_getenv("DEVRT_SIM_REPLAY");
  ReplayToken token;
  std::string error;
  if (text == nullptr || *text == '\0' ||
      backend.chain->FindExtension(DEVRT_SIM_EXTENSION).table == nullptr ||
      !ParseReplayToken(text, &token, &error)) {
    return absl::OkStatus();
  }
  const CallFaults faults(backend);
  DEVRT_ASSIGN_OR_RETURN(const std::string rules, faults.Rules());
  const std::string of_token = RulesOf(text);
  if (rules == of_token) return absl::OkStatus();
  if (!faults.is_there()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "DEVRT_SIM_REPLAY: the token was made ", RulesText(of_token),
        " of the layer faults, which is not loaded: set DEVRT_LAYERS=faults"));
  }
  if (rules.empty())
    return WithPrefix("DEVRT_SIM_REPLAY: ", faults.Set(of_token));
  if (Fits(token.faults, rules)) return FollowCallFaults(backend, of_token);
  return WithPrefix("DEVRT_SIM_REPLAY: ",
                    OtherRulesError(of_token, rules, "leave DEVRT_FAULTS out"));
}

}  // namespace devrt::internal
