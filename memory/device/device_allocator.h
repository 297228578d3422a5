// SPDX-License-Identifier: Apache-2.0
//
// DeviceAllocator: the caching allocator of one device: its pools, and all that
// goes beyond one pool.
//
// A request that its pool cannot serve (Recover), in the order of
// docs/semantics.md 2.6, a search meaning: the stream's pool, then blocks of
// other pools, also those whose stream has ended, that are known to be released
// before what the stream does next; small ones only behind 4:
//
//    1  pending frees whose uses are over come back          no lock, queries
//    2  search
//    3  out-of-memory callbacks; if one says so: search
//    4  a segment from the driver, within the fraction       no lock held
//       (expandable segments: pages behind the stream's own)
//    5  cached segments that are wholly free, as many as are needed, by the
//       rules for oversize requests, go back; search; as 4    num_alloc_retries
//    6  wait for the pending frees of the device, but for     num_sync_all_...
//       those that WaitFor gives up on
//    7  search (F7)
//    8  all cached segments go back; as 4
//    9  RESOURCE_EXHAUSTED with the report                    num_ooms
//
// Requests above the device's total or its fraction go to 9 at once.  Each
// thread recovers for itself; two that do at once may both get a segment.
//
// What other threads free or move while 6 to 8 look may be where these have
// looked already: they are done again if any did (Moves, CountFrees) and what
// is alive would leave room, kMostAttempts times at most.
//
// Under a DeferredRecovery::Scope what 5, 6 and 8 give back and wait for is
// left to the caller, who asks again behind each; the fourth time all is as
// above.
//
// Memory goes back to the driver only when what was submitted before its free
// is known to be over: no raw free is relied on to wait (C64).  Step 8 waits.
//
// Garbage collection: before 4, when reserved passes the threshold of what is
// allowed, segments that were not used for longest go back down to it.
//
// Cross-stream search (docs/semantics.md 1.14, without waiting): pools with
// enough free bytes are asked in order of their numbers, kMostPools of them a
// request, beginning behind the last; their timelines are polled before.  A
// pool that had nothing to give gets a checkpoint, so that a later request
// finds out.
//
// The fraction: bytes are added to `reserved_` before the driver is asked and
// taken off when it refuses, so that threads together keep to it.  Private
// allocators count with their device's, and the steps that give back and wait
// (1, 5, 6, 8, garbage collection) reach the whole family; blocks stay apart.
//
// Announcements (devrt.suballocation/0), where the backend listens: no lock is
// held for them, and they are in order all the same.  A block is announced when
// it was taken and before its program has it, and taken back while it is
// kClosing.
//
// Captures (devrt.capture/0): a stream that another library captures is served
// from what its pool has, and otherwise refused; questions for freed blocks are
// asked so that none minds (Timeline::Poll).  An allocator for graphs
// (graph_pool.h) takes memory from the driver for such a stream too, in relaxed
// mode, and gives nothing back while a graph may write to its free blocks.
//
// Quarantine (docs/semantics.md 2.5): frees are bookkeeping, nothing is handed
// out, segments are kept for ever.  Shutdown: cached segments go back in the
// release hook; live blocks stand in its way (C98).  What streams still use
// then, and all of a lost device, is left to the plugin's end, as a simulator's
// reset forgets all.
//
// Locks, in this order; none is held while a backend, a hook or a callback is
// called:
//   DeviceAllocator::mutex_ > Ledger::mutex_ > BlockPool::lock_ (by number) >
//   leaves: PendingFrees::mutex_, AddressMap::mutex_, Timeline::mutex_,
//   HistoryRing::mutex_

#ifndef DEVRT_MEMORY_DEVICE_DEVICE_ALLOCATOR_H_
#define DEVRT_MEMORY_DEVICE_DEVICE_ALLOCATOR_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/base/optimization.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "devrt/backends/abi/devrt_capture.h"
#include "devrt/backends/abi/devrt_suballocation.h"
#include "devrt/backends/abi/devrt_virtual_memory.h"
#include "devrt/memory/device_memory.h"
#include "devrt/memory/memory_resource.h"
#include "devrt/runtime/mutex.h"
#include "devrt/streams/stream.h"
#include "memory/common/ledger.h"
#include "memory/common/pending_frees.h"
#include "memory/device/block_pool.h"
#include "memory/device/moves.h"
#include "runtime/internal/records.h"
#include "streams/internal/captures.h"
#include "streams/internal/device_streams.h"

