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

Change Active(uint64_t size) {
  Change c;
  c.up[kActive] = 1;
  c.up[kActiveBytes] = static_cast<int64_t>(size);
  return c;
}

Change Inactive(uint64_t size) {
  Change c;
  c.down[kActive] = 1;
  c.down[kActiveBytes] = static_cast<int64_t>(size);
  return c;
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

void PinnedAllocator::AddClassToLedger(PinnedClass* c) {
  MutexLock lock(&mutex_);
  if (std::exchange(c->is_counted, true)) return;
  ledger_.Add(&c->lock, &c->shard);
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

void PinnedAllocator::HandOut(PinnedBlock* block, const Request& r) {
  static std::atomic<uint64_t> last_id{uint64_t{1} << 62};
  block->use = BlockUse::kLive;
  block->requested = r.bytes;
  block->device = r.device;
  block->site = r.site;
  // Bit 62 keeps these ids apart from those of the AllocationTable.
  block->id = 1 + last_id.fetch_add(1, std::memory_order_relaxed);
}

PinnedBlock* PinnedAllocator::TakeFromClass(PinnedClass* c, const Request& r) {
  {
    SpinLockHolder hold(&c->lock);
    PinnedBlock* block = c->Find(r.size, r.most);
    if (block == nullptr) return nullptr;
    // Two temporaries on purpose: one Change for both calls would be kept in
    // memory, while the first call alone keeps it in registers.
    const uint64_t size = block->size.load(std::memory_order_relaxed);
    if (ABSL_PREDICT_TRUE(c->shard.Apply(kSmallRow, Active(size)) ||
                          ledger_.Count(&c->shard, kSmallRow, Active(size)))) {
      c->Unlink(block);
      HandOut(block, r);
      return block;
    }
  }
  Ledger::Exclusive all(&ledger_);
  c->lock.AssertHeld();
  PinnedBlock* block = c->Find(r.size, r.most);
  if (block == nullptr) return nullptr;
  all.Count(&c->shard, kSmallRow,
            Active(block->size.load(std::memory_order_relaxed)));
  c->Unlink(block);
  HandOut(block, r);
  return block;
}

PinnedBlock* PinnedAllocator::TakeCached(const Request& r) {
  PinnedClass* const first = &ClassOf(r.size);
  PinnedClass* const last = &ClassOf(r.most);
  PinnedBlock* block = TakeFromClass(first, r);
  if (block == nullptr && last != first) block = TakeFromClass(last, r);
  return block;
}

void PinnedAllocator::Count(PinnedClass* c, const Change& change) {
  {
    SpinLockHolder hold(&c->lock);
    if (c->shard.Apply(kSmallRow, change) ||
        ledger_.Count(&c->shard, kSmallRow, change)) {
      return;
    }
  }
  Ledger::Exclusive all(&ledger_);
  all.Count(&c->shard, kSmallRow, change);
}

// ---- The calls --------------------------------------------------------------

absl::StatusOr<void*> PinnedAllocator::Allocate(DeviceRecord* device,
                                                uint64_t bytes, CallSite site) {
  const uint64_t limit = CurrentSettings().pinned_class_limit;
  const uint64_t size = PinnedSize(bytes, limit, page_);
  const Request r = {device, bytes, size, bytes > limit ? MostFor(size) : size,
                     site};
  PinnedBlock* block = TakeCached(r);
  if (ABSL_PREDICT_FALSE(block == nullptr)) {
    DEVRT_ASSIGN_OR_RETURN(block, Recover(r));
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

absl::StatusOr<PinnedBlock*> PinnedAllocator::Recover(const Request& r) {
  DEVRT_RETURN_IF_ERROR(SettingsMistake());
  if (!pending_.empty()) {
    pending_.Poll(SIZE_MAX);
    if (PinnedBlock* block = TakeCached(r)) return block;
  }
  absl::StatusOr<PinnedBlock*> made = AllocateNative(r);
  absl::Status gave_up;
  for (const bool wait : {false, true}) {
    if (!absl::IsResourceExhausted(made.status())) return made;
    if (wait) {
      if (pending_.empty()) break;
      gave_up = pending_.WaitForAll();
    }
    if (PinnedBlock* block = TakeCached(r)) return block;
    // An error here does not matter: the next try tells.
    ReleaseCached().IgnoreError();
    made = AllocateNative(r);
  }
  if (!absl::IsResourceExhausted(made.status())) return made;
  OutOfMemoryInfo info;
  info.requested = r.bytes;
  return OutOfMemoryError(r.device, info, made.status(), gave_up);
}

inline PinnedAllocator::Return PinnedAllocator::ReturnToClass(
    PinnedBlock* block, const void* pointer, CallSite site, bool plain) {
  PinnedAllocator* const self = block->allocator;
  const uint64_t size = block->size.load(std::memory_order_relaxed);
  PinnedClass& c = self->ClassOf(size);
  SpinLockHolder hold(&c.lock);
  const bool live = block->base.load(std::memory_order_relaxed) == pointer &&
                    block->size.load(std::memory_order_relaxed) == size &&
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
  c.Add(block);
  // Cannot fail: the figures shrink.
  c.shard.Apply(kSmallRow, Inactive(size));
  return Return::kDone;
}

bool PinnedAllocator::FreePlainly(void* pointer, CallSite site) {
  PinnedBlock* const block = PinnedMap::Get().FindBase(pointer);
  return block != nullptr && block->allocator->race_.table == nullptr &&
         ReturnToClass(block, pointer, site, true) == Return::kDone;
}

absl::Status PinnedAllocator::Free(void* pointer, CallSite site) {
  PinnedBlock* const block = PinnedMap::Get().FindBase(pointer);
  if (ABSL_PREDICT_TRUE(block != nullptr)) {
    if (ABSL_PREDICT_FALSE(block->allocator->race_.table != nullptr)) {
      block->allocator->TellTakeBack(pointer, site);
    }
    const Return done = ReturnToClass(block, pointer, site, false);
    if (done == Return::kUses) block->allocator->CloseUses(block);
    if (ABSL_PREDICT_TRUE(done != Return::kNotLive)) return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("FreePinned needs the beginning of a live block from "
                   "AllocatePinned, but ",
                   DescribePointer(pointer)));
}

void PinnedAllocator::Settle(void* item) {
  PinnedBlock* const block = static_cast<PinnedBlock*>(item);
  const uint64_t size = block->size.load(std::memory_order_relaxed);
  PinnedClass& c = block->allocator->ClassOf(size);
  SpinLockHolder hold(&c.lock);
  c.Add(block);
  c.shard.Apply(kSmallRow, Inactive(size));
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
    PinnedClass& c = ClassOf(block->size.load(std::memory_order_relaxed));
    SpinLockHolder hold(&c.lock);
    block->use = BlockUse::kPending;
  }
  pending_.Add(std::move(item));
  if (background_) WakeBackground();
}

// ---- Native blocks ----------------------------------------------------------

absl::StatusOr<PinnedBlock*> PinnedAllocator::AllocateNative(const Request& r) {
  DEVRT_ASSIGN_OR_RETURN(const PinnedSource::Native native,
                         source_.Allocate(r.device, r.size, r.site));
  PinnedBlock* const block = records_.Acquire();
  PinnedClass& c = ClassOf(r.size);
  AddClassToLedger(&c);
  {
    // A reader may still look at the block that the record was before.
    SpinLockHolder hold(&c.lock);
    block->size.store(r.size, std::memory_order_relaxed);
    block->origin = native.origin;
    block->native_device = r.device;
    block->base.store(native.base, std::memory_order_release);
    HandOut(block, r);
  }
  Change change;
  change.up[kAllocation] = change.up[kActive] = 1;
  change.up[kAllocatedBytes] = change.up[kActiveBytes] =
      static_cast<int64_t>(r.size);
  Count(&c, change);
  PinnedMap::Get().Add(block);
  return block;
}

absl::Status PinnedAllocator::ReleaseNative(PinnedBlock* block) {
  void* const base = block->base.load(std::memory_order_relaxed);
  const uint64_t size = block->size.load(std::memory_order_relaxed);
  // Before the driver's free, which may give the address to another thread.
  PinnedMap::Get().Remove(block);
  const absl::Status status =
      source_.Free(block->native_device, size, {base, block->origin});
  if (!status.ok()) {
    PinnedMap::Get().Add(block);
    return status;
  }
  PinnedClass& c = ClassOf(size);
  Change change;
  change.down[kAllocation] = 1;
  change.down[kAllocatedBytes] = static_cast<int64_t>(size);
  {
    SpinLockHolder hold(&c.lock);
    c.shard.Apply(kSmallRow, change);
    block->use = BlockUse::kNone;
    block->base.store(nullptr, std::memory_order_release);
  }
  records_.Return(block);
  return absl::OkStatus();
}

absl::Status PinnedAllocator::ReleaseCached() {
  absl::Status first;
  for (PinnedClass& c : classes_) {
    for (PinnedBlock* block : c.TakeAll()) {
      const absl::Status status = ReleaseNative(block);
      if (status.ok()) continue;
      SpinLockHolder hold(&c.lock);
      c.Add(block);
      if (first.ok()) first = status;
    }
  }
  return first;
}

// Pending blocks are neither reused nor given back: work may still access them.
void PinnedAllocator::AbandonPending() {
  for (void* item : pending_.TakeAll()) {
    PinnedBlock* const block = static_cast<PinnedBlock*>(item);
    const uint64_t size = block->size.load(std::memory_order_relaxed);
    {
      PinnedClass& c = ClassOf(size);
      SpinLockHolder hold(&c.lock);
      block->use = BlockUse::kNone;
      Change change;
      change.down[kActive] = change.down[kAllocation] = 1;
      change.down[kActiveBytes] = change.down[kAllocatedBytes] =
          static_cast<int64_t>(size);
      c.shard.Apply(kSmallRow, change);
    }
    PinnedMap::Get().Remove(block);
    block->base.store(nullptr, std::memory_order_release);
    records_.Return(block);
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
    const uint64_t size = block->size.load(std::memory_order_relaxed);
    if (size == 0) continue;
    SpinLockHolder hold(&ClassOf(size).lock);
    if (!IsOf(*block, size) || block->use != BlockUse::kLive) continue;
    live += block->device == device ? 1 : 0;
  }
  return live;
}

// ---- Statistics -------------------------------------------------------------

PinnedStatistics PinnedAllocator::Statistics() {
  const LedgerFigures figures = ledger_.Figures();
  const auto stat = [&figures](Metric m) {
    const int64_t current = figures.current[kAllRow][m];
    const int64_t allocated = figures.allocated[kAllRow][m];
    return Stat{current, figures.peak[kAllRow][m], allocated,
                allocated - current};
  };
  PinnedStatistics s = source_.Times();
  s.allocations = stat(kAllocation);
  s.active_requests = stat(kActive);
  s.allocated_bytes = stat(kAllocatedBytes);
  s.active_bytes = stat(kActiveBytes);
  return s;
}

void PinnedAllocator::ResetAccumulated() {
  ledger_.ResetAccumulated();
  source_.ResetTimes();
}

}  // namespace devrt::internal
