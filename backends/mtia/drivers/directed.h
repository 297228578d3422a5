// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_DRIVERS_DIRECTED_H_
#define DEVRT_BACKENDS_MTIA_DRIVERS_DIRECTED_H_

#include <cstdint>

#include "backends/mtia/config/config.h"
#include "backends/mtia/engine/decisions.h"
#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// Says which operation strategy directed holds: the one named by `hold`, until
// the one named by `until` is complete.  An operation that reads and writes in
// two phases is held before the first or before the second, as the seed says.
//
// Threads: every member is called by the holder of the baton.
class Directed {
 public:
  // Begins a machine.
  void Start(const Config& config) {
    holds_ = config.strategy == StrategyKind::kDirected && config.hold &&
             config.until;
    if (!holds_) return;
    hold_ = *config.hold;
    until_ = *config.until;
    uint64_t draw = config.seed ^ kPhase;
    before_second_ = (NextRandom(&draw) >> 63) != 0;
  }
  // True if `op`, which could take its next step, has to stay.
  bool Holds(const Op* op) const {
    if (!holds_ || !Is(op, hold_)) return false;
    const bool second = op->split && before_second_;
    return (op->state == OpState::kRunning) == second;
  }
  // Notes that `op` is complete, or has failed.
  void NoteEnded(const Op* op) {
    if (holds_ && Is(op, until_)) holds_ = false;
  }
  // Ends the hold, because nothing else can move.
  void Release() { holds_ = false; }

 private:
  static constexpr uint64_t kPhase = 0x64697265637465;

  static bool Is(const Op* op, const OpId& id) {
    return op->thread == id.thread && op->index == id.index;
  }

  bool holds_ = false;
  bool before_second_ = false;
  OpId hold_;
  OpId until_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_DRIVERS_DIRECTED_H_
