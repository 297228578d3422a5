// SPDX-License-Identifier: Apache-2.0
//
// A run on a simulator, as a witness compares it with another one: names of
// operations that hold in every schedule, and what the run has computed.
//
// The simulator knows the bytes that its operations wrote.  The layer adds the
// bytes that the host reads by itself from memory that work may be writing: a
// later run reads other bytes there if nothing orders the two.
//
// Threads: any.  Lives until the process ends.

#ifndef DEVRT_LAYERS_VALIDATE_SIMULATED_RUN_H_
#define DEVRT_LAYERS_VALIDATE_SIMULATED_RUN_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/backends/abi/devrt_sim.h"
#include "layers/validate/findings.h"
#include "layers/validate/op_id.h"

namespace devrt::race {

class SimulatedRun {
 public:
  // `next` is a simulator, with the table `sim` and its `self`.
  SimulatedRun(const devrt_next_v0* next, const devrt_sim_v1* sim, void* self)
      : next_(next), sim_(sim), self_(self) {}
  SimulatedRun(const SimulatedRun&) = delete;
  SimulatedRun& operator=(const SimulatedRun&) = delete;

  // The operation that the calling thread submits next.
  OpId Next(OpId::Kind kind) const;

  // The host reads bytes of its own memory or of pinned memory now.
  void Observe(const void* ptr, uint64_t size);
  // An allocator cuts the block.  A simulator that keeps an outcome leaves such
  // blocks out, but offers no extension that says so before it keeps one.
  devrt_status Carve(uint32_t device, void* base, uint64_t size) const;
  // A new run begins.
  void Restart() {
    observed_.store(0);
    ++restarts_;
  }

  // The simulator's outcome, and what the host has read.
  devrt_status Outcome(uint64_t* hash) const;

  // Waits for all work, and returns what the run came to.  Later calls return
  // nothing: the simulator may be gone.
  std::optional<RunSummary> Finish();

 private:
  const devrt_next_v0* const next_;
  const devrt_sim_v1* const sim_;
  void* const self_;
  // A sum, so that the order of threads does not count.
  std::atomic<uint64_t> observed_{0};
  std::atomic<uint64_t> restarts_{0};
  std::atomic<bool> finished_{false};
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_SIMULATED_RUN_H_
