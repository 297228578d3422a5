// SPDX-License-Identifier: Apache-2.0

#include "memory/pinned/pinned_allocator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "memory/common/settings_state.h"
#include "memory/device/hooks.h"
#include "memory/pinned/background.h"
#include "memory/pinned/pinned_map.h"
#include "memory/pinned/pinned_pages.h"
#include "memory/pinned/pinned_uses.h"
#include "runtime/common/text.h"
#include "runtime/plugins/host_table.h"
#include "runtime/raw_memory/blocks.h"
#include "runtime/raw_memory/out_of_memory.h"
#include "streams/objects/device_streams.h"

namespace devrt::internal {
namespace {

// A cached block of whole pages serves requests of at least 7/8 of its size.
constexpr uint64_t MostFor(uint64_t size) { return size / 7 * 8; }

// The place of the calling thread's pool, plus 1; 0: it has none yet.
__thread uint32_t t_place __attribute__((tls_model("initial-exec"))) = 0;

ABSL_ATTRIBUTE_NOINLINE void ChoosePlace(uint32_t places) {
  static std::atomic<uint32_t> next{0};
  t_place = 1 + next.fetch_add(1, std::memory_order_relaxed) % places;
}

// Takes a copy: a reference would force Count to keep the change in memory.
ABSL_ATTRIBUTE_NOINLINE void CountSlowly(Ledger* ledger, PinnedPool* pool,
                                         Change change)
    DEVRT_REQUIRES(pool->lock) {
  ledger->Count(&pool->shard, kSmallRow, change);
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline void Count(Ledger* ledger, PinnedPool* pool,
                                               const Change& change)
    DEVRT_REQUIRES(pool->lock) {
  if (ABSL_PREDICT_FALSE(!pool->shard.Apply(kSmallRow, change))) {
    CountSlowly(ledger, pool, change);
  }
}

int64_t CountLiveOf(DeviceRecord* device) {
  PinnedAllocator* const pinned = PinnedAllocator::Existing(device->backend);
  return pinned != nullptr ? pinned->CountLive(device) : 0;
}

void ReleaseOf(DeviceRecord* device) {
  PinnedAllocator* const pinned = PinnedAllocator::Existing(device->backend);
  if (pinned != nullptr) pinned->Release(device);
}

constexpr PinnedHooks kHooks = {&FindLivePinned, &FindFreedPinned,
                                &NoteUseOfPinned, &CountLiveOf, &ReleaseOf};

}  // namespace

PinnedAllocator::PinnedAllocator(BackendRecord* backend)
    : backend_(backend), page_(PageSize()), records_(this), pending_(&Settle) {
  const auto& race = DeviceStreams::Of(backend->devices[0])->race;
  if (race.table != nullptr &&
      DEVRT_HAS_FIELD(race.table, devrt_race_v0, pinned_take_back)) {
    race_ = race;
  }
}

PinnedPool* PinnedAllocator::MakePool(uint32_t place) {
  static std::atomic<uint32_t> numbers{0};  // of all allocators
  MutexLock lock(&mutex_);
  std::atomic<PinnedPool*>& pool = pools_[place];
  if (pool.load(std::memory_order_relaxed) == nullptr) {
    pool.store(new PinnedPool(&ledger_, numbers.fetch_add(1)),
               std::memory_order_release);
  }
  return pool.load(std::memory_order_relaxed);
}

// Threads in the schedule of a simulator share a pool: which block a thread
// gets may not depend on the threads that there were before the schedule.
inline PinnedPool* PinnedAllocator::PoolOfThread() {
  uint32_t place = 0;
  if (ABSL_PREDICT_TRUE(!TakePart())) {
    if (ABSL_PREDICT_FALSE(t_place == 0)) ChoosePlace(kPools);
    place = t_place - 1;
  }
  PinnedPool* const pool = pools_[place].load(std::memory_order_acquire);
  return ABSL_PREDICT_TRUE(pool != nullptr) ? pool : MakePool(place);
}

PinnedAllocator* PinnedAllocator::Make(DeviceRecord* device) {
  static Mutex* const making = new Mutex;
  InstallPinnedHooks(&kHooks);
  MutexLock lock(making);
  PinnedAllocator* made = device->pinned.load(std::memory_order_acquire);
  if (made != nullptr) return made;
  made = new PinnedAllocator(device->backend);
  if (FixSettings(SettingsUse::kPinnedMemory).pinned_background) {
    made->background_ = StartBackground(made);
  }
  for (DeviceRecord* each : device->backend->devices) {
    each->pinned.store(made, std::memory_order_release);
  }
  return made;
}

PinnedAllocator* PinnedAllocator::Existing(const BackendRecord* backend) {
  return backend->devices.empty()
             ? nullptr
             : backend->devices[0]->pinned.load(std::memory_order_acquire);
}

// ---- Free blocks ------------------------------------------------------------

// Counts first: while the count waits, the pool is as it was.
ABSL_ATTRIBUTE_ALWAYS_INLINE inline void PinnedAllocator::HandOut(
    PinnedPool* pool, PinnedBlock* block, const Request& r) {
  Change c;
  c.up[kActive] = 1;
  c.up[kActiveBytes] =
      static_cast<int64_t>(block->size.load(std::memory_order_relaxed));
  Count(&ledger_, pool, c);
  if (block->use == BlockUse::kFree) pool->Unlink(block);
  block->use = BlockUse::kLive;
  block->requested = r.bytes;
  block->device = r.device;
  block->site = r.site;
  // Bit 62 keeps these ids apart from those of the AllocationTable.
  block->id =
      uint64_t{1} << 62 | uint64_t{pool->number} << 40 | ++pool->allocations;
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline void PinnedAllocator::CountFree(
    PinnedPool* pool, const PinnedBlock* block) {
  Change c;
  c.down[kActive] = 1;
  c.down[kActiveBytes] =
      static_cast<int64_t>(block->size.load(std::memory_order_relaxed));
  Count(&ledger_, pool, c);
}

ABSL_ATTRIBUTE_ALWAYS_INLINE inline void PinnedAllocator::TakeBack(
    PinnedPool* pool, PinnedBlock* block) {
  CountFree(pool, block);
  pool->Add(block);
}

inline PinnedBlock* PinnedAllocator::TakeFromPool(PinnedPool* pool,
                                                  const Request& r) {
  SpinLockHolder hold(&pool->lock);
  PinnedBlock* const block = pool->Find(r.size, r.most);
  if (ABSL_PREDICT_FALSE(block == nullptr)) {
    if (IsSmall(r.size)) pool->keeper.NoteShortage();
    return nullptr;
  }
  HandOut(pool, block, r);
  return block;
}

PinnedBlock* PinnedAllocator::TakeFromOthers(PinnedPool* pool, const Request& r,
                                             bool room) {
  const bool small = IsSmall(r.size);
  for (const std::atomic<PinnedPool*>& each : pools_) {
    PinnedPool* const other = each.load(std::memory_order_acquire);
    if (other == nullptr || other == pool) continue;
    PinnedBlock* block = nullptr;
    {
      SpinLockHolder hold(&other->lock);
      block = other->Find(r.size, r.most);
      if (block == nullptr) continue;
      if (small && room && other->IsAlone(block) &&
          other->keeper.Keeps(other->allocations)) {
        continue;
      }
      other->Unlink(block);
      block->use = BlockUse::kNone;
      block->pool.store(pool, std::memory_order_release);
      if (small) other->keeper.NoteLoss();
    }
    SpinLockHolder hold(&pool->lock);
    HandOut(pool, block, r);
    return block;
  }
  return nullptr;
}

PinnedBlock* PinnedAllocator::TakeCached(PinnedPool* pool, const Request& r,
                                         bool room) {
  PinnedBlock* const block = TakeFromPool(pool, r);
  return block != nullptr ? block : TakeFromOthers(pool, r, room);
}

// ---- The calls --------------------------------------------------------------

absl::StatusOr<void*> PinnedAllocator::Allocate(DeviceRecord* device,
                                                uint64_t bytes, CallSite site) {
  const uint64_t limit = CurrentSettings().pinned_class_limit;
  const uint64_t size = PinnedSize(bytes, limit, page_);
  const Request r = {device, bytes, size, bytes > limit ? MostFor(size) : size,
                     site};
  PinnedPool* const pool = PoolOfThread();
  PinnedBlock* block = TakeFromPool(pool, r);
  if (ABSL_PREDICT_FALSE(block == nullptr)) {
    DEVRT_ASSIGN_OR_RETURN(block, Recover(pool, r));
  }
  void* const base = block->base.load(std::memory_order_relaxed);
  if (ABSL_PREDICT_FALSE(race_.table != nullptr)) TellHandOut(r, base);
  return base;
}

void PinnedAllocator::TellHandOut(const Request& r, void* base) const {
  const CallSiteScope site(r.site);
  race_.table->pinned_hand_out(race_.self, r.device->ordinal, base, r.bytes);
}

void PinnedAllocator::TellTakeBack(void* base, CallSite called) const {
  const CallSiteScope site(called);
  race_.table->pinned_take_back(race_.self, base);
}

absl::StatusOr<PinnedBlock*> PinnedAllocator::Recover(PinnedPool* pool,
                                                      const Request& r) {
  DEVRT_RETURN_IF_ERROR(SettingsMistake());
  if (PinnedBlock* block = TakeFromOthers(pool, r, true)) return block;
  if (!pending_.empty()) {
    pending_.Poll(SIZE_MAX);
    if (PinnedBlock* block = TakeCached(pool, r, true)) return block;
  }
  absl::StatusOr<PinnedBlock*> made = AllocateNative(pool, r);
  absl::Status gave_up;
  for (const bool wait : {false, true}) {
    if (!absl::IsResourceExhausted(made.status())) return made;
    if (wait) {
      if (pending_.empty()) break;
      gave_up = pending_.WaitForAll();
    }
    if (PinnedBlock* block = TakeCached(pool, r, false)) return block;
    // An error here does not matter: the next try tells.
    ReleaseCached().IgnoreError();
    made = AllocateNative(pool, r);
  }
  if (!absl::IsResourceExhausted(made.status())) return made;
  OutOfMemoryInfo info;
  info.requested = r.bytes;
  return OutOfMemoryError(r.device, info, made.status(), gave_up);
}

inline PinnedAllocator::Return PinnedAllocator::ReturnToPool(
    PinnedBlock* block, const void* pointer, CallSite site, bool plain)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  const PinnedBlockLock hold(block);
  const bool live = block->base.load(std::memory_order_relaxed) == pointer &&
                    block->use == BlockUse::kLive;
  if (ABSL_PREDICT_FALSE(!live)) return Return::kNotLive;
  if (ABSL_PREDICT_FALSE(!block->uses.points.empty() ||
                         !block->uses.open.empty())) {
    if (!plain) {
      block->site = site;
      block->use = BlockUse::kClosing;
    }
    return Return::kUses;
  }
  block->site = site;
  block->allocator->TakeBack(hold.pool(), block);
  return Return::kDone;
}

bool PinnedAllocator::FreePlainly(void* pointer, CallSite site) {
  PinnedBlock* const block = PinnedMap::Get().FindBase(pointer);
  return block != nullptr && block->allocator->race_.table == nullptr &&
         ReturnToPool(block, pointer, site, true) == Return::kDone;
}

absl::Status PinnedAllocator::Free(void* pointer, CallSite site) {
  PinnedBlock* const block = PinnedMap::Get().FindBase(pointer);
  if (ABSL_PREDICT_TRUE(block != nullptr)) {
    if (ABSL_PREDICT_FALSE(block->allocator->race_.table != nullptr)) {
      block->allocator->TellTakeBack(pointer, site);
    }
    const Return done = ReturnToPool(block, pointer, site, false);
    if (done == Return::kUses) block->allocator->CloseUses(block);
    if (ABSL_PREDICT_TRUE(done != Return::kNotLive)) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("FreePinned needs the beginning of a live block from "
                   "AllocatePinned, but ",
                   DescribePointer(pointer)));
}

void PinnedAllocator::Settle(void* item)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  PinnedBlock* const block = static_cast<PinnedBlock*>(item);
  const PinnedBlockLock hold(block);
  block->allocator->TakeBack(hold.pool(), block);
}

absl::Status PinnedAllocator::EmptyCache() {
  if (!pending_.empty()) pending_.Poll(SIZE_MAX);
  return ReleaseCached();
}

void PinnedAllocator::CloseUses(PinnedBlock* block) {
  // The block is kClosing: no other thread accesses its uses.
  BlockUses uses = std::move(block->uses);
  block->uses.points.clear();
  block->uses.open.clear();
  for (const BlockUses::Open& open : uses.open) {
    const uint64_t epoch = open.timeline->Now();
    if (IsOpen(open.timeline->device())) {
      open.timeline->CheckpointUnlessDestroyed(epoch).IgnoreError();
    }
    uses.Add(open.stream, open.timeline, epoch);
  }
  PendingFree item;
  item.block = block;
  item.uses = std::move(uses.points);
  if (PendingFrees::IsOver(&item)) {
    Settle(block);
    return;
  }
  {
    const PinnedBlockLock hold(block);
    block->use = BlockUse::kPending;
  }
  pending_.Add(std::move(item));
  if (background_) WakeBackground();
}

// ---- Native blocks ----------------------------------------------------------

absl::StatusOr<PinnedBlock*> PinnedAllocator::AllocateNative(PinnedPool* pool,
                                                             const Request& r) {
  DEVRT_ASSIGN_OR_RETURN(const PinnedSource::Native native,
                         source_.Allocate(r.device, r.size, r.site));
  ledger_.CountSegment(kSmallRow, static_cast<int64_t>(r.size), false);
  PinnedBlock* const block = records_.Acquire();
  {
    // A reader may still look at the block that the record was before.
    const PinnedBlockLock hold(block);
    block->pool.store(pool, std::memory_order_release);
  }
  {
    SpinLockHolder hold(&pool->lock);
    block->size.store(r.size, std::memory_order_relaxed);
    block->origin = native.origin;
    block->native_device = r.device;
    block->base.store(native.base, std::memory_order_release);
    HandOut(pool, block, r);
  }
  PinnedMap::Get().Add(block);
  return block;
}

absl::Status PinnedAllocator::ReleaseNative(PinnedBlock* block) {
  void* const base = block->base.load(std::memory_order_relaxed);
  const uint64_t size = block->size.load(std::memory_order_relaxed);
  // Before the driver's free, which may give the address to another thread.
  PinnedMap::Get().Remove(block);
  const absl::Status status = source_.Free(block->native_device, size,
                                           {base, block->origin}, block->site);
  if (!status.ok()) {
    PinnedMap::Get().Add(block);
    return status;
  }
  Forget(block);
  return absl::OkStatus();
}

// The block is in no list and in no map.
void PinnedAllocator::Forget(PinnedBlock* block) {
  const uint64_t size = block->size.load(std::memory_order_relaxed);
  {
    const PinnedBlockLock hold(block);
    block->use = BlockUse::kNone;
    block->base.store(nullptr, std::memory_order_release);
  }
  ledger_.CountSegment(kSmallRow, -static_cast<int64_t>(size), false);
  records_.Return(block);
}

absl::Status PinnedAllocator::ReleaseCached() {
  absl::Status first;
  for (const std::atomic<PinnedPool*>& each : pools_) {
    PinnedPool* const pool = each.load(std::memory_order_acquire);
    if (pool == nullptr) continue;
    for (PinnedBlock* block : pool->TakeAll()) {
      const absl::Status status = ReleaseNative(block);
      if (status.ok()) continue;
      SpinLockHolder hold(&pool->lock);
      pool->Add(block);
      if (first.ok()) first = status;
    }
  }
  return first;
}

// Pending blocks are neither reused nor given back: work may still access them.
void PinnedAllocator::AbandonPending()
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  for (void* item : pending_.TakeAll()) {
    PinnedBlock* const block = static_cast<PinnedBlock*>(item);
    PinnedMap::Get().Remove(block);
    {
      const PinnedBlockLock hold(block);
      CountFree(hold.pool(), block);
    }
    Forget(block);
  }
}

