// SPDX-License-Identifier: Apache-2.0
//
// The key `faults` of the configuration.

#ifndef DEVRT_BACKENDS_MTIA_CONFIG_CONFIG_FAULTS_H_
#define DEVRT_BACKENDS_MTIA_CONFIG_CONFIG_FAULTS_H_

#include <string>
#include <string_view>

#include "backends/mtia/config/config.h"

namespace devrt::mtia {

// "none", or rules, JSON or a path (backends/text/fault_rules_reader.h).
bool SetFaults(std::string_view value, Config* config);
std::string GetFaults(const Config& config);
// What is wrong with `value`, which SetFaults has refused.
std::string WhyNotFaults(std::string_view value);

// Checks the rules against the other keys.  On a mistake returns false and sets
// `*error`.
bool CheckFaults(const Config& config, std::string* error);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_CONFIG_CONFIG_FAULTS_H_
