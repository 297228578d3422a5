// SPDX-License-Identifier: Apache-2.0
//
// The clock for the records of one backend.  Calls and operations use one
// clock, so that both lie on one time line.

#ifndef DEVRT_LAYERS_TRACE_CLOCK_H_
#define DEVRT_LAYERS_TRACE_CLOCK_H_

#include <atomic>
#include <cstdint>
#include <mutex>

#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/backends/abi/devrt_sim.h"

namespace devrt::trace {

uint64_t NowNs();  // CLOCK_MONOTONIC

// Returns the host's monotonic clock, except for a simulator in virtual mode:
// there an operation of a virtual second takes no host time, so calls too get
// the simulator's time.  A simulator in threaded mode runs in real time; its
// times are moved onto the host's clock.  The mode is read when the backend is
// opened; a later reset to another mode is not noticed.
//
// Threads: any.  Lives until the process ends.
class Clock {
 public:
  Clock(const devrt_next_v0* next, const devrt_host_v0* host);

  bool is_virtual() const { return is_virtual_; }
  uint64_t Now() { return is_virtual_ ? VirtualNow() : NowNs(); }

  // Compares the simulator's clock with the host's.  Call it before OfSimulator
  // converts times of devrt.sim/1.
  void Align();
  uint64_t OfSimulator(uint64_t ns) const {
    return base_.load(std::memory_order_relaxed) + ns;
  }

 private:
  // Returns false if the simulator returned an error.
  bool Ask(uint64_t* now) const;
  uint64_t VirtualNow();

  const devrt_host_v0* const host_;
  const devrt_sim_v1* sim_ = nullptr;
  void* self_ = nullptr;
  bool is_virtual_ = false;
  // Added to the simulator's times, whose clock starts at zero after a reset.
  std::atomic<uint64_t> base_{0};
  std::atomic<uint64_t> latest_{0};  // the latest time that Now returned
  std::atomic<uint32_t> resets_{0};
  std::mutex reset_mutex_;
};

}  // namespace devrt::trace

#endif  // DEVRT_LAYERS_TRACE_CLOCK_H_
