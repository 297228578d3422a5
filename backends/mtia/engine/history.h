// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_HISTORY_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_HISTORY_H_

#include <cstdint>

#include "backends/mtia/engine/timeline.h"

namespace devrt::mtia {

// The hash of all steps of a run in their order.  Two runs with one hash took
// the same steps, on any system.
class TraceHash {
 public:
  void Clear() {
    hash_ = 0xcbf29ce484222325u;
    steps_ = 0;
  }
  void Add(uint32_t what, uint64_t a, uint64_t b) {
    ++steps_;
    hash_ = Mix(Mix(hash_ ^ what, a), b);
  }
  uint64_t hash() const { return hash_; }
  uint64_t steps() const { return steps_; }

 private:
  static uint64_t Mix(uint64_t hash, uint64_t value) {
    hash = (hash ^ value) * 0x9fb21c651e98df25u;
    return hash ^ (hash >> 32);
  }
  uint64_t hash_ = 0xcbf29ce484222325u;
  uint64_t steps_ = 0;
};

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
