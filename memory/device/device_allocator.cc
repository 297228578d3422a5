// SPDX-License-Identifier: Apache-2.0

#include "memory/device/device_allocator.h"

#include <cmath>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "memory/common/hooks.h"
#include "memory/common/hot_settings.h"
#include "memory/common/settings_state.h"
#include "memory/device/address_map.h"
#include "runtime/internal/blocks.h"
#include "runtime/internal/text.h"
#include "streams/internal/stream_record.h"

namespace devrt::internal {

// ---- Making -----------------------------------------------------------------

DeviceAllocator::DeviceAllocator(DeviceRecord* device, DeviceAllocator* owner)
    : device_(device),
      owner_(owner != nullptr ? owner : this),
      suballocation_(FindExtension<devrt_suballocation_v0>(
          device, DEVRT_SUBALLOCATION_EXTENSION)),
      virtual_memory_(FindExtension<devrt_virtual_memory_v0>(
          device, DEVRT_VIRTUAL_MEMORY_EXTENSION)),
      capture_(FindCapture(device)),
      pending_(&SettleBlock) {}

DeviceAllocator* DeviceAllocator::Make(DeviceRecord* device) {
  static std::once_flag hooks;
  std::call_once(hooks, &InstallMemoryHooks);
  std::unique_ptr<DeviceAllocator> made(new DeviceAllocator(device, nullptr));
  made->fraction_.store(CurrentSettings().per_process_memory_fraction,
                        std::memory_order_relaxed);
  // Whether requests may come here directly is found out by the first.
  device->has_resource.store(true);
  DeviceAllocator* expected = nullptr;
  if (device->allocator.compare_exchange_strong(expected, made.get())) {
    return made.release();
  }
  return expected;
}

DeviceAllocator* DeviceAllocator::MakePrivate(DeviceRecord* device) {
  DeviceAllocator* owner = Of(device);
  for (DeviceAllocator* each : owner->Family()) {
    if (each->Revive()) return each;
  }
  return AddPrivate(owner);
}

DeviceAllocator* DeviceAllocator::MakeForGraphs(DeviceRecord* device) {
  DeviceAllocator* owner = Of(device);
  for (DeviceAllocator* each : owner->Family()) {
    if (each->ReviveForGraphs()) return each;
  }
  DeviceAllocator* const made = AddPrivate(owner);
  made->for_graphs_.store(true);
  made->was_for_graphs_.store(true);
  return made;
}

DeviceAllocator* DeviceAllocator::AddPrivate(DeviceAllocator* owner) {
  std::unique_ptr<DeviceAllocator> made(
      new DeviceAllocator(owner->device_, owner));
  MutexLock lock(&owner->mutex_);
  owner->privates_.push_back(made.get());
  return made.release();
}

std::vector<DeviceAllocator*> DeviceAllocator::Family() {
  MutexLock lock(&mutex_);
  std::vector<DeviceAllocator*> all = {this};
  all.insert(all.end(), privates_.begin(), privates_.end());
  return all;
}

std::vector<BlockPool*> DeviceAllocator::Pools() {
  MutexLock lock(&mutex_);
  std::vector<BlockPool*> pools;
  for (const auto& pool : pools_) pools.push_back(pool.get());
  return pools;
}

BlockPool* DeviceAllocator::FindPool(StreamRef stream) {
  StreamRecord* const record = stream.record();
  Timeline* const timeline = TimelineOf(stream);
  MutexLock lock(&mutex_);
  BlockPool*& known = by_serial_[stream.serial()];
  if (known == nullptr) {
    // One that is behind the same work, else one that has nothing.
    for (const bool same : {true, false}) {
      for (const auto& pool : pools_) {
        if (known != nullptr) break;
        if (same ? pool->timeline() == timeline : pool->IsBlank()) {
          if (pool->Begin(stream, timeline)) known = pool.get();
        }
      }
    }
  }
  if (known == nullptr) {
    // Numbers differ over all devices: the ids of blocks are made of them.
    static std::atomic<uint32_t> numbers{0};
    pools_.push_back(
        std::make_unique<BlockPool>(device_, &ledger_, numbers.fetch_add(1)));
    known = pools_.back().get();
    known->Begin(stream, timeline);
  }
  if (owner_ == this) {
    record->memory_pool.store(known, std::memory_order_relaxed);
    record->memory_pool_serial.store(stream.serial(),
                                     std::memory_order_release);
  }
  return known;
}

// Its timeline gets a checkpoint from streams/: all of its work is
// covered by what is now the epoch.
void DeviceAllocator::EndStream(StreamRef stream) {
  BlockPool* pool = nullptr;
  {
    MutexLock lock(&mutex_);
    const auto found = by_serial_.find(stream.serial());
    if (found == by_serial_.end()) return;
    pool = found->second;
    by_serial_.erase(found);
  }
  Timeline* timeline = pool->timeline();
  const uint64_t epoch = timeline->Now();
  // Of a stream that is kept for the next one nobody else takes note.
  if (!timeline->IsComplete(epoch)) {
    (void)timeline->CheckpointLater(stream, epoch);
  }
  pool->End(stream.serial(), epoch);
}

// ---- Allocation -------------------------------------------------------------

namespace {

absl::Status NoneInCapture(const MemoryRequest& request,
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
  BlockPool* pool = PoolOf(request.stream);
  const PoolAnswer answer =
      pool->Allocate(request.stream, wanted, nullptr, &pointer);
  if (ABSL_PREDICT_FALSE(answer != PoolAnswer::kDone)) {
    return AllocateSlowly(request, wanted, answer);
  }
  return HandedOut(request, wanted, pointer);
}

inline absl::StatusOr<void*> DeviceAllocator::HandedOut(
    const MemoryRequest& request, const PoolRequest& wanted, void* pointer) {
  if (ABSL_PREDICT_FALSE(wanted.max_split_size != UINT64_MAX)) {
    // The caller's already: nobody else looks at it.
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    const Segment* segment = AddressMap::Get().Find(pointer);
    if (segment->Beginning(address)->oversize) {
      ledger_.CountOversizeAllocation(1);
    }
  }
  if (ABSL_PREDICT_FALSE(suballocation_.table != nullptr)) {
    const CallSiteScope told(request.site);
    const devrt_stream handle =
        request.stream.record()->handle.load(std::memory_order_acquire);
    Announce(suballocation_.table->hand_out(suballocation_.self, handle,
                                            pointer, request.bytes),
             "hand_out");
  }
  return pointer;
}

absl::StatusOr<bool> DeviceAllocator::IsCapturing(StreamRef stream) const {
  const devrt_stream handle =
      stream.record()->handle.load(std::memory_order_acquire);
  // Of a default stream that nobody has used yet there is none.
  if (capture_.table == nullptr || handle == nullptr || !IsOpen(device_)) {
    return false;
  }
  uint32_t yes = 0;
  const devrt_status error =
      capture_.table->stream_is_capturing(capture_.self, handle, &yes);
  if (error != nullptr) return TakeError(device_, error, "AllocateMemory");
  return yes != 0;
}

absl::StatusOr<void*> DeviceAllocator::AllocateSlowly(
    const MemoryRequest& request, PoolRequest wanted, PoolAnswer answer) {
  // Checkpoints of other streams, which a search may need.
  const CallSiteScope noted(request.site);
  void* pointer = nullptr;
  for (;;) {
    switch (answer) {
      case PoolAnswer::kDone:
        return HandedOut(request, wanted, pointer);
      case PoolAnswer::kPending: {
        DEVRT_ASSIGN_OR_RETURN(const bool capturing,
                               IsCapturing(request.stream));
        if (!capturing) pending_.Poll(kPollsOnAllocation);
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
        if (capturing && !IsForGraphs()) return NoneInCapture(request, wanted);
        absl::StatusOr<void*> found = capturing ? GrowInCapture(request, wanted)
                                                : Recover(request, wanted);
        if (!found.ok()) return found;
        return HandedOut(request, wanted, *found);
      }
      default:
        return ClosedError(device_);
    }
    answer = PoolOf(request.stream)
                 ->Allocate(request.stream, wanted, nullptr, &pointer);
  }
}

// ---- Free -------------------------------------------------------------------

absl::Status DeviceAllocator::Free(Segment* segment, void* pointer,
                                   const StreamRef* stream, CallSite site) {
  PoolReturn back = {segment, pointer, stream, PackSite(site)};
  back.claim = suballocation_.table != nullptr;
  HistoryRing* const history = ledger_.history();
  if (ABSL_PREDICT_FALSE(history != nullptr)) {
    back.event_site = history->Site(site);
  }
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
      CloseUses(pool, block, stream);
      return absl::OkStatus();
    }
    if (answer == PoolAnswer::kNotLive) break;
    // The segment has another pool by now, or is none any more.
    if (AddressMap::Get().Find(pointer) != segment) break;
  }
  return NotLive(pointer, "FreeMemory");
}

