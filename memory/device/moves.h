// SPDX-License-Identifier: Apache-2.0
//
// Moves: memory that is on its way and that who looks for room cannot see: a
// segment between two pools or between a pool and the driver, bytes that were
// added to what is reserved before the driver refuses, a block between its free
// and its queue.
//
//   const Moves::Seen before = moves.See();
//   ...                                        // finds no room
//   if (moves.HaveEnded(before)) ...           // look again
//
// The calling thread's own moves do not count.  Mostly they are over when the
// thread asks; inside one it asks only where the program's code runs there, a
// log sink that allocates.
//
// Threads: any.  Nothing is locked.  A move that is waited for ends, since it
// makes one call of the driver at most.

#ifndef DEVRT_MEMORY_DEVICE_MOVES_H_
#define DEVRT_MEMORY_DEVICE_MOVES_H_

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace devrt::internal {

class Moves {
 public:
  class Scope {
   public:
    explicit Scope(Moves* moves) : moves_(moves) {
      ++t_under_way_;
      moves_->under_way_.fetch_add(1);
    }
    ~Scope() {
      ++t_own_;
      --t_under_way_;
      moves_->ended_.fetch_add(1);
      moves_->under_way_.fetch_sub(1);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    Moves* const moves_;
  };

  struct Seen {
    uint64_t ended;
    uint64_t own;
  };
  Seen See() const { return {ended_.load(), t_own_}; }
  // Whether another thread's has ended since; waits for the next one if any is
  // under way.
  bool HaveEnded(const Seen& before) const {
    for (;;) {
      const bool none = under_way_.load() <= t_under_way_;
      if (ended_.load() - before.ended != t_own_ - before.own) return true;
      if (none) return false;
      sched_yield();
    }
  }

 private:
  std::atomic<uint32_t> under_way_{0};
  std::atomic<uint64_t> ended_{0};
  // The calling thread's, of all objects of this class.
  static inline thread_local uint64_t t_own_ = 0;  // that have ended
  static inline thread_local uint32_t t_under_way_ = 0;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_MOVES_H_
