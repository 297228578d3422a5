// SPDX-License-Identifier: Apache-2.0
//
// PinnedSource: gets native pinned memory from a backend and gives it back, and
// measures how long that takes.
//
// Lock: `mutex_`, a leaf; not held while the backend is called.

#ifndef DEVRT_MEMORY_PINNED_PINNED_SOURCE_H_
#define DEVRT_MEMORY_PINNED_PINNED_SOURCE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/memory/memory_statistics.h"
#include "devrt/runtime/call_site.h"
#include "devrt/runtime/mutex.h"
#include "memory/pinned/pinned_block.h"
#include "runtime/registry/records.h"

namespace devrt::internal {

class PinnedSource {
 public:
  struct Native {
    void* base;
    PinnedOrigin origin;
  };
  // `size` is a result of PinnedSize.
  absl::StatusOr<Native> Allocate(DeviceRecord* device, uint64_t size,
                                  CallSite site) DEVRT_EXCLUDES(mutex_);
  // On a lost device the driver is not called, and pages that a transfer may
  // still access stay (docs/reference/semantics.md 2.5).  `freed`: where the
  // program freed the block, for layers.
  absl::Status Free(DeviceRecord* device, uint64_t size, const Native& native,
                    CallSite freed) DEVRT_EXCLUDES(mutex_);

  // Only the members about calls of the backend are set.
  PinnedStatistics Times() const DEVRT_EXCLUDES(mutex_);
  void ResetTimes() DEVRT_EXCLUDES(mutex_);

 private:
  mutable Mutex mutex_;
  PinnedStatistics times_ DEVRT_GUARDED_BY(mutex_);
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_PINNED_PINNED_SOURCE_H_
