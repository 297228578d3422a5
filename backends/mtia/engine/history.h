// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_HISTORY_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_HISTORY_H_

#include <cstdint>

#include "backends/mtia/engine/outcome.h"
#include "backends/mtia/engine/timeline.h"
#include "backends/mtia/engine/trace_hash.h"

namespace devrt::mtia {

// Owns what the machine remembers of its run: counts, the hash of the steps,
// the outcome and the timeline.
//
// Threads: all members are used inside the machine.
struct History {
  // Begins the history of the next machine.
  void Reset() {
    steps = pending_ops = completed_ops = host_funcs_run = kernels_run = 0;
    uncontrolled = 0;
    first_uncontrolled = nullptr;
    trace.Clear();
    timeline.Reset();
  }

  // Notes that real time has decided, for a reason in static storage.
  void NoteUncontrolled(const char* why) {
    if (uncontrolled++ == 0) first_uncontrolled = why;
  }

  // Steps, and calls that may end a wait.  A thread that sees no progress
  // while it waits looks for a deadlock.
  uint64_t progress = 0;
  uint64_t steps = 0;
  uint64_t pending_ops = 0;
  uint64_t completed_ops = 0;
  uint64_t host_funcs_run = 0;
  uint64_t kernels_run = 0;
  // How often real time decided what moved next, so that a replay may differ,
  // and the first of the reasons.
  uint64_t uncontrolled = 0;
  const char* first_uncontrolled = nullptr;
  TraceHash trace;
  Outcome outcome;
  Timeline timeline{&trace};
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_HISTORY_H_
