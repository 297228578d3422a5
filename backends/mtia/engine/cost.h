// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_COST_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_COST_H_

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// How long `op` takes by the cost model of `config`, in nanoseconds of the
// virtual clock; at least 1.  Seed 0 is the model.  With another seed durations
// deviate by up to `jitter` percent, so that seeds give other orders.  A
// deviation depends on the seed and the name of the operation alone.
VTime CostOf(const Op& op, const Config& config);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_COST_H_
