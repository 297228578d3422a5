// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/call_faults.h"

#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/text/replay_token.h"
#include "devrt/backends/abi/devrt_faults.h"
#include "devrt/backends/abi/devrt_sim.h"
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

// `remedy` is for a token whose rules are not those of now.
absl::Status OtherRulesError(const std::string& of_token,
                             const std::string& now, const char* remedy) {
  return absl::FailedPreconditionError(absl::StrCat(
      "the token was made ", RulesText(of_token),
      " of the layer faults, and the layer is ", RulesText(now), ": ", remedy));
}

}  // namespace

absl::StatusOr<std::string> WithCallFaults(const BackendRecord& backend,
                                           std::string token) {
  DEVRT_ASSIGN_OR_RETURN(const std::string rules, CallFaults(backend).Rules());
  if (!rules.empty()) absl::StrAppend(&token, ":", rules);
  return token;
}

absl::StatusOr<std::string> WithoutCallFaults(const BackendRecord& backend,
                                              std::string_view token) {
  const std::string_view of_token = FaultsOfToken(token);
  DEVRT_ASSIGN_OR_RETURN(const std::string rules, CallFaults(backend).Rules());
  if (rules != of_token) {
    return OtherRulesError(std::string(of_token), rules,
                           "set the rules of the token before the replay, by "
                           "DEVRT_FAULTS or devrt::sim::SetFaults");
  }
  if (!rules.empty()) token.remove_suffix(rules.size() + 1);
  return std::string(token);
}

absl::Status RestartCallFaults(const BackendRecord& backend) {
  const CallFaults faults(backend);
  DEVRT_ASSIGN_OR_RETURN(const std::string rules, faults.Rules());
  return rules.empty() ? absl::OkStatus() : faults.Set(rules);
}

absl::Status FollowCallFaults(const BackendRecord& backend) {
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
  if (rules == token.faults) return absl::OkStatus();
  if (!faults.is_there()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "DEVRT_SIM_REPLAY: the token was made ", RulesText(token.faults),
        " of the layer faults, which is not loaded: set DEVRT_LAYERS=faults"));
  }
  if (!rules.empty()) {
    return WithPrefix(
        "DEVRT_SIM_REPLAY: ",
        OtherRulesError(token.faults, rules, "leave DEVRT_FAULTS out"));
  }
  return WithPrefix("DEVRT_SIM_REPLAY: ", faults.Set(token.faults));
}

}  // namespace devrt::internal
