// SPDX-License-Identifier: Apache-2.0
//
// PoolKeeper: decides when a pool stops giving small pieces of memory to other
// pools: a pool of device memory its small segments, a pool of pinned memory
// the last free block of each small size.
//
// Threads that each allocate little would otherwise take one another's only
// piece without end.  A pool that lost a small piece, and then had to ask for
// one again, kTurns times, keeps its small pieces.  It gives them away again
// after kAsks questions in a row without an allocation in between.
//
// Not synchronised: guarded by the lock of the pool.

#ifndef DEVRT_MEMORY_COMMON_POOL_KEEPER_H_
#define DEVRT_MEMORY_COMMON_POOL_KEEPER_H_

#include <cstdint>
#include <utility>

namespace devrt::internal {

class PoolKeeper {
 public:
  // Called when another pool asks for a small piece.  Returns true if this pool
  // keeps its memory.  `allocations`: the number of this pool's
  // allocations so far.
  bool Keeps(uint64_t allocations) {
    if (turns_ < kTurns) return false;
    if (std::exchange(asked_at_, allocations) != allocations) asks_ = 0;
    if (++asks_ < kAsks) return true;
    turns_ = 0;
    return false;
  }
  // Notes that a small piece went to another pool.
  void NoteLoss() { lost_one_ = true; }
  // Notes that a small request found no block.
  void NoteShortage() {
    if (std::exchange(lost_one_, false)) ++turns_;
  }

 private:
  static constexpr uint32_t kAsks = 32;
  static constexpr uint32_t kTurns = 8;
  uint64_t asked_at_ = 0;
  uint32_t asks_ = 0;   // since `asked_at_`
  uint32_t turns_ = 0;  // losses that a shortage followed
  bool lost_one_ = false;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_COMMON_POOL_KEEPER_H_
