// SPDX-License-Identifier: Apache-2.0
//
// Reads the rules of the layer, and checks the entry points that they name.

#ifndef DEVRT_LAYERS_FAULTS_RULES_H_
#define DEVRT_LAYERS_FAULTS_RULES_H_

#include <string>
#include <string_view>
#include <vector>

#include "backends/text/fault_rule.h"

namespace devrt::faults {

// Reads a value of DEVRT_FAULTS (backends/text/fault_rules_reader.h).  On a
// mistake returns false, leaves `*rules`, and sets `*error`.
bool ReadRules(std::string_view text, std::vector<internal::FaultRule>* rules,
               std::string* error);

}  // namespace devrt::faults

#endif  // DEVRT_LAYERS_FAULTS_RULES_H_
