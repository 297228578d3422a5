// SPDX-License-Identifier: Apache-2.0
//
// EpochClock: the time of one stream, and the time up to which its work is
// known to be complete.
//
// The time is an epoch, a number.  It grows before each look at the stream: a
// look is a native record, query or wait that may see the end of the work.
//
//   after an enqueue         const uint64_t use = clock.Now();
//   a look                   const uint64_t look = clock.BeginLook();
//                            ... the native record, query or wait ...
//   the look saw the end     clock.Complete(look);
//   later, on any thread     clock.IsComplete(use)
//
// A look that began at epoch e covers every use whose Now() was at most e: the
// use was enqueued before it read the epoch, and the look raised the epoch
// before it called the driver, which orders the two calls (R4).
//
// Cost: nothing for a submission, one load for a use that must be remembered,
// one locked addition for a look.
//
// Threads: any.  The members are atomics; there is no lock.

#ifndef DEVRT_STREAMS_TIMELINES_EPOCH_CLOCK_H_
#define DEVRT_STREAMS_TIMELINES_EPOCH_CLOCK_H_

#include <atomic>
#include <cstdint>

namespace devrt::internal {

class EpochClock {
 public:
  // Called after an enqueue.  Returns the epoch that the work belongs to.
  uint64_t Now() const { return epoch_.load(std::memory_order_acquire); }
  // Begins a look.  Called before the native record, query or wait.
  uint64_t BeginLook() { return epoch_.fetch_add(1); }
  // Notes that the look that began at `epoch` saw the end of the work.  A
  // thread for which IsComplete then returns true sees everything that this
  // thread has seen.
  void Complete(uint64_t epoch) {
    uint64_t seen = completed_.load(std::memory_order_relaxed);
    while (seen < epoch && !completed_.compare_exchange_weak(
                               seen, epoch, std::memory_order_release,
                               std::memory_order_relaxed)) {
    }
  }
  bool IsComplete(uint64_t epoch) const {
    return completed_.load(std::memory_order_acquire) >= epoch;
  }
  // The newest epoch that is complete; for comparisons on one thread.
  uint64_t completed() const {
    return completed_.load(std::memory_order_relaxed);
  }

  // Returns true if `epoch` belongs to the native stream that the clock serves
  // now.  Epochs of former native streams are complete.
  bool IsOfPresentStream(uint64_t epoch) const {
    return epoch >= since_.load(std::memory_order_acquire);
  }

 protected:
  // Begins the epochs of a new native stream, behind all earlier ones.
  void BeginStream() {
    since_.store(epoch_.fetch_add(1) + 1, std::memory_order_release);
  }

 private:
  std::atomic<uint64_t> epoch_{1};
  std::atomic<uint64_t> completed_{0};
  std::atomic<uint64_t> since_{0};  // first epoch of the present native stream
};

}  // namespace devrt::internal

#endif  // DEVRT_STREAMS_TIMELINES_EPOCH_CLOCK_H_
