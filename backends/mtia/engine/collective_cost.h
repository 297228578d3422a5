// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_COLLECTIVE_COST_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_COLLECTIVE_COST_H_

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/communicator.h"

namespace devrt::mtia {

// The virtual duration of one operation of a communicator, from the meeting to
// the end of the first rank: the shorter one of a ring and a tree.  A step from
// rank to rank takes collective_alpha, and bytes pass at collective_link, or at
// collective_nic if the devices are in several nodes.
// All ranks have begun.
VTime CollectiveCost(const devrt_collective_v0& call, const Config& config,
                     Communicator* comm);

// By how much one rank ends later: at most collective_skew, drawn from the seed
// and the name of the operation; 0 without a seed.
VTime CollectiveSkew(const Op& op, uint32_t rank, const Config& config);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_COLLECTIVE_COST_H_
