// SPDX-License-Identifier: Apache-2.0
//
// FindingsMutex: a mutex that logs texts once it is unlocked.
//
// A program's log sink may lock a mutex of the program, and so may a thread
// that calls devrt.  So no lock is held while the sink runs.
//
// Threads: any.

#ifndef DEVRT_LAYERS_VALIDATE_FINDINGS_MUTEX_H_
#define DEVRT_LAYERS_VALIDATE_FINDINGS_MUTEX_H_

#include <functional>
#include <mutex>
#include <string>
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
  void lock() { mutex_.lock(); }
  bool try_lock() { return mutex_.try_lock(); }
  void unlock() {
    if (ABSL_PREDICT_FALSE(!texts_.empty())) return UnlockAndLog();
    mutex_.unlock();
  }

  // The caller has the lock.
  void LogLater(const std::string& text) { texts_.push_back(text); }

 private:
  // Not inline: most calls make no finding.
  ABSL_ATTRIBUTE_NOINLINE void UnlockAndLog() {
    const std::vector<std::string> texts = std::exchange(texts_, {});
    mutex_.unlock();
    for (const std::string& text : texts) log_(text);
  }

  std::mutex mutex_;
  const Log log_;
  std::vector<std::string> texts_;
};

}  // namespace devrt::race

#endif  // DEVRT_LAYERS_VALIDATE_FINDINGS_MUTEX_H_
