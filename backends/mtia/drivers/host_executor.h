// SPDX-License-Identifier: Apache-2.0
//
// Threads on which host functions run in virtual mode.  The virtual driver
// waits for each function.  One that runs too long is left behind, and the next
// function gets another thread.

#ifndef DEVRT_BACKENDS_MTIA_DRIVERS_HOST_EXECUTOR_H_
#define DEVRT_BACKENDS_MTIA_DRIVERS_HOST_EXECUTOR_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>

#include "backends/mtia/engine/op.h"
#include "backends/mtia/system/helper_thread.h"

namespace devrt::mtia {

// Owns the threads, and the list of functions that were left behind and have
// returned.
//
// Threads: Run and Finished are called inside the machine, the others from any
// thread.
class HostExecutor {
 public:
  // Calls the host function of `op` with no error.  Returns true if the
  // function has returned.  Returns false if it still runs after `patience`, or
  // if `is_stuck`, which is asked from time to time, says that it cannot
  // return; Finished returns `op` later.
  bool Run(Op* op, std::chrono::nanoseconds patience,
           const std::function<bool()>& is_stuck);

  // A function that was left behind and has returned since, or nullptr.
  Op* Finished();
  // True if Finished returns an operation.  Costs one load.
  bool any_finished() const {
    return finished_count_.load(std::memory_order_acquire) != 0;
  }

  // For calls from a host function while the driver waits for it: the calling
  // thread is inside the machine in the driver's place until Return.  Returns
  // false on any other thread.
  static bool Borrow();
  static void Return();
  // The host function that the calling thread runs, or nullptr.
  static const Op* Current() {
    return t_worker != nullptr ? t_worker->op : nullptr;
  }

 private:
  struct Worker {
    std::mutex mutex;
    std::condition_variable to_worker;
    std::condition_variable to_pump;
    Op* op = nullptr;           // to run
    bool is_abandoned = false;  // the driver no longer waits for `op`
    bool idle = true;
    HostExecutor* owner = nullptr;
    Helper* helper = nullptr;
  };
  static thread_local Worker* t_worker;

  Worker* IdleWorker();  // nullptr: the system refuses a thread
  static void Main(Worker* worker);

  std::deque<Worker> workers_;
  std::atomic<uint32_t> finished_count_{0};
  std::mutex finished_mutex_;
  std::vector<Op*> finished_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_DRIVERS_HOST_EXECUTOR_H_
