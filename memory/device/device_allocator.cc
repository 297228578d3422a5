// SPDX-License-Identifier: Apache-2.0

#include "memory/device/device_allocator.h"

#include <mutex>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/strings/str_cat.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/status.h"
#include "memory/common/hot_settings.h"
#include "memory/common/settings_state.h"
#include "memory/device/address_map.h"
#include "memory/device/hooks.h"
#include "memory/device/recovery.h"
#include "runtime/raw_memory/blocks.h"
#include "streams/objects/ordering.h"
#include "streams/objects/stream_record.h"
#include "streams/objects/stream_target.h"

namespace devrt::internal {

// ---- Making -----------------------------------------------------------------

DeviceAllocator::DeviceAllocator(DeviceRecord* device, AllocatorFamily* family)
    : device_(device),
      own_family_(family != nullptr
                      ? nullptr
                      : std::make_unique<AllocatorFamily>(
                            device, this,
                            CurrentSettings().per_process_memory_fraction)),
      family_(family != nullptr ? family : own_family_.get()),
      reports_(device),
      pools_(device, &ledger_, family == nullptr),
      search_(device, &pools_, &graphs_, family_->in_flight()),
      source_(device, this, family_->budget(), &ledger_, &reports_),
      expandable_(device, family_->budget(), &ledger_, &reports_, &source_),
      cache_(device, &pools_, &graphs_, family_->in_flight(), &source_,
             &expandable_),
      pending_(&SettleBlock) {}

DeviceAllocator* DeviceAllocator::Make(DeviceRecord* device) {
  static std::once_flag hooks;
  std::call_once(hooks, &InstallMemoryHooks);
  std::unique_ptr<DeviceAllocator> made(new DeviceAllocator(device, nullptr));
  // The first request finds out whether requests may come here directly.
  device->has_resource.store(true);
  DeviceAllocator* expected = nullptr;
  if (device->allocator.compare_exchange_strong(expected, made.get())) {
    return made.release();
  }
  return expected;
}

// ---- Allocation -------------------------------------------------------------

namespace {

absl::Status NothingCachedError(const MemoryRequest& request,
                                const PoolRequest& wanted) {
  return CaptureError(absl::StrCat(
      "AllocateMemory of ", wanted.requested, " bytes for stream ",
      request.stream.id(), " of ", request.stream.device().name(),
      ": the stream is capturing, nothing cached for it fits, and memory from "
      "the driver would make the capture invalid; allocate and free as much on "
      "this stream before the capture begins"));
}

}  // namespace

absl::StatusOr<void*> DeviceAllocator::Allocate(const MemoryRequest& request) {
  PoolRequest wanted;
  wanted.size = hot_settings.SizeOf(request.bytes);
  wanted.requested = request.bytes;
  wanted.max_split_size =
      hot_settings.max_split_size.load(std::memory_order_relaxed);
  HistoryRing* const history = ledger_.history();
  wanted.site =
      ABSL_PREDICT_TRUE(history == nullptr) ? 0 : history->Site(request.site);
  void* pointer = nullptr;
  BlockPool* pool = pools_.Of(request.stream);
  const PoolAnswer answer =
      pool->Allocate(request.stream, wanted, nullptr, &pointer);
  if (ABSL_PREDICT_FALSE(answer != PoolAnswer::kDone)) {
    return AllocateSlowly(request, wanted, answer);
  }
  return FinishAllocation(request, wanted, pointer);
}

inline absl::StatusOr<void*> DeviceAllocator::FinishAllocation(
    const MemoryRequest& request, const PoolRequest& wanted, void* pointer) {
  if (ABSL_PREDICT_FALSE(wanted.max_split_size != UINT64_MAX)) {
    // Without the lock: the block belongs to this request already.
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    const Segment* segment = AddressMap::Get().Find(pointer);
    if (segment->Beginning(address)->oversize) {
      ledger_.CountOversizeAllocation(1);
    }
  }
  reports_.HandOut(request, pointer);
  return pointer;
}

absl::StatusOr<void*> DeviceAllocator::AllocateSlowly(
    const MemoryRequest& request, PoolRequest wanted, PoolAnswer answer) {
  // For checkpoints that a search puts on other streams.
  const CallSiteScope noted(request.site);
  void* pointer = nullptr;
  for (;;) {
    switch (answer) {
      case PoolAnswer::kDone:
        return FinishAllocation(request, wanted, pointer);
      case PoolAnswer::kPending: {
        DEVRT_ASSIGN_OR_RETURN(const bool capturing,
                               IsCapturing(request.stream));
        if (!capturing) {
          bool answered = false;
          pending_.Poll(kPollsOnAllocation, true, &answered);
          pools_.Of(request.stream)->NotePoll(answered);
        }
        wanted.polled = true;
        break;
      }
      case PoolAnswer::kMoved: {
        const absl::Status stale =
            CheckStream(request.stream, "AllocateMemory");
        if (!stale.ok()) return stale;
        break;
      }
      case PoolAnswer::kNoBlock: {
        wanted.polled = true;
        DEVRT_ASSIGN_OR_RETURN(const bool capturing,
                               IsCapturing(request.stream));
        if (capturing && !graphs_.active()) {
          return NothingCachedError(request, wanted);
        }
        Recovery recovery(this, request, wanted);
        absl::StatusOr<void*> found =
            capturing ? recovery.RunInCapture() : recovery.Run();
        if (!found.ok()) return found;
        return FinishAllocation(request, wanted, *found);
      }
      default:
        return ClosedError(device_);
    }
    answer = pools_.Of(request.stream)
                 ->Allocate(request.stream, wanted, nullptr, &pointer);
  }
}

// ---- Free -------------------------------------------------------------------

namespace {

ABSL_ATTRIBUTE_NOINLINE absl::Status NotLiveError(const void* pointer) {
  return absl::InvalidArgumentError(
      absl::StrCat("FreeMemory needs the beginning of a live block from "
                   "AllocateMemory, but ",
                   DescribePointer(pointer)));
}

}  // namespace

inline PoolReturn DeviceAllocator::ReturnOf(Segment* segment, void* pointer,
                                            const StreamRef* stream,
                                            CallSite site) {
  PoolReturn back = {segment, pointer, stream, PackSite(site)};
  HistoryRing* const history = ledger_.history();
  if (ABSL_PREDICT_FALSE(history != nullptr)) {
    back.event_site = history->Site(site);
  }
  return back;
}

absl::Status DeviceAllocator::Free(Segment* segment, void* pointer,
                                   const StreamRef* stream, CallSite site) {
  PoolReturn back = ReturnOf(segment, pointer, stream, site);
  back.claim = reports_.wanted();
  for (;;) {
    BlockPool* pool = segment->pool.load(std::memory_order_acquire);
    if (ABSL_PREDICT_FALSE(pool == nullptr)) break;
    Block* block = nullptr;
    const PoolAnswer answer = pool->Free(&back, &block);
    if (ABSL_PREDICT_TRUE(answer == PoolAnswer::kDone)) {
      if (ABSL_PREDICT_FALSE(back.oversize)) {
        ledger_.CountOversizeAllocation(-1);
      }
      if (ABSL_PREDICT_FALSE(abandoned_.load(std::memory_order_relaxed))) {
        return EmptyCache();
      }
      return absl::OkStatus();
    }
    if (answer == PoolAnswer::kUses) {
      const CallSiteScope told(site);
      if (back.has_uses) {
        CloseUses(pool, block, stream, back.defers);
      } else {
        const MemoryInFlight::Scope moving(family_->in_flight());
        SettleBlock(block);
      }
      return absl::OkStatus();
    }
    if (answer == PoolAnswer::kNotLive) break;
    // kMoved: the segment belongs to another pool now, or is gone.
    if (AddressMap::Get().Find(pointer) != segment) break;
  }
  return NotLiveError(pointer);
}

bool DeviceAllocator::FreePlainly(Segment* segment, void* pointer,
                                  CallSite site) {
  // An abandoned private allocator gives back to the driver what is freed.
  if (reports_.wanted() || !IsMain()) return false;
  PoolReturn back = ReturnOf(segment, pointer, nullptr, site);
  back.plain = true;
  BlockPool* const pool = segment->pool.load(std::memory_order_acquire);
  Block* block = nullptr;
  if (pool == nullptr || pool->Free(&back, &block) != PoolAnswer::kDone) {
    return false;
  }
  if (ABSL_PREDICT_FALSE(back.oversize)) ledger_.CountOversizeAllocation(-1);
  return true;
}

void DeviceAllocator::CloseUses(BlockPool* pool, Block* block,
                                const StreamRef* freed_on, bool defers) {
  const MemoryInFlight::Scope moving(family_->in_flight());
  std::unique_ptr<BlockUses> uses(std::exchange(block->held.uses, nullptr));
  if (uses == nullptr) uses = std::make_unique<BlockUses>();
  PendingFree item;
  item.block = block;
  item.home = pool;
  if (IsOpen(device_)) {
    // An error of a checkpoint belongs to earlier work.  The use then stays
    // until a later look covers it (docs/reference/semantics.md 2.4).
    for (const BlockUses::Open& open : uses->open) {
      const uint64_t epoch = open.timeline->Now();
      if (!defers || open.timeline->NeedsEagerCheckpoints()) {
        (void)open.timeline->CheckpointUnlessDestroyed(epoch);
      }
      uses->Add(open.stream, open.timeline, epoch);
    }
    // If the stream was destroyed meanwhile, its pool has the end of its work.
    if (freed_on != nullptr && pool->stream() != *freed_on &&
        CheckStream(*freed_on, "FreeMemory").ok()) {
      Timeline* const timeline = TimelineOf(*freed_on);
      const uint64_t epoch = timeline->Now();
      (void)timeline->Checkpoint(epoch);
      uses->Add(*freed_on, timeline, epoch);
    }
    reports_.Freed(pool, block, uses->points);
    item.uses = std::move(uses->points);
    pool->uses().Recycle(std::move(uses));
  }
  if (PendingFrees::IsOver(&item)) {
    SettleBlock(block);
    return;
  }
  pool->MarkPending(block);
  pending_.Add(std::move(item));
}

void DeviceAllocator::SettleBlock(void* settled) {
  Block* const block = static_cast<Block*>(settled);
  Segment* const segment = block->segment;
  DeviceAllocator* const allocator = segment->allocator;
  // The pool cannot change: a block of the segment is not free.
  BlockPool* pool = segment->pool.load(std::memory_order_acquire);
  allocator->reports_.TakeBack(pool, block);
  if (pool->Settle(block)) allocator->ledger_.CountOversizeAllocation(-1);
  if (allocator->abandoned_.load(std::memory_order_relaxed)) {
    (void)allocator->EmptyCache();
  }
}

// ---- The cache --------------------------------------------------------------

absl::Status DeviceAllocator::EmptyCache() {
  if (!IsOpen(device_)) return ClosedError(device_);
  pending_.Poll(SIZE_MAX);
  cache_.ReleaseUnused();
  return absl::OkStatus();
}

// Release may not be allowed to ask the backend any more.
void DeviceAllocator::Settle() {
  if (!IsOpen(device_)) return;
  pools_.PollTimelines();
  if (!pending_.empty()) pending_.Poll(SIZE_MAX);
}

// No block is live: the gate is closed, or live blocks were counted under all
// locks.
void DeviceAllocator::Release() {
  if (TakesHandlesBack(device_)) {
    if (IsOpen(device_)) pending_.Poll(SIZE_MAX);
    cache_.ReleaseAtEnd();
  }
  // Work still uses what is left, or the device is lost.
  pending_.TakeAll();
  cache_.ForgetAll();
  search_.StartOver();  // a run of the simulator depends on no earlier run
  family_->budget()->ForgetTotal();
}

}  // namespace devrt::internal
