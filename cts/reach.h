// SPDX-License-Identifier: Apache-2.0
//
// Existential items: of a program several outcomes are legal, and each of them
// can be reached.

#ifndef DEVRT_CTS_REACH_H_
#define DEVRT_CTS_REACH_H_

#include <functional>
#include <string>
#include <vector>

namespace devrt::cts {

// As many schedules as an outcome has to come in.
inline constexpr int kMostSchedules = 1000;
// So many are run even when all outcomes have come: another one may.
inline constexpr int kFewestSchedules = 100;

// Runs `run` in schedule 0, 1, ... until each outcome of `legal` has come. What
// is wrong: an outcome that is none of them, or one that never came; "" if
// nothing is.
std::string Reach(const std::vector<std::string>& legal,
                  const std::function<std::string(int schedule)>& run);

// What is wrong with one outcome, that of `schedule`; "" if nothing is.
std::string CheckOutcome(const std::vector<std::string>& legal,
                         const std::string& outcome, int schedule);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_REACH_H_
