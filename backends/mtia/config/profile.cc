// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/config/profile.h"

namespace devrt::mtia {

void ApplyProfile(Config* config) {
  switch (config->profile) {
    case Profile::kNone:
      break;
    case Profile::kCuda:
      config->queue_depth = static_cast<uint32_t>(kMinQueueDepth);
      config->pageable = Pageable::kStaged;
      config->raw_free_syncs = true;
      config->fault_delivery_abort = false;
      config->fault_scope_process = true;
      break;
    case Profile::kHip:
      config->pageable = Pageable::kSync;
      config->raw_free_syncs = true;
      config->fault_delivery_abort = true;
      break;
  }
}

}  // namespace devrt::mtia