namespace devrt::internal {

class DeviceAllocator {
 public:
  // The device's; made at the first use, never freed.
  static DeviceAllocator* Of(DeviceRecord* device) {
    DeviceAllocator* a = device->allocator.load(std::memory_order_acquire);
    return ABSL_PREDICT_TRUE(a != nullptr) ? a : Make(device);
  }
  // One apart from the device's, for PrivateCachingResource.  Abandon ends it:
  // its memory goes back to the driver, what is alive with its last block.  One
  // that was ended, and is empty, is used again.
  static DeviceAllocator* MakePrivate(DeviceRecord* device);
  void Abandon();
  // One for graphs, to the call of EndGraphs.  It keeps its cache then, which
  // the next one for graphs begins with, once no block of it is alive.
  static DeviceAllocator* MakeForGraphs(DeviceRecord* device);
  void EndGraphs() DEVRT_EXCLUDES(mutex_);
  bool IsForGraphs() const {
    return for_graphs_.load(std::memory_order_acquire);
  }
  // The captures that have asked one for graphs for memory.  False: it is one
  // of them already.
  bool AddHolder(CaptureNumber capture) DEVRT_EXCLUDES(mutex_);
  bool HasHolder(CaptureNumber capture) DEVRT_EXCLUDES(mutex_);

  DeviceAllocator(const DeviceAllocator&) = delete;
  DeviceAllocator& operator=(const DeviceAllocator&) = delete;

  // `request.bytes` is > 0 and < 2^60.
  absl::StatusOr<void*> Allocate(const MemoryRequest& request);
  // `stream`: nullptr is the stream of the allocation.
  absl::Status Free(Segment* segment, void* pointer, const StreamRef* stream,
                    CallSite site);
  // See FreeMemoryPlainly.
  bool FreePlainly(Segment* segment, void* pointer, CallSite site);
  absl::Status RecordUse(Segment* segment, const void* pointer,
                         StreamRef stream);
  // An operation of devrt's that was enqueued on `stream` just now.
  void NoteUse(Segment* segment, const void* pointer, StreamRef stream);
  absl::Status EmptyCache();  // this one's alone
  absl::Status SetFraction(double fraction);
  double fraction() const {
    return owner_->fraction_.load(std::memory_order_relaxed);
  }

  DeviceRecord* device() const { return device_; }
  Ledger& ledger() { return ledger_; }
  // All pools there are; they are never freed.
  std::vector<BlockPool*> Pools() DEVRT_EXCLUDES(mutex_);
  // With the private ones, this first.
  std::vector<DeviceAllocator*> Family() DEVRT_EXCLUDES(mutex_);
  // Who waits for whom; may be called under a Ledger::Exclusive.
  PendingFrees::Waits ListPending() { return pending_.List(); }
  // Blocks of users.
  int64_t CountLive();
  // See MemoryHooks and StreamEndHook.
  void Release();
  void Settle();
  void EndStream(StreamRef stream);

 private:
  static constexpr size_t kMostPools = 16;
  static constexpr size_t kPollsOnAllocation = 2;
  static constexpr int kMostAttempts = 32;

  DeviceAllocator(DeviceRecord* device, DeviceAllocator* owner);
  static DeviceAllocator* Make(DeviceRecord* device);
  static void SettleBlock(void* block);

  BlockPool* PoolOf(StreamRef stream) {
    StreamRecord* record = stream.record();
    if (ABSL_PREDICT_TRUE(owner_ == this &&
                          record->memory_pool_serial.load(
                              std::memory_order_acquire) == stream.serial())) {
      return static_cast<BlockPool*>(
          record->memory_pool.load(std::memory_order_relaxed));
    }
    return FindPool(stream);
  }
  BlockPool* FindPool(StreamRef stream) DEVRT_EXCLUDES(mutex_);
  static DeviceAllocator* AddPrivate(DeviceAllocator* owner);
  // Takes an abandoned one that is empty into use; false: it is not.
  bool Revive();
  // Takes one whose graphs have ended, with no block alive, into use.
  bool ReviveForGraphs();
  absl::StatusOr<void*> AllocateSlowly(const MemoryRequest& request,
                                       PoolRequest wanted, PoolAnswer answer);
  absl::StatusOr<bool> IsCapturing(StreamRef stream) const;
  absl::StatusOr<void*> HandedOut(const MemoryRequest& request,
                                  const PoolRequest& wanted, void* pointer);

