// SPDX-License-Identifier: Apache-2.0
//
// Existential items: several outcomes of a program are legal, and a simulator
// must be able to reach each of them.

#ifndef DEVRT_CTS_LEGAL_OUTCOMES_H_
#define DEVRT_CTS_LEGAL_OUTCOMES_H_

#include <functional>
#include <string>
#include <vector>

namespace devrt::cts {

// The number of schedules in which each outcome must have come.
inline constexpr int kMostSchedules = 1000;
// The number of schedules to run in any case, to find illegal outcomes.
inline constexpr int kFewestSchedules = 100;

// Calls `run` for schedule 0, 1, ... until each outcome of `legal` has come.
// Returns "", or a text about an outcome that is not legal or never came.
std::string Reach(const std::vector<std::string>& legal,
                  const std::function<std::string(int schedule)>& run);

// Returns "", or what is wrong with `outcome`, the outcome of `schedule`.
std::string CheckOutcome(const std::vector<std::string>& legal,
                         const std::string& outcome, int schedule);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_LEGAL_OUTCOMES_H_
