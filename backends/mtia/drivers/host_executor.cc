// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/drivers/host_executor.h"

#include <algorithm>

#include "backends/mtia/engine/user_code.h"
#include "backends/mtia/system/helper_thread.h"
#include "backends/mtia/system/thread_watch.h"

namespace devrt::mtia {

thread_local HostExecutor::Worker* HostExecutor::t_worker = nullptr;

HostExecutor::Worker* HostExecutor::IdleWorker() {
  for (Worker& worker : workers_) {
    const std::lock_guard<std::mutex> lock(worker.mutex);
    if (worker.idle) return &worker;
  }
  Worker* const worker = &workers_.emplace_back();
  worker->owner = this;
  worker->helper = StartHelper("mtia-host-func", [worker] { Main(worker); });
  if (worker->helper != nullptr) return worker;
  workers_.pop_back();
  return nullptr;
}

bool HostExecutor::Run(Op* op, std::chrono::nanoseconds patience,
                       const std::function<bool()>& is_stuck) {
  const NoCancel no_cancel;
  Worker* const worker = IdleWorker();
  if (worker == nullptr) {  // no thread to be had: it may as well run here
    const UserCodeScope scope("a host function");
    op->host_func(op->arg, nullptr);
    return true;
  }
  std::unique_lock<std::mutex> lock(worker->mutex);
  worker->op = op;
  worker->idle = false;
  worker->is_abandoned = false;
  worker->helper->idle = false;
  worker->to_worker.notify_one();
  // The lock is free between two questions.  So a function that waits for it,
  // in Borrow, runs in between, and does not look stuck twice.
  const auto end = RealClock::now() + patience;
  auto pause = ThreadWatch::kSecondLook;
  for (;;) {
    const auto next =
        std::min<RealClock::time_point>(end, RealClock::now() + pause);
    if (worker->to_pump.wait_until(
            lock, next, [worker] { return worker->op == nullptr; })) {
      worker->idle = true;
      return true;
    }
    if (next == end || is_stuck()) break;
    pause *= 2;
  }
  worker->is_abandoned = true;
  return false;
}

void HostExecutor::Main(Worker* worker) {
  t_worker = worker;
  std::unique_lock<std::mutex> lock(worker->mutex);
  for (;;) {
    worker->to_worker.wait(lock, [worker] { return worker->op != nullptr; });
    Op* const op = worker->op;
    lock.unlock();
    {
      const UserCodeScope scope("a host function");
      op->host_func(op->arg, nullptr);
    }
    lock.lock();
    worker->op = nullptr;
    if (!worker->is_abandoned) {
      worker->helper->idle = true;
      worker->to_pump.notify_one();
      continue;
    }
    HostExecutor* const owner = worker->owner;
    const std::lock_guard<std::mutex> finished_lock(owner->finished_mutex_);
    owner->finished_.push_back(op);
    owner->finished_count_.fetch_add(1, std::memory_order_release);
    worker->idle = true;
    worker->helper->idle = true;
  }
}

Op* HostExecutor::Finished() {
  if (!any_finished()) return nullptr;
  const std::lock_guard<std::mutex> lock(finished_mutex_);
  if (finished_.empty()) return nullptr;
  Op* const op = finished_.front();
  finished_.erase(finished_.begin());
  finished_count_.fetch_sub(1);
  return op;
}

bool HostExecutor::Borrow() {
  Worker* const worker = t_worker;
  if (worker == nullptr) return false;
  worker->mutex.lock();
  // The driver waits, so this thread may be inside in its place.
  if (!worker->is_abandoned) return true;
  worker->mutex.unlock();
  return false;
}

void HostExecutor::Return() { t_worker->mutex.unlock(); }

}  // namespace devrt::mtia
