// SPDX-License-Identifier: Apache-2.0
//
// RelaxedThread<Api>: calls that no capture forbids.

#ifndef DEVRT_BACKENDS_GPU_RELAXED_THREAD_H_
#define DEVRT_BACKENDS_GPU_RELAXED_THREAD_H_

#include <cstdint>

#include "devrt/backends/abi/devrt_capture.h"

namespace devrt::gpu {

// In this scope no call of the thread invalidates a capture, whatever the
// capture's mode is (C85).
template <class Api>
class RelaxedThread {
 public:
  explicit RelaxedThread(const Api& api) : api_(api) {
    if constexpr (Api::kHasCaptures) {
      is_changed_ = api_.HasThreadModes() &&
                    api_.ExchangeThreadMode(&mode_) == Api::kSuccess;
    }
  }
  RelaxedThread(const RelaxedThread&) = delete;
  RelaxedThread& operator=(const RelaxedThread&) = delete;
  ~RelaxedThread() {
    if constexpr (Api::kHasCaptures) {
      if (is_changed_) (void)api_.ExchangeThreadMode(&mode_);
    }
  }

 private:
  const Api& api_;
  uint32_t mode_ = DEVRT_CAPTURE_RELAXED;
  bool is_changed_ = false;
};

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_RELAXED_THREAD_H_
