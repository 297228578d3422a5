// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_COST_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_COST_H_

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// How long `op` takes by the cost model of `config`, in nanoseconds of the
// virtual clock; at least 1.
VTime CostOf(const Op& op, const Config& config);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_COST_H_
