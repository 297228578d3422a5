// SPDX-License-Identifier: Apache-2.0
//
// GraphUse: whether an allocator serves the graphs of another library
// (graph_pool.h), and which captures keep it for their graphs.
//
// Lock: `mutex_` for the captures; only the lock of captures.h is taken under
// it.

#ifndef DEVRT_MEMORY_DEVICE_GRAPH_USE_H_
#define DEVRT_MEMORY_DEVICE_GRAPH_USE_H_

#include <atomic>
#include <vector>

#include "devrt/runtime/mutex.h"
#include "streams/captures/captures.h"

namespace devrt::internal {

class GraphUse {
 public:
  GraphUse() = default;
  GraphUse(const GraphUse&) = delete;
  GraphUse& operator=(const GraphUse&) = delete;

  // Makes the allocator serve graphs, up to End.  Returns false if it serves
  // graphs already.
  bool Begin() {
    was_begun_.store(true);
    bool expected = false;
    return active_.compare_exchange_strong(expected, true);
  }
  void End() DEVRT_EXCLUDES(mutex_);
  // True if the allocator has ever served graphs.
  bool was_begun() const { return was_begun_.load(); }
  bool active() const { return active_.load(std::memory_order_acquire); }
  // active(), for a reader that asks later under a lock.
  const std::atomic<bool>* active_flag() const { return &active_; }

  // Makes `capture`, which asked the allocator for memory, keep the allocator.
  // Returns false if the capture keeps it already.
  bool AddCapture(CaptureNumber capture) DEVRT_EXCLUDES(mutex_);
  bool HasCapture(CaptureNumber capture) DEVRT_EXCLUDES(mutex_);

 private:
  std::atomic<bool> was_begun_{false};
  std::atomic<bool> active_{false};
  Mutex mutex_;
  std::vector<CaptureNumber> captures_ DEVRT_GUARDED_BY(mutex_);
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_GRAPH_USE_H_