void PinnedAllocator::Release(DeviceRecord* device) {
  const BackgroundPause paused;
  // The device was waited for.  A lost device does not answer, and memory that
  // its work may still access is left alone.
  if (!pending_.empty()) pending_.Poll(SIZE_MAX);
  if (!TakesHandlesBack(device)) {
    AbandonPending();
  } else {
    pending_.WaitForAll().IgnoreError();
    // Abandoned blocks: their timelines end with the devices, which says
    // nothing about the work.  A simulator's reset forgets the memory.
    if (device == backend_->devices.back()) AbandonPending();
  }
  const absl::Status status = ReleaseCached();
  if (!status.ok()) {
    DEVRT_LOG(kWarning,
              absl::StrCat("cached pinned memory of ", DeviceName(device),
                           " was not given back: ",
                           std::string(ToStd(status.message()))));
  }
}

int64_t PinnedAllocator::CountLive(const DeviceRecord* device) {
  int64_t live = 0;
  for (PinnedBlock* block : records_.All()) {
    const PinnedBlockLock hold(block);
    if (hold.pool() == nullptr || block->use != BlockUse::kLive) continue;
    live += block->device == device ? 1 : 0;
  }
  return live;
}

// ---- Statistics -------------------------------------------------------------

PinnedStatistics PinnedAllocator::Statistics() {
  const MemoryStatistics figures = ledger_.Read();
  PinnedStatistics s = source_.Times();
  s.allocations = figures.segment.all;
  s.allocated_bytes = figures.reserved_bytes.all;
  s.active_requests = figures.active.all;
  s.active_bytes = figures.active_bytes.all;
  return s;
}

void PinnedAllocator::ResetAccumulated() {
  ledger_.ResetAccumulated();
  source_.ResetTimes();
}

}  // namespace devrt::internal
