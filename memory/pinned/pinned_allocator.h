// SPDX-License-Identifier: Apache-2.0
//
// PinnedAllocator: hands out and takes back the pinned memory of one backend.
//
// Its parts:
//   PinnedPool     the blocks of some threads, and their statistics
//   PinnedRecords  the records of blocks
//   PinnedSource   native memory from the backend and back
//   PendingFrees   freed blocks that work still uses
// pinned_uses.h has the uses of blocks and the look-ups by address.
//
// Blocks are not cut or joined.  A block is live, pending (PendingFrees) or
// free.  As a stream has a pool of device memory, a thread has a pool of pinned
// memory, with its own lock and its own shard of statistics: threads wait for
// each other only if they free each other's blocks, or if there are more than
// kPools of them (decision 41).
//
// Blocks have no home stream: every use is noted.  A copy of devrt is noted at
// its submission, with a checkpoint (Timeline); a use by RecordPinnedUse is
// open until the free.  A block without uses is free at once.  A block that was
// in use on a device that is lost stays pending for ever
// (docs/reference/semantics.md 2.5).
//
// A request gets a block of its thread's pool.  If none fits, one of another
// pool moves there; then pending frees are polled; then the backend is asked
// for a native block.  If the backend has no room, cached blocks go back, and
// then pending frees are waited for (WaitFor may give up on some), each time
// followed by another try.
//
// PinnedMap finds blocks by address (pinned_map.h).  A Ledger counts the
// statistics and their peaks; each pool has a shard of it.  Pinned memory has
// no parts for small and large blocks, so all pools count in one row of the
// ledger.  Native blocks are its segments.
//
// Locks: pool lock > leaves (PinnedMap, PendingFrees, Timeline).  No lock is
// held while a backend is called or pages are touched.

#ifndef DEVRT_MEMORY_PINNED_PINNED_ALLOCATOR_H_
#define DEVRT_MEMORY_PINNED_PINNED_ALLOCATOR_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_race.h"
#include "devrt/memory/memory_statistics.h"
#include "devrt/runtime/mutex.h"
#include "memory/common/ledger.h"
#include "memory/device/pending_frees.h"
#include "memory/pinned/pinned_block.h"
#include "memory/pinned/pinned_pool.h"
#include "memory/pinned/pinned_records.h"
#include "memory/pinned/pinned_source.h"
#include "runtime/registry/records.h"
#include "streams/common/extension.h"

namespace devrt::internal {

class PinnedAllocator {
 public:
  // The allocator of the backend; made at the first use, never destroyed.
  static PinnedAllocator* Of(DeviceRecord* device) {
    PinnedAllocator* a = device->pinned.load(std::memory_order_acquire);
    return ABSL_PREDICT_TRUE(a != nullptr) ? a : Make(device);
  }
  // nullptr if the backend's allocator was never used.
  static PinnedAllocator* Existing(const BackendRecord* backend);

  // `bytes` is > 0 and < 2^60.
  absl::StatusOr<void*> Allocate(DeviceRecord* device, uint64_t bytes,
                                 CallSite site);
  // Frees the block that begins at `pointer`.
  static absl::Status Free(void* pointer, CallSite site);
  // See FreePinnedPlainly.
  static bool FreePlainly(void* pointer, CallSite site);
  absl::Status EmptyCache();

  PinnedStatistics Statistics();
  void ResetPeak() { ledger_.ResetPeak(); }
  void ResetAccumulated();

  // For the background thread.
  void Poll() { pending_.Poll(SIZE_MAX); }
  bool HasPending() const { return !pending_.empty(); }

  // Live blocks of `device`.
  int64_t CountLive(const DeviceRecord* device);
  // Called when the device's native objects end: gives cached blocks back.
  void Release(DeviceRecord* device);

 private:
  struct Request {
    DeviceRecord* device;
    uint64_t bytes;
    uint64_t size;  // PinnedSize
    uint64_t most;  // size of a cached block that may serve the request
    CallSite site;
  };

  // Threads beyond these share pools.
  static constexpr uint32_t kPools = 64;

  explicit PinnedAllocator(BackendRecord* backend);
  static PinnedAllocator* Make(DeviceRecord* device);
  static void Settle(void* block);

  // The pool of the calling thread.
  PinnedPool* PoolOfThread() DEVRT_EXCLUDES(mutex_);
  PinnedPool* MakePool(uint32_t place) DEVRT_EXCLUDES(mutex_);

  // A free block of the pool for the request, now live; nullptr if there is
  // none.
  PinnedBlock* TakeFromPool(PinnedPool* pool, const Request& r)
      DEVRT_EXCLUDES(pool->lock);
  // Moves a free block of another pool to `pool`.  `room` says that the backend
  // may have memory left: pools may then keep their last small block of a size
  // (PoolKeeper).
  PinnedBlock* TakeFromOthers(PinnedPool* pool, const Request& r, bool room)
      DEVRT_EXCLUDES(pool->lock);
  PinnedBlock* TakeCached(PinnedPool* pool, const Request& r, bool room);
  // Makes a block of the pool live; it is in no list afterwards.
  void HandOut(PinnedPool* pool, PinnedBlock* block, const Request& r)
      DEVRT_REQUIRES(pool->lock);
  void CountFree(PinnedPool* pool, const PinnedBlock* block)
      DEVRT_REQUIRES(pool->lock);
  // Makes a block of the pool free.
  void TakeBack(PinnedPool* pool, PinnedBlock* block)
      DEVRT_REQUIRES(pool->lock);
  // Ends the record of a block that is in no list and in no map.
  void Forget(PinnedBlock* block);

  absl::StatusOr<PinnedBlock*> Recover(PinnedPool* pool, const Request& r);
  absl::StatusOr<PinnedBlock*> AllocateNative(PinnedPool* pool,
                                              const Request& r);
  absl::Status ReleaseCached();
  absl::Status ReleaseNative(PinnedBlock* block);
  void CloseUses(PinnedBlock* block);
  void AbandonPending();
  enum class Return { kDone, kUses, kNotLive };
  // Makes the block free.  kUses: the block has uses and is kClosing now, or
  // was left as it is if `plain`.
  static Return ReturnToPool(PinnedBlock* block, const void* pointer,
                             CallSite site, bool plain);
  // A race detector, if there is one, is told of blocks.
  void TellHandOut(const Request& r, void* base) const;
  void TellTakeBack(void* base, CallSite called) const;

  // Each call reads these, and nobody writes to them.
  BackendRecord* const backend_;
  const uint64_t page_;
  ExtensionOf<devrt_race_v0> race_;
  bool background_ = false;  // set before the allocator is published
  std::array<std::atomic<PinnedPool*>, kPools> pools_ = {};

  Ledger ledger_;
  PinnedRecords records_;
  PinnedSource source_;
  PendingFrees pending_;
  Mutex mutex_;  // taken to make a pool; before the locks of the ledger
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_PINNED_PINNED_ALLOCATOR_H_
