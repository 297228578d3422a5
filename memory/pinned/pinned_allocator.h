// SPDX-License-Identifier: Apache-2.0
//
// PinnedAllocator: hands out and takes back the pinned memory of one backend.
//
// Its parts:
//   PinnedClass    the free blocks of one power of two, and their statistics
//   PinnedRecords  the records of blocks
//   PinnedSource   native memory from the backend and back
//   PendingFrees   freed blocks that work still uses
// pinned_uses.h has the uses of blocks and the look-ups by address.
//
// Blocks are not cut or joined.  A block is live, pending (PendingFrees) or
// free.  There are 64 classes, each with its own lock and its own shard of
// statistics.  So threads that use different sizes do not wait for each other;
// threads that use one size do, for about 10 ns.
//
// Blocks have no home stream: every use is noted.  A copy of devrt is noted at
// its submission, with a checkpoint (Timeline); a use by RecordPinnedUse is
// open until the free.  A block without uses is free at once.  A block that was
// in use on a device that is lost stays pending for ever
// (docs/reference/semantics.md 2.5).
//
// A request gets a block of its class; if there is none, pending frees are
// polled; then the backend is asked for a native block.  If the backend has no
// room, cached blocks go back, and then pending frees are waited for (WaitFor
// may give up on some), each time followed by another try.
//
// PinnedMap finds blocks by address (pinned_map.h).  A Ledger counts the
// statistics and their peaks; each class has a shard of it.  Pinned memory has
// no pools for small and large blocks, so all classes count in one row of the
// ledger.
//
// Locks: class lock > leaves (PinnedMap, PendingFrees, Timeline).  No lock is
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
#include "memory/pinned/pinned_class.h"
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

  // The class whose lock guards blocks of `size` bytes.
  PinnedClass& ClassOf(uint64_t size) {
    return classes_[63 - static_cast<size_t>(__builtin_clzll(size))];
  }

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

  explicit PinnedAllocator(BackendRecord* backend);
  static PinnedAllocator* Make(DeviceRecord* device);
  static void Settle(void* block);

  // A cached block for the request, now live; nullptr if there is none.
  PinnedBlock* TakeCached(const Request& r);
  PinnedBlock* TakeFromClass(PinnedClass* c, const Request& r);
  static void HandOut(PinnedBlock* block, const Request& r);
  void Count(PinnedClass* c, const Change& change) DEVRT_EXCLUDES(c->lock);

  absl::StatusOr<PinnedBlock*> Recover(const Request& r);
  absl::StatusOr<PinnedBlock*> AllocateNative(const Request& r);
  absl::Status ReleaseCached();
  absl::Status ReleaseNative(PinnedBlock* block);
  void CloseUses(PinnedBlock* block);
  void AbandonPending();
  enum class Return { kDone, kUses, kNotLive };
  // Makes the block free.  kUses: the block has uses and is kClosing now, or
  // was left as it is if `plain`.
  static Return ReturnToClass(PinnedBlock* block, const void* pointer,
                              CallSite site, bool plain);
  // Called before the first block of a class.  A shard without blocks would get
  // a share of the ledger's spare bytes, and would be asked for loans.
  void AddClassToLedger(PinnedClass* c) DEVRT_EXCLUDES(mutex_);

  BackendRecord* const backend_;
  const uint64_t page_;
  std::array<PinnedClass, 64> classes_;
  Ledger ledger_;
  PinnedRecords records_;
  PinnedSource source_;
  PendingFrees pending_;
  // A race detector, if there is one, is told of blocks.
  void TellHandOut(const Request& r, void* base) const;
  void TellTakeBack(void* base, CallSite called) const;
  ExtensionOf<devrt_race_v0> race_;
  bool background_ = false;  // set before the allocator is published
  Mutex mutex_;              // guards PinnedClass::is_counted
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_PINNED_PINNED_ALLOCATOR_H_
