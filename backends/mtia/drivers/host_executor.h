// SPDX-License-Identifier: Apache-2.0
//
// Threads on which host functions run in virtual mode.  The pump waits for
// each; one that stays away too long is left behind, and the next host
// function gets another thread.

#ifndef DEVRT_BACKENDS_MTIA_DRIVERS_HOST_EXECUTOR_H_
#define DEVRT_BACKENDS_MTIA_DRIVERS_HOST_EXECUTOR_H_

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <mutex>

#include "backends/mtia/engine/op.h"
#include "backends/mtia/threads/helper_thread.h"

namespace devrt::mtia {

class HostExecutor {
 public:
  // Runs the host function of `op`, without an error.  True: it has returned.
  // False: it is still running after `patience`; op is then in Finished()
  // later.
  bool Run(Op* op, std::chrono::nanoseconds patience);

  // Functions left behind that have returned since; nullptr if none.
  Op* Finished();
  // Whether Finished() has something: one load.
  bool any_finished() const {
    return finished_count_.load(std::memory_order_acquire) != 0;
  }

  // On a thread of an executor whose pump waits: the pump's place inside, until
  // Return.  False elsewhere.
  static bool Borrow();
  static void Return();

 private:
  struct Worker {
    std::mutex mutex;
    std::condition_variable to_worker;
    std::condition_variable to_pump;
    Op* op = nullptr;   // to run
    bool left = false;  // the pump no longer waits for `op`
    bool idle = true;
    HostExecutor* owner = nullptr;
    Helper* helper = nullptr;
  };
  static thread_local Worker* t_worker;

  Worker* IdleWorker();  // nullptr: the system has no thread for us
  static void Main(Worker* worker);

  std::deque<Worker> workers_;
  std::atomic<uint32_t> finished_count_{0};
  std::mutex finished_mutex_;
  std::vector<Op*> finished_;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_DRIVERS_HOST_EXECUTOR_H_