  // recovery.cc.  Those that give a pointer: nullptr, there is no room.
  absl::StatusOr<void*> Recover(const MemoryRequest& request,
                                const PoolRequest& wanted);
  absl::StatusOr<void*> Search(StreamRef stream, const PoolRequest& wanted,
                               bool room);
  absl::StatusOr<void*> SearchOwn(StreamRef stream, const PoolRequest& wanted,
                                  Segment* fresh);
  absl::StatusOr<void*> SearchOthers(StreamRef stream,
                                     const PoolRequest& wanted, bool room);
  absl::StatusOr<void*> Grow(const MemoryRequest& request,
                             const PoolRequest& wanted);
  absl::StatusOr<void*> GrowPlainly(const MemoryRequest& request,
                                    const PoolRequest& wanted);
  // For a stream that captures.
  absl::StatusOr<void*> GrowInCapture(const MemoryRequest& request,
                                      const PoolRequest& wanted);
  // Step 6.  Why it gave up on some of them; OK if it did not.
  absl::Status WaitForFrees();
  // Steps 6 to 8, once.  `gave_up` is what the waits say.
  absl::StatusOr<void*> WaitForRoom(const MemoryRequest& request,
                                    const PoolRequest& wanted,
                                    absl::Status* gave_up);
  // Of the owner's family, so far.
  uint64_t CountFrees();
  // Whether `bytes` and what is alive are allowed together.
  bool HasRoom(uint64_t bytes);
  bool RunCallbacks(uint64_t bytes);
  void CollectGarbage();
  // Gives segments back to the driver, until `bytes` of them went.  True if any
  // did.  Waits for their last use where `gave_up` is not null, which receives
  // the first reason of a wait that was given up.
  bool ReleaseSegments(uint64_t bytes, uint64_t least, absl::Status* gave_up);
  // What the allocator, and its whole family, may give back.
  void ListFree(std::vector<FreeSegment>* list);
  std::vector<FreeSegment> ListFamilyFree();
  void PollFamily();
  // Nothing of an allocator that is for graphs by now, unless `of_graphs`.
  bool ReleaseOne(const FreeSegment& segment, absl::Status* gave_up,
                  bool of_graphs = false);
  absl::Status OutOfMemory(const MemoryRequest& request,
                           const PoolRequest& wanted,
                           const absl::Status& gave_up);
  uint64_t Total();
  uint64_t Allowed();

  // segments.cc
  absl::StatusOr<Segment*> GetSegment(uint64_t size, bool small, CallSite site);
  absl::StatusOr<Segment*> TakeIn(void* pointer, uint64_t size, bool small);
  absl::StatusOr<Segment*> Enter(void* pointer, uint64_t size, bool small,
                                 const char* call);
  void Leave(Segment* segment);
  void GiveBack(Segment* segment);
  void Tell(MemoryAction action, const void* pointer, uint64_t bytes) const;
  void Forget(Segment* segment);

  // expandable.cc
  uint64_t Granularity();
  bool IsExpandable();
  absl::StatusOr<Segment*> ReserveAddresses(bool small);
  void ReleaseAddresses(Segment* segment);
  devrt_status MapPage(char* address, uint64_t bytes, devrt_chunk* chunk);
  absl::StatusOr<bool> MapPages(const PageRun& run);
  uint64_t UnmapPages(const PageRun& run);
  absl::StatusOr<void*> Expand(const MemoryRequest& request,
                               const PoolRequest& wanted);
  void GiveBackPages(BlockPool* pool, const PageRun& run);

  // The block is kClosing: closes its open marks, then waits or settles.
  void CloseUses(BlockPool* pool, Block* block, const StreamRef* freed_on);
  void TakeBack(BlockPool* pool, const Block* block) const;
  static absl::Status NotLive(const void* pointer, const char* call);
  void Announce(devrt_status error, const char* call) const;

  DeviceRecord* const device_;
  DeviceAllocator* const owner_;    // of the budget; this, unless private
  std::atomic<uint64_t> total_{0};  // bytes of the device; 0: not known yet
  ExtensionOf<devrt_suballocation_v0> suballocation_;
  ExtensionOf<devrt_virtual_memory_v0> virtual_memory_;
  ExtensionOf<devrt_capture_v0> capture_;
  static constexpr uint64_t kUnknown = UINT64_MAX;
  std::atomic<uint64_t> granularity_{kUnknown};
  std::atomic<bool> said_no_addresses_{false};
  Ledger ledger_;
  PendingFrees pending_;
  std::atomic<double> fraction_{1.0};
  std::atomic<uint64_t> reserved_{0};
  Moves moves_;  // the owner's is used
  std::atomic<uint64_t> next_pool_{0};
  std::atomic<bool> abandoned_{false};
  std::atomic<bool> was_for_graphs_{false};
  std::atomic<bool> for_graphs_{false};
  Mutex mutex_;
  std::vector<std::unique_ptr<BlockPool>> pools_ DEVRT_GUARDED_BY(mutex_);
  absl::flat_hash_map<uint64_t, BlockPool*> by_serial_ DEVRT_GUARDED_BY(mutex_);
  std::vector<DeviceAllocator*> privates_ DEVRT_GUARDED_BY(mutex_);
  std::vector<CaptureNumber> holders_ DEVRT_GUARDED_BY(mutex_);
};

// ---- Callbacks of programs (device_memory.h) --------------------------------

uint64_t AddCallback(OutOfMemoryCallback callback);
void RemoveCallback(uint64_t id);

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_DEVICE_ALLOCATOR_H_
