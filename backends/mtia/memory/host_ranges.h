// SPDX-License-Identifier: Apache-2.0
//
// Host memory that the program has registered.  Ranges do not overlap.
// Thread-safe.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_HOST_RANGES_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_HOST_RANGES_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <shared_mutex>
#include <string>

#include "backends/mtia/common/call_site.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

struct HostRange {
  uintptr_t begin = 0;
  uint64_t size = 0;
  uint64_t id = 0;
  uint32_t device = 0;
  CallSite site;
};

class HostRanges {
 public:
  // Adds [begin, begin + size).  The caller has checked that it is not empty,
  // does not wrap, and is no memory of the simulator.
  devrt_status Add(uint32_t device, uintptr_t begin, uint64_t size,
                   const devrt_call_site_v0& site);
  devrt_status Remove(uintptr_t begin);
  // Finds the range that holds the byte at `address`.  Sets the numbers of
  // `*range` and leaves its call site empty.
  bool Find(uintptr_t address, HostRange* range) const;
  void Clear();
  uint64_t size() const { return count_.load(std::memory_order_acquire); }

 private:
  using Ranges = std::map<uintptr_t, HostRange>;

  Ranges::const_iterator Holding(uintptr_t address) const;

  mutable std::shared_mutex mutex_;
  Ranges ranges_;
  std::atomic<uint64_t> count_{0};
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_HOST_RANGES_H_
