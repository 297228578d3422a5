// SPDX-License-Identifier: Apache-2.0
#include "layers/faults/rules.h"

#include <utility>

#include "backends/text/fault_rules_reader.h"
#include "layers/faults/entries.h"

namespace devrt::faults {
namespace {

using internal::FaultRule;

// Checks the entry point of a rule.  Returns a message about a mistake, or an
// empty text.
std::string CheckCall(const FaultRule& rule) {
  if (rule.call.empty()) return "";
  std::string names;
  for (const Entry& entry : kEntries) {
    const char* const name = layer::kCallNames[static_cast<size_t>(entry.id)];
    const uint32_t forms = FormsOf(entry.id);
    if (rule.call == name && forms == 0) {
      return rule.call + " cannot be made to fail: " + entry.reason;
    }
    if (rule.call == name && rule.late && (forms & DEVRT_FAULT_LATE) == 0) {
      return rule.call +
             " cannot fail late: its error says that it had no effect; leave "
             "late out";
    }
    if (rule.call == name) return "";
    if (forms != 0) names.append(names.empty() ? "" : ", ").append(name);
  }
  return "no entry point has the name " + internal::QuotedSetting(rule.call) +
         "; rules hit " + names;
}

bool CheckCalls(const std::vector<FaultRule>& rules, std::string* error) {
  for (const FaultRule& rule : rules) {
    const std::string wrong = CheckCall(rule);
    if (wrong.empty()) continue;
    *error = "fault \"" + FaultRuleText(rule) + "\": " + wrong;
    return false;
  }
  return true;
}

}  // namespace

bool ReadRules(std::string_view text, std::vector<FaultRule>* rules,
               std::string* error) {
  std::vector<FaultRule> read;
  if (!internal::ReadFaultRules(text, /*of_calls=*/true, &read, error) ||
      !CheckCalls(read, error)) {
    return false;
  }
  *rules = std::move(read);
  return true;
}

}  // namespace devrt::faults