bool DeviceAllocator::FreePlainly(Segment* segment, void* pointer,
                                  CallSite site) {
  // A private one may be abandoned, and gives back what is freed.
  if (suballocation_.table != nullptr || owner_ != this) return false;
  PoolReturn back = {segment, pointer, nullptr, PackSite(site)};
  back.plain = true;
  HistoryRing* const history = ledger_.history();
  if (ABSL_PREDICT_FALSE(history != nullptr)) {
    back.event_site = history->Site(site);
  }
  BlockPool* const pool = segment->pool.load(std::memory_order_acquire);
  Block* block = nullptr;
  if (pool == nullptr || pool->Free(&back, &block) != PoolAnswer::kDone) {
    return false;
  }
  if (ABSL_PREDICT_FALSE(back.oversize)) ledger_.CountOversizeAllocation(-1);
  return true;
}

void DeviceAllocator::CloseUses(BlockPool* pool, Block* block,
                                const StreamRef* freed_on) {
  const Moves::Scope moves(&owner_->moves_);
  std::unique_ptr<BlockUses> uses(std::exchange(block->held.uses, nullptr));
  if (uses == nullptr) uses = std::make_unique<BlockUses>();
  PendingFree item;
  item.block = block;
  item.home = pool;
  std::optional<StreamRef> home = pool->stream();
  if (IsOpen(device_)) {
    // An error of a checkpoint is that of earlier work; the uses stay, unless a
    // later look covers them (docs/semantics.md 2.4).
    for (const BlockUses::Open& open : uses->open) {
      const uint64_t epoch = open.timeline->Now();
      (void)open.timeline->CheckpointLater(open.stream, epoch);
      uses->Add(open.stream, open.timeline, epoch);
    }
    // The end of a stream that was destroyed meanwhile is its pool's matter.
    if (freed_on != nullptr && (!home.has_value() || *freed_on != *home) &&
        CheckStream(*freed_on, "FreeMemory").ok()) {
      Timeline* const timeline = TimelineOf(*freed_on);
      const uint64_t epoch = timeline->Now();
      (void)timeline->Checkpoint(*freed_on, epoch);
      uses->Add(*freed_on, timeline, epoch);
    }
    item.uses = std::move(uses->points);
  }
  if (PendingFrees::IsOver(&item)) {
    SettleBlock(block);
    return;
  }
  pool->Wait(block);
  pending_.Add(std::move(item));
}

