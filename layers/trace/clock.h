// SPDX-License-Identifier: Apache-2.0
//
// The clock that one backend's calls and operations are written down by, so
// that a call and what it set going lie on one time line.

#ifndef DEVRT_LAYERS_TRACE_CLOCK_H_
#define DEVRT_LAYERS_TRACE_CLOCK_H_

#include <atomic>
#include <cstdint>
#include <mutex>

#include "devrt/backends/abi/devrt_layer.h"
#include "devrt/backends/abi/devrt_sim.h"

namespace devrt::trace {

uint64_t NowNs();  // CLOCK_MONOTONIC

// The host's monotonic clock.  Only a simulator with virtual time has a clock
// of its own: an operation of a virtual second takes the host no time, so calls
// are timed by the simulator there.  A simulator in threaded mode runs in real
// time; its times are moved onto the host's clock.  The mode is that in which
// the backend was opened: a reset into the other one is not followed.
//
// Threads: any.  Lives as long as the process.
class Clock {
 public:
  Clock(const devrt_next_v0* next, const devrt_host_v0* host);

  bool is_virtual() const { return is_virtual_; }
  uint64_t Now() { return is_virtual_ ? VirtualNow() : NowNs(); }

  // What follows is for times that devrt.sim/1 told: compares the two clocks,
  // once before some of them are converted.
  void Align();
  uint64_t OfSimulator(uint64_t ns) const {
    return base_.load(std::memory_order_relaxed) + ns;
  }

 private:
  // False: the simulator did not answer.
  bool Ask(uint64_t* now) const;
  uint64_t VirtualNow();

  const devrt_host_v0* const host_;
  const devrt_sim_v1* sim_ = nullptr;
  void* self_ = nullptr;
  bool is_virtual_ = false;
  // What a time of the simulator is moved by.  A reset sets its clock to zero.
  std::atomic<uint64_t> base_{0};
  std::atomic<uint64_t> latest_{0};  // time told
  std::atomic<uint32_t> resets_{0};
  std::mutex reset_mutex_;
};

}  // namespace devrt::trace

#endif  // DEVRT_LAYERS_TRACE_CLOCK_H_
