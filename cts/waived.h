// SPDX-License-Identifier: Apache-2.0
//
// Decides which tests a waiver covers.

#ifndef DEVRT_CTS_WAIVED_H_
#define DEVRT_CTS_WAIVED_H_

#include <string_view>

#include "devrt/cts/cts.h"

namespace devrt::cts {

// True if a waiver of `what` covers the test, by its name or its first item.
// Random programs cover many items, so only their names count.
bool IsWaivedBy(std::string_view what, const TestInfo& test);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_WAIVED_H_
