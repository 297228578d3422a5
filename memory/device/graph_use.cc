// SPDX-License-Identifier: Apache-2.0

#include "memory/device/graph_use.h"

#include <algorithm>

namespace devrt::internal {

void GraphUse::End() {
  {
    MutexLock lock(&mutex_);
    captures_.clear();
  }
  active_.store(false, std::memory_order_release);
}

bool GraphUse::AddCapture(CaptureNumber capture) {
  MutexLock lock(&mutex_);
  if (std::find(captures_.begin(), captures_.end(), capture) !=
      captures_.end()) {
    return false;
  }
  captures_.erase(std::remove_if(captures_.begin(), captures_.end(), &IsOver),
                  captures_.end());
  captures_.push_back(capture);
  return true;
}

bool GraphUse::HasCapture(CaptureNumber capture) {
  MutexLock lock(&mutex_);
  return std::find(captures_.begin(), captures_.end(), capture) !=
         captures_.end();
}

}  // namespace devrt::internal
