// SPDX-License-Identifier: Apache-2.0
//
// The live handles of a fake driver.

#ifndef DEVRT_TESTS_FAKES_COMMON_REGISTRY_H_
#define DEVRT_TESTS_FAKES_COMMON_REGISTRY_H_

#include <mutex>
#include <unordered_set>

#include "tests/fakes/common/options.h"

namespace devrt::fake {

template <typename T>
class Registry {
 public:
  void Add(T* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    live_.insert(handle);
  }
  bool Has(T* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return live_.count(handle) != 0;
  }
  bool Remove(T* handle) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return live_.erase(handle) != 0;
  }
  // Ends the process: the driver would have crashed, or worse.
  void Check(T* handle, const char* call, const char* what) {
    if (!Has(handle)) {
      Die("%s: %p is no live %s; the driver would crash", call,
          static_cast<void*>(handle), what);
    }
  }

 private:
  std::mutex mutex_;
  std::unordered_set<T*> live_;
};

}  // namespace devrt::fake

#endif  // DEVRT_TESTS_FAKES_COMMON_REGISTRY_H_
