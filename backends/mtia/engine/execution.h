// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_EXECUTION_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_EXECUTION_H_

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/lazy_memory.h"
#include "backends/mtia/engine/op.h"
#include "backends/mtia/engine/outcome.h"

namespace devrt::mtia {

// Does to memory what operations do.  It has no state of its own.
//
// A small operation with declared ranges runs in two phases, so that two of
// them can interleave as on hardware: Begin reads into a scratch copy, End
// works on that copy and writes back what has changed.
//
// Threads: Begin and End are called for the operation that runs, in virtual
// mode inside the machine, in threaded mode outside it, by the worker.
class Execution {
 public:
  // All of them outlive this object.
  Execution(const Config* config, const LazyMemory* memory, Outcome* outcome)
      : config_(config), memory_(memory), outcome_(outcome) {}

  // The first phase.  Only operations of two phases do anything here.
  void Begin(Op* op) const;
  // The second phase.  Returns the fault that it met, if any.
  Fault End(Op* op) const;
  // Ends the block of a stream-ordered free that will not run, because its
  // stream has failed.
  void DropBlock(const Op* op) const;

 private:
  const Config* const config_;
  const LazyMemory* const memory_;
  Outcome* const outcome_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_EXECUTION_H_
