// SPDX-License-Identifier: Apache-2.0
//
// A layer from the C++ helper: counts calls.
#include <atomic>
#include <cstdlib>
#include <string>

#include "devrt/backends/abi/devrt_layer_helper.h"

namespace {

// Says in the environment how many calls it saw, for the test to look; a layer
// that is more than a test must not touch the environment.
class Counter {
 public:
  explicit Counter(const devrt_next_v0* next)
      : variable_(std::string("LAYER_COUNTER_") + next->manifest->backend) {}

  template <typename Call, typename... Args>
  devrt_status On(Call call, Args... args) {
    const uint64_t count = ++count_;
    if constexpr (Call::kId == devrt::layer::CallId::mem_info) {
      setenv(variable_.c_str(), std::to_string(count).c_str(), 1);
    }
    return call(args...);
  }

 private:
  std::atomic<uint64_t> count_{0};
  const std::string variable_;
};

}  // namespace

DEVRT_LAYER(Counter, "counter", "devrt tests", "1.0");
