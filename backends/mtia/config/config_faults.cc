// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/config/config_faults.h"

#include <algorithm>
#include <vector>

#include "backends/text/fault_rules_reader.h"

namespace devrt::mtia {
namespace {

using internal::FaultClass;
using internal::FaultRule;

constexpr std::string_view kNone = "none";

bool Read(std::string_view value, std::vector<FaultRule>* rules,
          std::string* error) {
  rules->clear();
  return value == kNone ||
         internal::ReadFaultRules(value, /*of_calls=*/false, rules, error);
}

std::string CheckRule(const FaultRule& rule, const Config& config) {
  uint32_t device = rule.device.value_or(0);
  if (rule.link) device = std::max(rule.link->first, rule.link->second);
  if (device >= config.devices) {
    return "it names device " + std::to_string(device) + ", and devices is " +
           std::to_string(config.devices);
  }
  const bool needs_steps = rule.kind == FaultClass::kHang ||
                           rule.kind == FaultClass::kSlow ||
                           rule.kind == FaultClass::kRankLate;
  if (needs_steps && config.mode == Mode::kThreaded) {
    return "it needs mode=virtual, in which the machine knows the time";
  }
  return "";
}

}  // namespace

bool SetFaults(std::string_view value, Config* config) {
  std::string error;
  return Read(value, &config->faults, &error);
}

std::string GetFaults(const Config& config) {
  return config.faults.empty() ? std::string(kNone)
                               : internal::FaultRulesText(config.faults);
}

std::string WhyNotFaults(std::string_view value) {
  std::vector<FaultRule> rules;
  std::string error;
  Read(value, &rules, &error);
  return "key \"faults\": " + error;
}

bool CheckFaults(const Config& config, std::string* error) {
  for (const FaultRule& rule : config.faults) {
    const std::string wrong = CheckRule(rule, config);
    if (wrong.empty()) continue;
    *error = "key \"faults\": fault \"" + FaultRuleText(rule) + "\": " + wrong;
    return false;
  }
  return true;
}

}  // namespace devrt::mtia
