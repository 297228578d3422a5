// SPDX-License-Identifier: Apache-2.0
//
// PollPace: decides which allocations of a pool ask whether pending frees are
// over, and which frees record the checkpoint to ask about.
//
// On CUDA the query of an event that is complete takes 1.25 us, more than all
// else that an allocation and a free do.  One checkpoint, and one answer, settle
// every block whose uses came before.  So a pool is *slow* once answers have
// settled blocks kTurns times in a row: each kEvery-th small allocation asks,
// and each kEvery-th small free records.  A question without such an answer
// makes it quick again.  A small block then waits for what its users' streams
// got during kEvery calls more.
//
// Not synchronised: guarded by the lock of the pool.

#ifndef DEVRT_MEMORY_DEVICE_POLL_PACE_H_
#define DEVRT_MEMORY_DEVICE_POLL_PACE_H_

#include <cstdint>

namespace devrt::internal {

class PollPace {
 public:
  // Called for a small allocation that a free block fits.  Returns true if it
  // shall ask all the same.
  bool IsDue() { return !IsSlow() || ++allocations_ >= kEvery; }
  // Called for a small free.  Returns true if it shall leave the checkpoint to
  // a later call.
  bool Defers() { return IsSlow() && ++frees_ % kEvery != 0; }
  // Notes that an allocation has asked, and whether an answer of the driver
  // settled a block.
  void NotePoll(bool answered) {
    allocations_ = 0;
    if (!answered) {
      turns_ = 0;
    } else if (!IsSlow()) {
      ++turns_;
    }
  }
  bool IsSlow() const { return turns_ == kTurns; }

 private:
  static constexpr uint32_t kEvery = 16;
  static constexpr uint32_t kTurns = 8;
  uint32_t turns_ = 0;        // questions in a row with such an answer
  uint32_t allocations_ = 0;  // since the last question
  uint32_t frees_ = 0;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_POLL_PACE_H_
