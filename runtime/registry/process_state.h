// SPDX-License-Identifier: Apache-2.0
//
// The state of the process: open, forked child or shut down.

#ifndef DEVRT_RUNTIME_REGISTRY_PROCESS_STATE_H_
#define DEVRT_RUNTIME_REGISTRY_PROCESS_STATE_H_

#include <atomic>
#include <cstdint>

#include "absl/base/optimization.h"
#include "absl/status/status.h"

namespace devrt::internal {

// kForkedChild and kShutDown of records.h, for calls that name no device.  Each
// device's state has these bits as well.
extern std::atomic<uint32_t> process_state;

inline bool IsProcessOpen() {
  return ABSL_PREDICT_TRUE(process_state.load(std::memory_order_acquire) == 0);
}

// In a forked child no lock may be taken (C105), because a thread that does not
// exist there may hold it.
bool IsForkedChild();

// The error for a process that is not open.  Takes no lock, because of C105.
absl::Status ProcessClosedError();

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_REGISTRY_PROCESS_STATE_H_
