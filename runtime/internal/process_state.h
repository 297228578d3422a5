// SPDX-License-Identifier: Apache-2.0
//
// Whether this process may use backends at all.

#ifndef DEVRT_RUNTIME_INTERNAL_PROCESS_STATE_H_
#define DEVRT_RUNTIME_INTERNAL_PROCESS_STATE_H_

#include <atomic>
#include <cstdint>

#include "absl/base/optimization.h"
#include "absl/status/status.h"

namespace devrt::internal {

// kForkedChild and kShutDown of records.h, for calls that name no device.
// They are also set in each device's state.
extern std::atomic<uint32_t> process_state;

inline bool IsProcessOpen() {
  return ABSL_PREDICT_TRUE(process_state.load(std::memory_order_acquire) == 0);
}

// C105: no lock may be taken, whose holder may have been another thread.
bool IsForkedChild();

// Why; the process is not open.  Takes no lock: in a forked child any lock may
// be held for ever.
absl::Status ProcessClosedError();

}  // namespace devrt::internal

#endif  // DEVRT_RUNTIME_INTERNAL_PROCESS_STATE_H_
