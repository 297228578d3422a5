// SPDX-License-Identifier: Apache-2.0
//
// Which tests a waiver is about.

#ifndef DEVRT_CTS_WAIVED_H_
#define DEVRT_CTS_WAIVED_H_

#include <string_view>

#include "devrt/cts/cts.h"

namespace devrt::cts {

// Whether a waiver of `what` covers this test: one of its name, or of its first
// item.  Random programs mix many items: only their names count.
bool IsWaivedBy(std::string_view what, const TestInfo& test);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_WAIVED_H_
