// SPDX-License-Identifier: Apache-2.0

#ifndef DEVRT_BACKENDS_MTIA_DRIVERS_RANKS_H_
#define DEVRT_BACKENDS_MTIA_DRIVERS_RANKS_H_

#include <cstdint>
#include <vector>

#include "backends/mtia/config/config.h"
#include "backends/mtia/drivers/ready_heads.h"
#include "backends/mtia/engine/op.h"

namespace devrt::mtia {

// Draws the ranks of strategies pos and pct, whose candidate with the greatest
// rank moves.
//
// pos (partial order sampling): each step of an operation has a rank, which is
// drawn again when a conflicting operation takes a step.  A host thread gets
// another rank after each of its moves.
//
// pct (probabilistic concurrency testing): host threads and streams have ranks
// that stay.  At `changes` random moves the one that would move falls below
// all.
//
// Threads: every member is called by the holder of the baton.
class Ranks {
 public:
  // Begins a machine.
  void Start(const Config& config);
  // True if the strategy has ranks.
  bool is_used() const { return strategy_ != StrategyKind::kHardware; }

  // The index in `hosts`, or behind them in `heads`, of what moves.
  uint32_t Greatest(const std::vector<HostThread*>& hosts,
                    const std::vector<StreamCore*>& heads);
  // Notes that `op` takes a step, while `heads` have operations that are ready.
  void NoteStep(Op* op, const std::vector<StreamCore*>& heads);
  void NoteMoved(HostThread* host);

 private:
  uint64_t RankOf(HostThread* host) { return Drawn(&host->rank); }
  uint64_t RankOf(StreamCore* s) {
    return Drawn(strategy_ == StrategyKind::kPos ? &s->head->rank : &s->rank);
  }
  uint64_t Drawn(uint64_t* rank);

  StrategyKind strategy_ = StrategyKind::kHardware;  // kPos, kPct, or no ranks
  uint64_t random_ = 0;
  uint64_t moves_ = 0;
  uint64_t lowest_ = 0;            // pct: of the ranks so far
  std::vector<uint64_t> changes_;  // pct: numbers of moves
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_DRIVERS_RANKS_H_
