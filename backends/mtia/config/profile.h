// SPDX-License-Identifier: Apache-2.0
//
// The key `profile` of the configuration.

#ifndef DEVRT_BACKENDS_MTIA_CONFIG_PROFILE_H_
#define DEVRT_BACKENDS_MTIA_CONFIG_PROFILE_H_

#include <cstdint>

#include "backends/mtia/config/config.h"

namespace devrt::mtia {

// The least queue_depth.
inline constexpr uint64_t kMinQueueDepth = 1000;

// Sets the keys of config->profile to what was measured on that hardware.
void ApplyProfile(Config* config);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_CONFIG_PROFILE_H_
