// SPDX-License-Identifier: Apache-2.0
//
// PinnedAllocator: the cached pinned memory of one backend.
//
// Blocks are never cut or joined.  A block is in one of: live, pending
// (PendingFrees), free (a list of its class, last in first out; above
// pinned_class_limit an ordered set by size).  64 classes by power of two, each
// with a lock and a shard of statistics of its own, so that threads that use
// different sizes do not meet; threads that use one size do, for 10 ns.
//
// Uses have no home stream: every one is a mark.  A copy by devrt marks at its
// submission, with a checkpoint (Timeline); RecordPinnedUse is open until the
// free.  No uses: the block is free at once.
//
// Lookup by address, interior ones too: an ordered map under a shared lock
// would be most of the cost, so PinnedMap is a hash of pages for the base (one
// load chain in the normal case) and the ordered map for the rest.
//
// Peaks: one Ledger-like escrow over the classes (ledger.h, L1 and L2).
//
// Background mode: a thread polls PendingFrees and obtains nothing.  It is
// started at the first allocation, detached from exit: it sleeps on a
// condition with a time limit, takes no lock of another layer, touches no
// static object, and is not joined (C106).  A forked child has none (C105).
//
// Locks: class lock > leaves (PinnedMap, PendingFrees, Timeline).  None is held
// while a backend is called, nor while pages are touched.

#ifndef DEVRT_MEMORY_INTERNAL_PINNED_ALLOCATOR_H_
#define DEVRT_MEMORY_INTERNAL_PINNED_ALLOCATOR_H_

#include <cstddef>
#include <cstdint>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/memory/internal/block.h"
#include "devrt/memory/internal/pending_frees.h"
#include "devrt/memory/statistics.h"
#include "devrt/runtime/internal/records.h"
#include "devrt/streams/stream.h"

namespace devrt::internal {

// How a block was obtained, and so how it is released, for its whole life (F9).
enum class PinnedOrigin : uint8_t { kHostAlloc, kRegistered };

// Made once for each native block, freed with it.
struct PinnedBlock {
  void* base = nullptr;
  uint64_t size = 0;  // of the class, or pages
  uint64_t requested = 0;
  DeviceRecord* device = nullptr;  // attributed to
  PinnedOrigin origin = PinnedOrigin::kHostAlloc;
  BlockUse use = BlockUse::kFree;
  PinnedBlock* next = nullptr;  // of its class
  BlockUses uses;
};

// Bytes that a request counts as (3.3): 40960 is 65536.
constexpr uint64_t PinnedSize(uint64_t bytes, uint64_t class_limit,
                              uint64_t page) {
  if (bytes > class_limit) return RoundUp(bytes, page);
  uint64_t size = kGranule;
  while (size < bytes) size *= 2;
  return size;
}
static_assert(PinnedSize(40960, kMiB, 4096) == 65536);
static_assert(PinnedSize(81920, kMiB, 4096) == 131072);

class PinnedAllocator {
 public:
  static PinnedAllocator* Of(BackendRecord* backend);

  absl::StatusOr<void*> Allocate(DeviceRecord* device, uint64_t bytes,
                                 CallSite site);
  absl::Status Free(void* pointer, CallSite site);
  absl::Status RecordUse(const void* pointer, StreamRef stream);
  absl::Status EmptyCache();
  PinnedStatistics Statistics();
  void ResetPeak();
  void ResetAccumulated();
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_INTERNAL_PINNED_ALLOCATOR_H_