void DeviceAllocator::SettleBlock(void* settled) {
  Block* const block = static_cast<Block*>(settled);
  Segment* const segment = block->segment;
  DeviceAllocator* const allocator = segment->allocator;
  // A segment with a block that is not free has one pool.
  BlockPool* pool = segment->pool.load(std::memory_order_acquire);
  allocator->TakeBack(pool, block);
  if (pool->Settle(block)) allocator->ledger_.CountOversizeAllocation(-1);
  if (allocator->abandoned_.load(std::memory_order_relaxed)) {
    (void)allocator->EmptyCache();
  }
}

void DeviceAllocator::TakeBack(BlockPool* pool, const Block* block) const {
  if (ABSL_PREDICT_TRUE(suballocation_.table == nullptr) || !IsOpen(device_)) {
    return;
  }
  // What had to be waited for is over for everybody.
  const std::optional<StreamRef> home =
      block->use == BlockUse::kPending ? std::nullopt : pool->stream();
  const devrt_stream handle =
      home.has_value() ? home->record()->handle.load(std::memory_order_acquire)
                       : nullptr;
  Announce(suballocation_.table->take_back(suballocation_.self, handle,
                                           block->address()),
           "take_back");
}

absl::Status DeviceAllocator::NotLive(const void* pointer, const char* call) {
  return absl::InvalidArgumentError(
      absl::StrCat(call, " needs ",
                   std::string_view(call) == "FreeMemory"
                       ? "the beginning of a live block from AllocateMemory"
                       : "a pointer into a live block from AllocateMemory",
                   ", but ", DescribePointer(pointer)));
}

