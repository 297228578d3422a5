// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_HISTORY_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_HISTORY_H_

#include <cstdint>

#include "backends/mtia/drivers/strategy.h"
#include "backends/mtia/engine/timeline.h"

namespace devrt::mtia {

// Owns what the machine remembers of its run: counts, the hash of the steps,
// and the timeline.
//
// Threads: all members are used inside the machine.
struct History {
  // Begins the history of the next machine.
  void Reset() {
    steps = pending_ops = completed_ops = host_funcs_run = kernels_run = 0;
    nondeterministic = false;
    trace.Clear();
    timeline.Reset();
  }

  // Steps, and calls that may end a wait.  A thread that sees no progress
  // while it waits looks for a deadlock.
  uint64_t progress = 0;
  uint64_t steps = 0;
  uint64_t pending_ops = 0;
  uint64_t completed_ops = 0;
  uint64_t host_funcs_run = 0;
  uint64_t kernels_run = 0;
  bool nondeterministic = false;  // the run cannot be replayed
  TraceHash trace;
  Timeline timeline;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_HISTORY_H_
