// SPDX-License-Identifier: Apache-2.0
//
// Recovery: finds memory for one request that the stream's pool cannot serve,
// in the order of docs/reference/semantics.md 2.6.  "Search" means: the
// stream's pool, then blocks of other pools that are known to be released
// before what the stream does next (PoolSearch); small blocks are borrowed only
// behind step 4.
//
//    1  settle pending frees whose uses are over             queries
//    2  search
//    3  run out-of-memory callbacks; if one asks for it: search
//    4  grow: a segment from the driver, within the fraction
//       (or pages of an expandable segment of the stream's pool)
//    5  give back as many cached segments as are needed, by the rules for
//       oversize requests; search; grow                       num_alloc_retries
//    6  wait for the pending frees of the device, but for those whose wait
//       gives up (WaitFor)                                     num_sync_all_...
//    7  search (F7)
//    8  give back all cached segments, waiting for them; grow
//    9  RESOURCE_EXHAUSTED with the report                     num_ooms
//
// A request above the device's memory or its fraction goes to 9 behind 2.
// Garbage is collected before 4.  The steps 1, 5, 6, 8 and the garbage
// collection reach the whole family.  Two threads that recover at once may both
// get a segment.
//
// Other threads may free or move memory to places that 6 to 8 have looked at
// already.  If any did (MemoryInFlight, CountFrees), and what is alive leaves
// room, 6 to 8 are done again, kMostAttempts times at most.
//
// Under a DeferredRecovery::Scope the giving back and waiting of the steps 5, 6
// and 8 is left to the caller, one step each time, and the caller asks again
// after each.  The fourth request does all steps itself.
//
// For a stream that another library captures, nothing is waited for and other
// pools are not searched (RunInCapture).
//
// Threads: an object belongs to its request.  No lock is held while a backend
// or a callback is called.

#ifndef DEVRT_MEMORY_DEVICE_RECOVERY_H_
#define DEVRT_MEMORY_DEVICE_RECOVERY_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/memory/memory_request.h"
#include "memory/device/allocator_family.h"
#include "memory/device/deferred_recovery.h"
#include "memory/device/device_allocator.h"
#include "memory/device/pool_request.h"

namespace devrt::internal {

class Recovery {
 public:
  // All three outlive the object.
  Recovery(DeviceAllocator* allocator, const MemoryRequest& request,
           const PoolRequest& wanted);
  Recovery(const Recovery&) = delete;
  Recovery& operator=(const Recovery&) = delete;

  // The block, or the error of the request.
  absl::StatusOr<void*> Run();
  // For a stream that captures, with an allocator for graphs.
  absl::StatusOr<void*> RunInCapture();

 private:
  static constexpr int kMostAttempts = 32;

  // Each step returns true if `result_` is the answer: a block, or an error
  // other than a lack of room.
  bool Accept(absl::StatusOr<void*> tried);
  bool Search(bool room);
  bool SearchAfterCallbacks();
  bool Grow();
  bool ReleaseAndGrow();
  // Steps 6 to 8, once.  `*gave_up` receives why waits were given up.
  bool WaitAndGrow(absl::Status* gave_up);
  // Steps 6 to 9.
  absl::StatusOr<void*> WaitForRoom();

  absl::StatusOr<void*> GrowBySegment();
  absl::StatusOr<void*> GrowByPages();
  // Makes the pool reserve holes for the request, in a new segment if need be.
  // Returns false if the driver has no addresses, or not enough for the
  // request.
  absl::StatusOr<bool> ReservePages(BlockPool* pool, PageRun* run,
                                    bool* no_addresses);

  // True if the step was left to the caller (DeferredRecovery).
  bool LeaveToCaller();
  absl::Status OutOfMemory(const absl::Status& gave_up);

  DeviceAllocator* const allocator_;
  AllocatorFamily* const family_;
  const MemoryRequest& request_;
  const PoolRequest& wanted_;
  const uint64_t segment_bytes_;  // of a segment for the request
  const uint64_t least_;          // step 5 leaves smaller segments alone
  DeferredRecovery* const deferred_;
  const int round_;  // how many steps were left to the caller so far
  absl::StatusOr<void*> result_;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_RECOVERY_H_
