// SPDX-License-Identifier: Apache-2.0

#include "streams/common/relaxed_captures.h"

namespace devrt::internal {

void RelaxedCaptures::Exchange() {
  const devrt_capture_v0& table = *capture_->table;
  if (table.exchange_thread_mode == nullptr) return;
  exchanged_ =
      FromPlugin(device_, table.exchange_thread_mode(capture_->self, &mode_),
                 "mode of captures")
          .ok();
}

}  // namespace devrt::internal
