// SPDX-License-Identifier: Apache-2.0
//
// DeviceAllocator: a request that its stream's pool cannot serve
// (docs/semantics.md 2.6).

#include <algorithm>
#include <map>
#include <utility>

#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "memory/common/hot_settings.h"
#include "memory/device/deferred_recovery.h"
#include "memory/device/device_allocator.h"
#include "memory/external/captured_blocks.h"
#include "runtime/internal/host_table.h"
#include "runtime/internal/out_of_memory.h"
#include "streams/internal/stream_record.h"

namespace devrt::internal {

// ---- Waits that are left to the caller --------------------------------------

namespace {

thread_local DeferredRecovery* t_deferred = nullptr;

}  // namespace

DeferredRecovery::Scope::Scope(DeferredRecovery* deferred)
    : outer_(std::exchange(t_deferred, deferred)) {}

DeferredRecovery::Scope::~Scope() { t_deferred = outer_; }

DeferredRecovery* DeferredRecovery::Current() { return t_deferred; }

// ---- Callbacks of programs --------------------------------------------------

namespace {

struct Callbacks {
  Mutex mutex;
  uint64_t last DEVRT_GUARDED_BY(mutex) = 0;
  // By id: in order of registration.
  std::map<uint64_t, OutOfMemoryCallback> all DEVRT_GUARDED_BY(mutex);

