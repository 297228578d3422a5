// SPDX-License-Identifier: Apache-2.0
//
// Reads fault rules in each form in which a user may write them, for the layer
// `faults` and for the simulator: as text (fault_rule.h), as JSON, or as the
// path of a file that has one of both.
//
//   {"faults": [{"class": "oom", "device": 0, "nth": 7}]}

#ifndef DEVRT_BACKENDS_TEXT_FAULT_RULES_READER_H_
#define DEVRT_BACKENDS_TEXT_FAULT_RULES_READER_H_

#include <string>
#include <string_view>
#include <vector>

#include "backends/text/fault_rule.h"

namespace devrt::internal {

// Reads rules of the classes of calls if `of_calls`, else of the others.  A
// text that begins with '/' or '.' is a path, one that begins with '{' is JSON.
// On a mistake returns false, leaves `*rules`, and sets `*error`.
bool ReadFaultRules(std::string_view text, bool of_calls,
                    std::vector<FaultRule>* rules, std::string* error);

}  // namespace devrt::internal

#endif  // DEVRT_BACKENDS_TEXT_FAULT_RULES_READER_H_
