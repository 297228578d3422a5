// SPDX-License-Identifier: Apache-2.0
//
// MemoryInFlight: counts moves of memory, during which a search for room cannot
// see the memory.  It may be a segment between two pools or between a pool and
// the driver, bytes that are reserved until the driver refuses, or a freed
// block before it is in its queue.  A thread makes a Scope for each move.
//
//   const MemoryInFlight::Ended before = in_flight.CountEnded();
//   ...                                        // finds no room
//   if (in_flight.HaveEnded(before)) ...       // search again
//
// HaveEnded leaves the Scopes of the calling thread out.  It is called inside
// one only if the Scope runs code of the program, such as a log sink that
// allocates.
//
// Threads: any.  There is no lock, but HaveEnded may wait for the end of a
// Scope of another thread.  That wait is bounded, because a Scope makes at most
// one call of the driver.

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
      in_flight_->counts_.fetch_add(1);
    }
    ~Scope() {
      ++t_own_;
      --t_under_way_;
      in_flight_->counts_.fetch_add((uint64_t{1} << 32) - 1);
    }
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    MemoryInFlight* const in_flight_;
  };

  struct Ended {
    uint32_t ended;
    uint32_t own;
  };
  Ended CountEnded() const { return {EndedOf(counts_.load()), t_own_}; }
  // Returns true if a Scope of another thread has ended since `before`.  If
  // none has, waits for the end of a Scope that is under way.
  bool HaveEnded(const Ended& before) const {
    for (;;) {
      const uint64_t counts = counts_.load();
      if (EndedOf(counts) - before.ended != t_own_ - before.own) return true;
      if (static_cast<uint32_t>(counts) <= t_under_way_) return false;
      sched_yield();
    }
  }

 private:
  static uint32_t EndedOf(uint64_t counts) {
    return static_cast<uint32_t>(counts >> 32);
  }

  // Below, the scopes that are under way, above, those that have ended.
  std::atomic<uint64_t> counts_{0};
  // Counts of the calling thread, over all objects of this class: those that
  // have ended, and those that are under way.
  static inline thread_local uint32_t t_own_
      __attribute__((tls_model("initial-exec"))) = 0;
  static inline thread_local uint32_t t_under_way_
      __attribute__((tls_model("initial-exec"))) = 0;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_MEMORY_IN_FLIGHT_H_
