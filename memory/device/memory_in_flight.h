// SPDX-License-Identifier: Apache-2.0
//
// MemoryInFlight: counts memory in flight, which a search cannot see: a segment
// between two pools or between a pool and the driver, bytes that are reserved
// until the driver refuses, a freed block before it is in its queue.
//
//   const MemoryInFlight::Seen before = in_flight.See();
//   ...                                        // finds no room
//   if (in_flight.HaveEnded(before)) ...       // look again
//
// Memory that the calling thread moves does not count.  A thread asks inside a
// Scope of its own only if code of the program runs there, such as a log sink
// that allocates.
//
// Threads: any.  No lock.  Waiting for the end of a Scope ends, because a Scope
// holds at most one call of the driver.

#ifndef DEVRT_MEMORY_DEVICE_MEMORY_IN_FLIGHT_H_
#define DEVRT_MEMORY_DEVICE_MEMORY_IN_FLIGHT_H_

#include <sched.h>

#include <atomic>
#include <cstdint>

namespace devrt::internal {

class MemoryInFlight {
 public:
  class Scope {
   public:
    explicit Scope(MemoryInFlight* counts) : in_flight_(counts) {
      ++t_under_way_;
      in_flight_->under_way_.fetch_add(1);
    }
    ~Scope() {
      ++t_own_;
      --t_under_way_;
      in_flight_->ended_.fetch_add(1);
      in_flight_->under_way_.fetch_sub(1);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    MemoryInFlight* const in_flight_;
  };

  struct Seen {
    uint64_t ended;
    uint64_t own;
  };
  Seen See() const { return {ended_.load(), t_own_}; }
  // Returns true if a Scope of another thread has ended since `before`.  Waits
  // for the end of one that is under way.
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
  // Counts of the calling thread, over all objects of this class.
  static inline thread_local uint64_t t_own_ = 0;  // that have ended
  static inline thread_local uint32_t t_under_way_ = 0;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_MEMORY_IN_FLIGHT_H_
