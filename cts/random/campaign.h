// SPDX-License-Identifier: Apache-2.0
//
// Runs many random programs against the backend under test.  The first program
// that fails is made smaller and reported as C++ code.

#ifndef DEVRT_CTS_RANDOM_CAMPAIGN_H_
#define DEVRT_CTS_RANDOM_CAMPAIGN_H_

#include "cts/random/generator.h"
#include "cts/test.h"

namespace devrt::cts {

// The plugin's capabilities, and its deviations.
Limits LimitsOf(const Machine& machine);

// Runs `count` programs made from t.seed().  On a simulator each program has
// its own schedule.  `test` is the name of the test that runs them again.
void RunCampaign(Test& t, const char* test, const ProgramShape& shape,
                 int count);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_CAMPAIGN_H_
