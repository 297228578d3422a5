// SPDX-License-Identifier: Apache-2.0

#include "memory/pinned/pinned_allocator.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/status.h"
#include "memory/common/hooks.h"
#include "memory/common/settings_state.h"
#include "memory/pinned/background.h"
#include "memory/pinned/pinned_map.h"
#include "memory/pinned/pinned_pages.h"
#include "runtime/internal/blocks.h"
#include "runtime/internal/out_of_memory.h"
#include "runtime/internal/text.h"

namespace devrt::internal {
namespace {

// A cached block of whole pages serves requests of at least 7/8 of its size.
constexpr uint64_t MostFor(uint64_t size) { return size / 7 * 8; }

constexpr bool IsPowerOfTwo(uint64_t x) { return (x & (x - 1)) == 0; }

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

}  // namespace

PinnedAllocator::PinnedAllocator(BackendRecord* backend)
    : backend_(backend), page_(PageSize()), pending_(&Settle) {}

void PinnedAllocator::AddClassToLedger(Class* c) {
  MutexLock lock(&mutex_);
  if (std::exchange(c->is_counted, true)) return;
  ledger_.Add(&c->lock, &c->shard);
}

PinnedAllocator* PinnedAllocator::Make(DeviceRecord* device) {
  static Mutex* const making = new Mutex;
  InstallMemoryHooks();
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

PinnedBlock* PinnedAllocator::FindFree(Class* c, const Request& r) {
  const auto other = c->others.lower_bound(r.size);
  PinnedBlock* block = other == c->others.end() ? nullptr : other->second;
  if (c->exact != nullptr) {
    const uint64_t size = c->exact->size.load(std::memory_order_relaxed);
    // No block of the class is smaller.
    if (size >= r.size) block = c->exact;
  }
  if (block == nullptr ||
      block->size.load(std::memory_order_relaxed) > r.most) {
    return nullptr;
  }
  return block;
}

void PinnedAllocator::Unlink(Class* c, PinnedBlock* block) {
  if (block == c->exact) {
    c->exact = std::exchange(block->next, nullptr);
    return;
  }
  const uint64_t size = block->size.load(std::memory_order_relaxed);
  auto [at, end] = c->others.equal_range(size);
  at = std::find_if(at, end, [&](const auto& e) { return e.second == block; });
  if (at != end) c->others.erase(at);
}

void PinnedAllocator::AddFree(Class* c, PinnedBlock* block) {
  block->use = BlockUse::kFree;
  const uint64_t size = block->size.load(std::memory_order_relaxed);
  if (IsPowerOfTwo(size)) {
    block->next = std::exchange(c->exact, block);
  } else {
    c->others.emplace(size, block);
  }
}

void PinnedAllocator::HandOut(PinnedBlock* block, const Request& r) {
  static std::atomic<uint64_t> last_id{uint64_t{1} << 62};
  block->use = BlockUse::kLive;
  block->requested = r.bytes;
  block->device = r.device;
  block->site = r.site;
  // Bit 62 keeps these ids apart from those of the AllocationTable.
  block->id = 1 + last_id.fetch_add(1, std::memory_order_relaxed);
}

PinnedBlock* PinnedAllocator::TakeFromClass(Class* c, const Request& r) {
  {
    SpinLockHolder hold(&c->lock);
    PinnedBlock* block = FindFree(c, r);
    if (block == nullptr) return nullptr;
    // Two temporaries on purpose: one Change for both calls would be kept in
    // memory, while the first call alone keeps it in registers.
    const uint64_t size = block->size.load(std::memory_order_relaxed);
    if (ABSL_PREDICT_TRUE(c->shard.Apply(kSmallRow, Active(size)) ||
                          ledger_.Count(&c->shard, kSmallRow, Active(size)))) {
      Unlink(c, block);
      HandOut(block, r);
      return block;
    }
  }
  Ledger::Exclusive all(&ledger_);
  c->lock.AssertHeld();
  PinnedBlock* block = FindFree(c, r);
  if (block == nullptr) return nullptr;
  all.Count(&c->shard, kSmallRow,
            Active(block->size.load(std::memory_order_relaxed)));
  Unlink(c, block);
  HandOut(block, r);
  return block;
}

PinnedBlock* PinnedAllocator::TakeCached(const Request& r) {
  Class* const first = &ClassOf(r.size);
  Class* const last = &ClassOf(r.most);
  PinnedBlock* block = TakeFromClass(first, r);
  if (block == nullptr && last != first) block = TakeFromClass(last, r);
  return block;
}

void PinnedAllocator::Count(Class* c, const Change& change) {
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
  return block->base.load(std::memory_order_relaxed);
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
  Class& c = self->ClassOf(size);
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
  self->AddFree(&c, block);
  // Cannot fail: the figures shrink.
  c.shard.Apply(kSmallRow, Inactive(size));
  return Return::kDone;
}

bool PinnedAllocator::FreePlainly(void* pointer, CallSite site) {
  PinnedBlock* const block = PinnedMap::Get().FindBase(pointer);
  return block != nullptr &&
         ReturnToClass(block, pointer, site, true) == Return::kDone;
}

absl::Status PinnedAllocator::Free(void* pointer, CallSite site) {
  PinnedBlock* const block = PinnedMap::Get().FindBase(pointer);
  if (ABSL_PREDICT_TRUE(block != nullptr)) {
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
  Class& c = block->allocator->ClassOf(size);
  SpinLockHolder hold(&c.lock);
  block->allocator->AddFree(&c, block);
  c.shard.Apply(kSmallRow, Inactive(size));
}

absl::Status PinnedAllocator::EmptyCache() {
  if (!pending_.empty()) pending_.Poll(SIZE_MAX);
  return ReleaseCached();
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
  MutexLock lock(&mutex_);
  PinnedStatistics s = times_;
  s.allocations = stat(kAllocation);
  s.active_requests = stat(kActive);
  s.allocated_bytes = stat(kAllocatedBytes);
  s.active_bytes = stat(kActiveBytes);
  return s;
}

void PinnedAllocator::ResetAccumulated() {
  ledger_.ResetAccumulated();
  MutexLock lock(&mutex_);
  times_ = {};
}

void PinnedAllocator::NoteTime(DurationStat* stat, int64_t microseconds) {
  stat->total += microseconds;
  stat->max = std::max(stat->max, microseconds);
  stat->min =
      stat->count == 0 ? microseconds : std::min(stat->min, microseconds);
  ++stat->count;
  stat->avg = stat->total / stat->count;
}

}  // namespace devrt::internal