void DeviceAllocator::Announce(devrt_status error, const char* call) const {
  if (ABSL_PREDICT_TRUE(error == nullptr)) return;
  const absl::Status status = TakeError(device_, error, call);
  DEVRT_LOG(kWarning, std::string(ToStd(status.message())));
}

// ---- Uses -------------------------------------------------------------------

absl::Status DeviceAllocator::RecordUse(Segment* segment, const void* pointer,
                                        StreamRef stream) {
  Timeline* const timeline = TimelineOf(stream);
  for (;;) {
    BlockPool* pool = segment->pool.load(std::memory_order_acquire);
    if (pool == nullptr) break;
    bool foreign = false;
    const PoolAnswer answer =
        pool->AddUse(segment, pointer, stream, timeline, true, true, &foreign);
    if (answer == PoolAnswer::kMoved) continue;
    if (answer == PoolAnswer::kNotLive) break;
    // Their owner may destroy them behind devrt's back (F22).
    if (foreign && stream.kind() == StreamKind::kExternal) {
      return timeline->Checkpoint(stream);
    }
    return absl::OkStatus();
  }
  return NotLive(pointer, "RecordStream");
}

void DeviceAllocator::NoteUse(Segment* segment, const void* pointer,
                              StreamRef stream) {
  Timeline* const timeline = TimelineOf(stream);
  for (;;) {
    BlockPool* pool = segment->pool.load(std::memory_order_acquire);
    if (pool == nullptr || pool->IsOwn(stream)) return;
    bool foreign = false;
    const PoolAnswer answer = pool->AddUse(segment, pointer, stream, timeline,
                                           false, false, &foreign);
    if (answer == PoolAnswer::kMoved) continue;
    // Its end is to be known apart from what comes later (F15).
    if (foreign) (void)timeline->Checkpoint(stream);
    return;
  }
}

// ---- The rest ---------------------------------------------------------------

absl::Status DeviceAllocator::SetFraction(double fraction) {
  if (!(fraction >= 0.0 && fraction <= 1.0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "Invalid fraction value: ", fraction, ". A part of the memory of ",
        DeviceName(device_), " is meant, from 0.0 to 1.0"));
  }
  owner_->fraction_.store(fraction, std::memory_order_relaxed);
  return absl::OkStatus();
}

int64_t DeviceAllocator::CountLive() {
  int64_t live = 0;
  for (BlockPool* pool : Pools()) live += pool->CountLive();
  return live;
}

bool DeviceAllocator::Revive() {
  if (!abandoned_.load(std::memory_order_relaxed) || CountLive() != 0) {
    return false;
  }
  // What streams still used when it was abandoned.
  (void)EmptyCache();
  if (ledger_.Read().reserved_bytes.all.current != 0) return false;
  bool expected = true;
  return abandoned_.compare_exchange_strong(expected, false);
}

bool DeviceAllocator::ReviveForGraphs() {
  if (!was_for_graphs_.load() || CountLive() != 0) return false;
  bool expected = false;
  return for_graphs_.compare_exchange_strong(expected, true);
}

void DeviceAllocator::Abandon() {
  abandoned_.store(true, std::memory_order_relaxed);
  (void)EmptyCache();
}

}  // namespace devrt::internal
