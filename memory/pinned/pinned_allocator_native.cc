// SPDX-License-Identifier: Apache-2.0
//
// PinnedAllocator: native blocks from the backend and back.

#include <time.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "memory/common/settings_state.h"
#include "memory/pinned/background.h"
#include "memory/pinned/pinned_allocator.h"
#include "memory/pinned/pinned_map.h"
#include "memory/pinned/pinned_pages.h"
#include "runtime/internal/blocks.h"
#include "runtime/internal/host_table.h"
#include "runtime/internal/text.h"
#include "streams/internal/relaxed_captures.h"

namespace devrt::internal {
namespace {

int64_t Microseconds() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000 + now.tv_nsec / 1000;
}

absl::StatusOr<void*> Register(DeviceRecord* device, uint64_t size) {
  void* const base = MapPages(size);
  if (base == nullptr) {
    return absl::ResourceExhaustedError(
        absl::StrCat("The system gives no ", size, " bytes of host pages."));
  }
  TouchPages(base, size, CurrentSettings().pinned_register_threads);
  const RelaxedCaptures relaxed(device);
  const absl::Status status =
      FromPlugin(device,
                 device->ops->host_register(device->self, device->ordinal, base,
                                            RoundUp(size, PageSize())),
                 "host registration");
  if (status.ok()) return base;
  UnmapPages(base, size);
  return status;
}

absl::StatusOr<void*> HostAlloc(DeviceRecord* device, uint64_t size) {
  void* base = nullptr;
  const RelaxedCaptures relaxed(device);
  DEVRT_RETURN_IF_ERROR(
      FromPlugin(device,
                 device->ops->host_alloc(device->self, device->ordinal, size,
                                         kGranule, &base),
                 "pinned allocation"));
  if (base != nullptr && reinterpret_cast<uintptr_t>(base) % kGranule == 0) {
    return base;
  }
  return absl::InternalError(
      absl::StrCat("host_alloc of backend \"", device->backend->name,
                   "\" gave a block at ", Hex(base), " where one aligned to ",
                   kGranule, " bytes was asked for (contract P10)"));
}

}  // namespace

PinnedBlock* PinnedAllocator::NewRecord() {
  MutexLock lock(&mutex_);
  if (unused_.empty()) {
    records_.push_back(std::make_unique<PinnedBlock>());
    unused_.push_back(records_.back().get());
    unused_.back()->allocator = this;
  }
  PinnedBlock* const block = unused_.back();
  unused_.pop_back();
  return block;
}

void PinnedAllocator::RecycleRecord(PinnedBlock* block) {
  MutexLock lock(&mutex_);
  unused_.push_back(block);
}

absl::StatusOr<PinnedBlock*> PinnedAllocator::AllocateNative(const Request& r) {
  const PinnedOrigin origin = CurrentSettings().pinned_register
                                  ? PinnedOrigin::kRegistered
                                  : PinnedOrigin::kHostAlloc;
  const int64_t begin = Microseconds();
  void* base = nullptr;
  {
    const CallSiteScope noted(r.site);
    DEVRT_ASSIGN_OR_RETURN(base, origin == PinnedOrigin::kRegistered
                                     ? Register(r.device, r.size)
                                     : HostAlloc(r.device, r.size));
  }
  PinnedBlock* const block = NewRecord();
  Class& c = ClassOf(r.size);
  AddClassToLedger(&c);
  {
    // A reader may still look at the block that the record was before.
    SpinLockHolder hold(&c.lock);
    block->size.store(r.size, std::memory_order_relaxed);
    block->origin = origin;
    block->native_device = r.device;
    block->base.store(base, std::memory_order_release);
    HandOut(block, r);
  }
  Change change;
  change.up[kAllocation] = change.up[kActive] = 1;
  change.up[kAllocatedBytes] = change.up[kActiveBytes] =
      static_cast<int64_t>(r.size);
  Count(&c, change);
  PinnedMap::Get().Add(block);
  MutexLock lock(&mutex_);
  ++times_.num_host_alloc;
  NoteTime(&times_.host_alloc_time, Microseconds() - begin);
  return block;
}

absl::Status PinnedAllocator::ReleaseNative(PinnedBlock* block) {
  void* const base = block->base.load(std::memory_order_relaxed);
  const uint64_t size = block->size.load(std::memory_order_relaxed);
  DeviceRecord* const device = block->native_device;
  const bool registered = block->origin == PinnedOrigin::kRegistered;
  const int64_t begin = Microseconds();
  // Before the driver's free, which may give the address to another thread.
  PinnedMap::Get().Remove(block);
  absl::Status status;
  // On a lost device the driver is not called, and pages that a transfer may
  // still access stay (docs/semantics.md 2.5).
  if (TakesHandlesBack(device)) {
    const RelaxedCaptures relaxed(device);
    devrt_status error =
        registered ? device->ops->host_unregister(device->self, base)
                   : device->ops->host_dealloc(device->self, base, size);
    status = FromPlugin(device, error, "pinned free");
    if (status.ok() && registered) UnmapPages(base, size);
  }
  if (!status.ok() && IsOpen(device)) {
    PinnedMap::Get().Add(block);
    return status;
  }
  Class& c = ClassOf(size);
  Change change;
  change.down[kAllocation] = 1;
  change.down[kAllocatedBytes] = static_cast<int64_t>(size);
  {
    SpinLockHolder hold(&c.lock);
    c.shard.Apply(kSmallRow, change);
    block->use = BlockUse::kNone;
    block->base.store(nullptr, std::memory_order_release);
  }
  RecycleRecord(block);
  MutexLock lock(&mutex_);
  ++times_.num_host_free;
  NoteTime(&times_.host_free_time, Microseconds() - begin);
  return absl::OkStatus();
}

absl::Status PinnedAllocator::ReleaseCached() {
  absl::Status first;
  for (Class& c : classes_) {
    std::vector<PinnedBlock*> blocks;
    {
      SpinLockHolder hold(&c.lock);
      for (PinnedBlock* b = std::exchange(c.exact, nullptr); b != nullptr;) {
        blocks.push_back(b);
        b = std::exchange(b->next, nullptr);
      }
      for (const auto& [size, block] : c.others) blocks.push_back(block);
      c.others.clear();
      for (PinnedBlock* block : blocks) block->use = BlockUse::kNone;
    }
    for (PinnedBlock* block : blocks) {
      const absl::Status status = ReleaseNative(block);
      if (status.ok()) continue;
      SpinLockHolder hold(&c.lock);
      AddFree(&c, block);
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
      Class& c = ClassOf(size);
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
    RecycleRecord(block);
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

}  // namespace devrt::internal