  static Callbacks& Get() {
    static Callbacks* const callbacks = new Callbacks;
    return *callbacks;
  }
};

}  // namespace

uint64_t AddCallback(OutOfMemoryCallback callback) {
  Callbacks& callbacks = Callbacks::Get();
  MutexLock lock(&callbacks.mutex);
  callbacks.all.emplace(++callbacks.last, std::move(callback));
  return callbacks.last;
}

void RemoveCallback(uint64_t id) {
  Callbacks& callbacks = Callbacks::Get();
  OutOfMemoryCallback removed;  // what it owns is released outside the lock
  MutexLock lock(&callbacks.mutex);
  const auto found = callbacks.all.find(id);
  if (found == callbacks.all.end()) return;
  removed = std::move(found->second);
  callbacks.all.erase(found);
}

bool DeviceAllocator::RunCallbacks(uint64_t bytes) {
  std::map<uint64_t, OutOfMemoryCallback> all;
  {
    Callbacks& callbacks = Callbacks::Get();
    MutexLock lock(&callbacks.mutex);
    all = callbacks.all;
  }
  bool again = false;
  for (const auto& [id, callback] : all) {
    again = callback(Device(device_), bytes) || again;
  }
  return again;
}

// ---- Search -----------------------------------------------------------------

absl::StatusOr<void*> DeviceAllocator::SearchOwn(StreamRef stream,
                                                 const PoolRequest& wanted,
                                                 Segment* fresh) {
  for (;;) {
    void* pointer = nullptr;
    BlockPool* pool = PoolOf(stream);
    const PoolAnswer answer = pool->Allocate(stream, wanted, fresh, &pointer);
    fresh = nullptr;  // the pool has it
    switch (answer) {
      case PoolAnswer::kDone:
        return pointer;
      case PoolAnswer::kMoved: {
        const absl::Status stale = CheckStream(stream, "AllocateMemory");
        if (!stale.ok()) return stale;
        break;
      }
      case PoolAnswer::kClosed:
        return ClosedError(device_);
      default:
        return nullptr;
    }
  }
}

absl::StatusOr<void*> DeviceAllocator::SearchOthers(StreamRef stream,
                                                    const PoolRequest& wanted,
                                                    bool room) {
  // Blocks of an allocator for graphs stay with their streams: the driver calls
  // a stream idle whose work was captured, and each launch of the graph writes.
  if (IsForGraphs() ||
      !hot_settings.cross_stream_reuse.load(std::memory_order_relaxed)) {
    return nullptr;
  }
  // Small blocks are borrowed only where there is no room for more: whoever
  // borrows comes this long way each time, and a small segment costs little.
  const bool lend = !room || !IsSmall(wanted.size);
  const std::vector<BlockPool*> pools = Pools();
  BlockPool* const own = PoolOf(stream);
  Timeline* const taker = TimelineOf(stream);
  const size_t first = next_pool_.load(std::memory_order_relaxed);
  size_t asked = 0;
  for (size_t i = 0; i < pools.size() && asked < kMostPools; ++i) {
    BlockPool* const pool = pools[(first + i) % pools.size()];
    if (pool == own || pool->free_bytes() < wanted.size) continue;
    ++asked;
    next_pool_.store((first + i + 1) % pools.size(), std::memory_order_relaxed);
    Timeline* const timeline = pool->timeline();
    timeline->Poll(true);
    const Moves::Scope moves(&owner_->moves_);
    if (Segment* segment = pool->TakeSegment(wanted, taker, room)) {
      absl::StatusOr<void*> found = SearchOwn(stream, wanted, segment);
      if (!found.ok() || *found != nullptr) return found;
    }
    void* pointer = nullptr;
    if (lend &&
        pool->Lend(stream, taker, wanted, &pointer) == PoolAnswer::kDone) {
      return pointer;
    }
    // So that a later request finds out.
    const std::optional<StreamRef> busy = pool->stream();
    if (busy.has_value() && !timeline->IsComplete(timeline->Now())) {
      (void)timeline->CheckpointLater(*busy, timeline->Now());
    }
  }
  return nullptr;
}

absl::StatusOr<void*> DeviceAllocator::Search(StreamRef stream,
                                              const PoolRequest& wanted,
                                              bool room) {
  absl::StatusOr<void*> found = SearchOwn(stream, wanted, nullptr);
  if (!found.ok() || *found != nullptr) return found;
  return SearchOthers(stream, wanted, room);
}

absl::StatusOr<void*> DeviceAllocator::Grow(const MemoryRequest& request,
                                            const PoolRequest& wanted) {
  return IsExpandable() ? Expand(request, wanted)
                        : GrowPlainly(request, wanted);
}

absl::StatusOr<void*> DeviceAllocator::GrowPlainly(const MemoryRequest& request,
                                                   const PoolRequest& wanted) {
  const Moves::Scope moves(&owner_->moves_);
  absl::StatusOr<Segment*> fresh =
      GetSegment(SegmentSize(wanted.size), IsSmall(wanted.size), request.site);
  if (!fresh.ok()) return fresh.status();
  if (*fresh == nullptr) return nullptr;
  return SearchOwn(request.stream, wanted, *fresh);
}

// Nothing is waited for, and blocks of other streams are left alone: what
// another stream of the capture was given has not run, although the driver
// says that nothing is to be done there.
absl::StatusOr<void*> DeviceAllocator::GrowInCapture(
    const MemoryRequest& request, const PoolRequest& wanted) {
  absl::StatusOr<void*> found = GrowPlainly(request, wanted);
  if (!found.ok() || *found != nullptr) return found;
  ReleaseSegments(SegmentSize(wanted.size), 0, nullptr);
  found = GrowPlainly(request, wanted);
  if (!found.ok() || *found != nullptr) return found;
  return OutOfMemory(request, wanted, {});
}

// ---- Recovery ---------------------------------------------------------------

void DeviceAllocator::PollFamily() {
  for (DeviceAllocator* each : owner_->Family()) each->pending_.Poll(SIZE_MAX);
}

absl::StatusOr<void*> DeviceAllocator::Recover(const MemoryRequest& request,
                                               const PoolRequest& wanted) {
  const StreamRef stream = request.stream;
  const uint64_t segment = SegmentSize(wanted.size);
  absl::StatusOr<void*> found;
  // Done when there is a pointer, or an error that is not for want of room.
  const auto done = [&found](absl::StatusOr<void*> tried) {
    found = std::move(tried);
    return !found.ok() || *found != nullptr;
  };

  EndCapturesThatAreOver();
  PollFamily();
  if (done(Search(stream, wanted, true))) return found;
  if (wanted.size > Allowed()) return OutOfMemory(request, wanted, {});
  DeferredRecovery* const deferred = DeferredRecovery::Current();
  const int round = deferred != nullptr ? deferred->rounds() : 0;
  // Once a request, also where its caller tries again.
  if (round == 0 && RunCallbacks(request.bytes)) {
    PollFamily();
    if (done(Search(stream, wanted, true))) return found;
  }
  CollectGarbage();
  if (done(Grow(request, wanted))) return found;
  const uint64_t least =
      wanted.max_split_size == UINT64_MAX || wanted.size < wanted.max_split_size
          ? 0
          : wanted.max_split_size;
  if (round == 0) {
    ledger_.num_alloc_retries.fetch_add(1, std::memory_order_relaxed);
  }
  if (deferred != nullptr && round < DeferredRecovery::kMostRounds) {
    // The device's own allocator, which outlives every request.
    DeviceAllocator* const owner = owner_;
    deferred->Leave(Device(device_), [owner, segment, least, round] {
      switch (round) {
        case 0:
          owner->ReleaseSegments(segment, least, nullptr);
          break;
        case 1:
          owner->WaitForFrees().IgnoreError();
          break;
        default:
          absl::Status gave_up;
          owner->ReleaseSegments(UINT64_MAX, 0, &gave_up);
      }
      // The last round waits again, and says what it gave up on.
      return absl::OkStatus();
    });
    return absl::CancelledError("the request waits where its caller does");
  }
  ReleaseSegments(segment, least, nullptr);
  if (done(Search(stream, wanted, false))) return found;
  if (done(Grow(request, wanted))) return found;
  for (int attempt = 1;; ++attempt) {
    const uint64_t frees = CountFrees();
    const Moves::Seen moves = owner_->moves_.See();
    absl::Status gave_up;
    if (done(WaitForRoom(request, wanted, &gave_up))) return found;
    const bool changed =
        owner_->moves_.HaveEnded(moves) || CountFrees() != frees;
    if (!changed || attempt == kMostAttempts || !HasRoom(wanted.size)) {
      return OutOfMemory(request, wanted, gave_up);
    }
  }
}

absl::Status DeviceAllocator::WaitForFrees() {
  absl::Status gave_up;
  bool waits = false;
  for (DeviceAllocator* each : owner_->Family()) {
    if (each->pending_.empty()) continue;
    if (!std::exchange(waits, true)) {
      ledger_.num_sync_all_streams.fetch_add(1, std::memory_order_relaxed);
    }
    gave_up.Update(each->pending_.WaitForAll());
  }
  return gave_up;
}

absl::StatusOr<void*> DeviceAllocator::WaitForRoom(const MemoryRequest& request,
                                                   const PoolRequest& wanted,
                                                   absl::Status* gave_up) {
  *gave_up = WaitForFrees();
  absl::StatusOr<void*> found = Search(request.stream, wanted, false);
  if (!found.ok() || *found != nullptr) return found;
  ReleaseSegments(UINT64_MAX, 0, gave_up);
  return Grow(request, wanted);
}

uint64_t DeviceAllocator::CountFrees() {
  uint64_t frees = 0;
  for (DeviceAllocator* a : owner_->Family()) {
    for (BlockPool* pool : a->Pools()) frees += pool->CountFrees();
  }
  return frees;
}

bool DeviceAllocator::HasRoom(uint64_t bytes) {
  for (DeviceAllocator* a : owner_->Family()) {
    bytes +=
        static_cast<uint64_t>(a->ledger().Read().allocated_bytes.all.current);
  }
  return bytes <= Allowed();
}

absl::Status DeviceAllocator::OutOfMemory(const MemoryRequest& request,
                                          const PoolRequest& wanted,
                                          const absl::Status& gave_up) {
  ledger_.num_ooms.fetch_add(1, std::memory_order_relaxed);
  if (HistoryRing* const history = ledger_.history()) {
    history->Add(MemoryAction::kOutOfMemory, nullptr, request.bytes,
                 request.stream.id(), wanted.site);
  }
  OutOfMemoryInfo info;
  info.requested = request.bytes;
  const devrt_status no_info = device_->ops->mem_info(
      device_->self, device_->ordinal, &info.free, &info.total);
  DestroyError(no_info);
  info.segment = SegmentSize(wanted.size);
  info.allowed = Allowed();
  for (DeviceAllocator* each : owner_->Family()) {
    const MemoryStatistics s = each->ledger_.Read();
    info.allocated += static_cast<uint64_t>(s.allocated_bytes.all.current);
    info.reserved_unallocated += static_cast<uint64_t>(std::max<int64_t>(
        0, s.reserved_bytes.all.current - s.active_bytes.all.current));
  }
  return OutOfMemoryError(device_, info, absl::OkStatus(), gave_up);
}

}  // namespace devrt::internal
