// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/process_state.h"

#include "runtime/registry/records.h"

namespace devrt::internal {

std::atomic<uint32_t> process_state{0};

bool IsForkedChild() {
  return (process_state.load(std::memory_order_acquire) & kForkedChild) != 0;
}

absl::Status ProcessClosedError() {
  const uint32_t state = process_state.load(std::memory_order_acquire);
  if ((state & kForkedChild) != 0) {
    return absl::FailedPreconditionError(
        "devrt cannot be used in a forked child of a process that had opened "
        "a backend; open backends after the fork, or start the child with "
        "exec");
  }
  return absl::FailedPreconditionError(
      "devrt is shut down: nothing can be used after devrt::Shutdown()");
}

}  // namespace devrt::internal
