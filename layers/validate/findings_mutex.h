// SPDX-License-Identifier: Apache-2.0
//
// FindingsMutex: a mutex that logs texts once it is unlocked.
//
// A program's log sink may lock a mutex of the program, and so may a thread
// that calls devrt.  So no lock is held while the sink runs.
//
// It is mostly held for about 50 ns, and each call of a program takes it.  So
// it is one atomic exchange: std::mutex needs two of them, and calls of libc.
// A thread that finds it locked spins for a moment, and then sleeps until the
// next try.
//
// Threads: any.

#ifndef DEVRT_LAYERS_VALIDATE_FINDINGS_MUTEX_H_
#define DEVRT_LAYERS_VALIDATE_FINDINGS_MUTEX_H_

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <functional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"

namespace devrt::race {

class FindingsMutex {
 public:
  using Log = std::function<void(const std::string& text)>;

  explicit FindingsMutex(Log log) : log_(std::move(log)) {}

  // For std::lock_guard and std::unique_lock.
  void lock() {
    if (ABSL_PREDICT_FALSE(!try_lock())) Wait();
  }
  bool try_lock() {
    return !is_locked_.exchange(true, std::memory_order_acquire);
  }
  void unlock() {
    if (ABSL_PREDICT_FALSE(!texts_.empty())) return UnlockAndLog();
    is_locked_.store(false, std::memory_order_release);
  }

  // The caller has the lock.
  void LogLater(const std::string& text) { texts_.push_back(text); }

 private:
  ABSL_ATTRIBUTE_NOINLINE void Wait() {
    constexpr int kSpins = 200;
    constexpr std::chrono::microseconds kSleep(20);
    // A sleep would end a cancelled thread in the middle of a call.
    int cancelling = 0;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &cancelling);
    int spins = 0;
    do {
      while (is_locked_.load(std::memory_order_relaxed)) {
        // The other thread may need this processor, or writes a finding.
        if (spins < kSpins) {
          ++spins;
        } else {
          std::this_thread::sleep_for(kSleep);
        }
      }
    } while (!try_lock());
    pthread_setcancelstate(cancelling, &cancelling);
  }
  // Not inline: most calls make no finding.
  ABSL_ATTRIBUTE_NOINLINE void UnlockAndLog() {
    const std::vector<std::string> texts = std::exchange(texts_, {});
    is_locked_.store(false, std::memory_order_release);
    for (const std::string& text : texts) log_(text);
  }

  std::atomic<bool> is_locked_{false};
  const Log log_;
  std::vector<std::string> texts_;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_FINDINGS_MUTEX_H_
