// SPDX-License-Identifier: Apache-2.0
//
// Finds guards that are destroyed out of order or on another thread.

#ifndef DEVRT_GUARDS_INTERNAL_DEPTH_H_
#define DEVRT_GUARDS_INTERNAL_DEPTH_H_

#include <cstdint>

#include "absl/base/optimization.h"
#include "devrt/streams/internal/thread_streams.h"

namespace devrt::internal {

// Logs what was wrong with `kind` of guard; restoring goes on regardless.
void ReportGuardOrder(const char* kind, uint32_t depth);

inline uint32_t EnterGuard() { return ++t_streams.guard_depth; }

inline void LeaveGuard(const char* kind, uint32_t depth) {
  if (ABSL_PREDICT_FALSE(t_streams.guard_depth != depth)) {
    ReportGuardOrder(kind, depth);
  }
  t_streams.guard_depth = depth - 1;
}

}  // namespace devrt::internal

#endif  // DEVRT_GUARDS_INTERNAL_DEPTH_H_
