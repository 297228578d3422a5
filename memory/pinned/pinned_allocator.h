// SPDX-License-Identifier: Apache-2.0
//
// PinnedAllocator: the cached pinned memory of one backend.
//
// Blocks are never cut or joined.  A block is in one of: live, pending
// (PendingFrees), free (of a power of two: a list of its class, last in first
// out; else an ordered set by size).  64 classes by power of two, each with a
// lock and a shard of statistics of its own, so that threads that use different
// sizes do not meet; threads that use one size do, for 10 ns.
//
// Uses have no home stream: every one is a mark.  A copy by devrt marks at its
// submission, with a checkpoint (Timeline); RecordPinnedUse is open until the
// free.  No uses: the block is free at once.  A block whose uses were on a
// device that is lost stays pending for ever (docs/semantics.md 2.5).
//
// A request is served from its class; else what is pending is asked for; else
// by a native block.  Without room: what is cached goes back, then pending
// frees are waited for (those that WaitFor does not give up on), each time
// followed by another try.
//
// Lookup by address, interior ones too: PinnedMap (pinned_map.h).
//
// Peaks: a Ledger over the classes, in one row.
//
// Locks: class lock > leaves (PinnedMap, PendingFrees, Timeline).  None is held
// while a backend is called, nor while pages are touched.

#ifndef DEVRT_MEMORY_PINNED_PINNED_ALLOCATOR_H_
#define DEVRT_MEMORY_PINNED_PINNED_ALLOCATOR_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "absl/container/btree_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "devrt/memory/settings.h"
#include "devrt/memory/statistics.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/stream.h"
#include "memory/common/ledger.h"
#include "memory/common/pending_frees.h"
#include "memory/common/spin_lock.h"
#include "memory/device/block.h"
#include "memory/pinned/pinned_block.h"
#include "runtime/internal/allocation_table.h"
#include "runtime/internal/records.h"
#include "streams/internal/timeline.h"

namespace devrt::internal {

class PinnedAllocator {
 public:
  // The backend's; made at the first use, never freed.
  static PinnedAllocator* Of(DeviceRecord* device) {
    PinnedAllocator* a = device->pinned.load(std::memory_order_acquire);
    return ABSL_PREDICT_TRUE(a != nullptr) ? a : Make(device);
  }
  // nullptr: none was ever used.
  static PinnedAllocator* Existing(const BackendRecord* backend);

  // `bytes` is > 0 and < 2^60.
  absl::StatusOr<void*> Allocate(DeviceRecord* device, uint64_t bytes,
                                 CallSite site);
  // The block that begins at `pointer`.
  static absl::Status Free(void* pointer, CallSite site);
  // See FreePinnedPlainly.
  static bool FreePlainly(void* pointer, CallSite site);
  static absl::Status RecordUse(const void* pointer, StreamRef stream);
  absl::Status EmptyCache();

  PinnedStatistics Statistics();
  void ResetPeak() { ledger_.ResetPeak(); }
  void ResetAccumulated();

  // For the background's thread.
  void Poll() { pending_.Poll(SIZE_MAX); }
  bool HasPending() const { return !pending_.empty(); }

  // ---- For the hooks (hooks.h) ----

  static std::optional<AllocationRange> FindLive(const void* pointer);
  static std::optional<AllocationRange> FindFreed(const void* pointer);
  // By an operation of devrt's, which was submitted.
  static void NoteUse(const void* pointer, StreamRef stream);
  // See AddKnownUses.
  static bool AddPoints(const void* pointer, absl::Span<const StreamUse> uses);
  // Blocks of `device` that the program holds.
  int64_t CountLive(const DeviceRecord* device);
  // The device's native objects are going: gives back what is cached.
  void Release(DeviceRecord* device);

 private:
  // Free blocks of one power of two and up to the next, and what is counted.
  struct alignas(64) Class {
    SpinLock lock;
    PinnedBlock* exact DEVRT_GUARDED_BY(lock) = nullptr;
    absl::btree_multimap<uint64_t, PinnedBlock*> others DEVRT_GUARDED_BY(lock);
    LedgerShard shard DEVRT_GUARDED_BY(lock);
    bool is_counted = false;  // in the ledger; belongs to `mutex_`
  };
  struct Request {
    DeviceRecord* device;
    uint64_t bytes;
    uint64_t size;  // PinnedSize
    uint64_t most;  // of a cached block
    CallSite site;
  };

  explicit PinnedAllocator(BackendRecord* backend);
  static PinnedAllocator* Make(DeviceRecord* device);
  static void Settle(void* block);

  Class& ClassOf(uint64_t size) {
    return classes_[63 - static_cast<size_t>(__builtin_clzll(size))];
  }
  // A cached block, counted as active; nullptr if there is none.
  PinnedBlock* Take(const Request& r);
  PinnedBlock* TakeFrom(Class* c, const Request& r);
  PinnedBlock* FindFree(Class* c, const Request& r) DEVRT_REQUIRES(c->lock);
  void Unlink(Class* c, PinnedBlock* block) DEVRT_REQUIRES(c->lock);
  void PutFree(Class* c, PinnedBlock* block) DEVRT_REQUIRES(c->lock);
  static void HandOut(PinnedBlock* block, const Request& r);
  void Count(Class* c, const Change& change) DEVRT_EXCLUDES(c->lock);

  absl::StatusOr<PinnedBlock*> Recover(const Request& r);
  absl::StatusOr<PinnedBlock*> Obtain(const Request& r);
  absl::Status ReleaseCached();
  absl::Status GiveBack(PinnedBlock* block);
  void CloseUses(PinnedBlock* block);
  void ForgetPending();
  enum class Return { kDone, kUses, kNotLive };
  // `plain`: kUses changes nothing, else the block is kClosing.
  static Return GiveFree(PinnedBlock* block, const void* pointer, CallSite site,
                         bool plain);
  absl::Status AddUse(PinnedBlock* block, const void* pointer, StreamRef stream,
                      Timeline* timeline, bool open);
  // Before a class's first block: shards that nobody uses would have their
  // part of what is spare, and be asked for it.
  void UseClass(Class* c) DEVRT_EXCLUDES(mutex_);
  PinnedBlock* NewRecord();
  void DropRecord(PinnedBlock* block);
  void NoteTime(DurationStat* stat, int64_t microseconds);

  BackendRecord* const backend_;
  const uint64_t page_;
  std::array<Class, 64> classes_;
  Ledger ledger_;
  PendingFrees pending_;
  bool background_ = false;  // set before the allocator is published
  Mutex mutex_;
  // Never freed: who looked an address up may still read one.
  std::vector<std::unique_ptr<PinnedBlock>> records_ DEVRT_GUARDED_BY(mutex_);
  std::vector<PinnedBlock*> unused_ DEVRT_GUARDED_BY(mutex_);
  PinnedStatistics times_ DEVRT_GUARDED_BY(mutex_);  // the counters of calls
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_PINNED_PINNED_ALLOCATOR_H_
