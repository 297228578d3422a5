// SPDX-License-Identifier: Apache-2.0
//
// Many random programs against the backend under test; the first one that finds
// something wrong is made small and told as C++.

#ifndef DEVRT_CTS_RANDOM_CAMPAIGN_H_
#define DEVRT_CTS_RANDOM_CAMPAIGN_H_

#include "cts/random/generator.h"
#include "cts/test.h"

namespace devrt::cts {

// What the plugin promises, and how it deviates.
Limits LimitsOf(const Machine& machine);

// `count` programs of t.seed(), each under a schedule of its own where a
// simulator decides.  `test` is the name by which they are run again.
void RunCampaign(Test& t, const char* test, const Shape& shape, int count);

}  // namespace devrt::cts

#endif  // DEVRT_CTS_RANDOM_CAMPAIGN_H_
