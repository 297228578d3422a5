// SPDX-License-Identifier: Apache-2.0
//
// DeviceAllocator: expandable segments.  Addresses once for each pool, more
// than the device has memory; pages of memory put behind them and taken away.
//
//   small  pages of 2 MiB, 1 GiB of addresses
//   large  pages of 20 MiB, addresses for 9/8 of the device
//
// or the next multiple of the driver's granularity.

#include <algorithm>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "memory/common/hot_settings.h"
#include "memory/device/address_map.h"
#include "memory/device/device_allocator.h"
#include "runtime/internal/blocks.h"
#include "runtime/internal/host_table.h"
#include "runtime/internal/text.h"

namespace devrt::internal {

namespace {

constexpr uint64_t kSmallAddresses = 1024 * kMiB;
// Blocks count in granules of 32 bits.
constexpr uint64_t kMostAddresses = uint64_t{1} << 40;

Row RowOf(const Segment* segment) {
  return segment->small ? kSmallRow : kLargeRow;
}

}  // namespace

// 0: this device has none; says so once.
uint64_t DeviceAllocator::Granularity() {
  uint64_t known = granularity_.load(std::memory_order_relaxed);
  if (known != kUnknown) return known;
  known = 0;
  absl::Status status = absl::UnimplementedError(
      absl::StrCat("backend ", Quoted(device_->backend->name),
                   " has no extension ", DEVRT_VIRTUAL_MEMORY_EXTENSION));
  if (virtual_memory_.table != nullptr) {
    devrt_virtual_memory_info_v0 info{};
    info.struct_size = sizeof info;
    status = FromPlugin(device_,
                        virtual_memory_.table->info(virtual_memory_.self,
                                                    device_->ordinal, &info),
                        "virtual memory");
    if (status.ok()) known = info.granularity;
  }
  if (granularity_.exchange(known) == kUnknown && known == 0) {
    DEVRT_LOG(kWarning,
              absl::StrCat("expandable_segments is ignored on ",
                           DeviceName(device_), ": ", status.message()));
  }
  return known;
}

bool DeviceAllocator::IsExpandable() {
  return hot_settings.expandable_segments.load(std::memory_order_relaxed) &&
         Granularity() != 0;
}

// ---- Addresses --------------------------------------------------------------

// nullptr: the driver gives none, which is said once.
absl::StatusOr<Segment*> DeviceAllocator::ReserveAddresses(bool small) {
  const uint64_t page =
      RoundUp(small ? kSmallSegment : kLargeSegment, Granularity());
  const uint64_t total = std::min(Total(), kMostAddresses / 9 * 8);
  const uint64_t size =
      RoundUp(small ? std::min(kSmallAddresses, total) : total / 8 * 9, page);
  void* base = nullptr;
  const absl::Status status = FromPlugin(
      device_,
      virtual_memory_.table->reserve(virtual_memory_.self, device_->ordinal,
                                     size, page & -page, &base),
      "address reservation");
  if (!status.ok()) {
    if (!absl::IsResourceExhausted(status)) return status;
    if (!said_no_addresses_.exchange(true)) {
      DEVRT_LOG(kWarning,
                absl::StrCat("no addresses for an expandable segment "
                             "of ",
                             size, " bytes on ", DeviceName(device_),
                             ", plain ones serve: ", status.message()));
    }
    return nullptr;
  }
  absl::StatusOr<Segment*> segment =
      Enter(base, size, small, "reserve of devrt.virtual_memory");
  if (!segment.ok()) {
    DestroyError(
        virtual_memory_.table->release(virtual_memory_.self, base, size));
    return segment.status();
  }
  auto* const pages = new PageTable;
  pages->page_bytes = page;
  pages->pages.resize(size / page);
  (*segment)->pages = pages;
  (*segment)->mapped = 0;
  return *segment;
}

void DeviceAllocator::ReleaseAddresses(Segment* segment) {
  void* const base = segment->address();
  const uint64_t size = segment->bytes();
  Leave(segment);
  const absl::Status status = FromPlugin(
      device_, virtual_memory_.table->release(virtual_memory_.self, base, size),
      "address release");
  if (!status.ok() && TakesHandlesBack(device_)) {
    DEVRT_LOG(kWarning, std::string(ToStd(status.message())));
  }
}

// ---- Pages ------------------------------------------------------------------

devrt_status DeviceAllocator::MapPage(char* address, uint64_t bytes,
                                      devrt_chunk* chunk) {
  const devrt_virtual_memory_v0* const vm = virtual_memory_.table;
  void* const self = virtual_memory_.self;
  if (devrt_status error = vm->create(self, device_->ordinal, bytes, chunk)) {
    return error;
  }
  devrt_status error = vm->map(self, address, bytes, *chunk);
  if (error != nullptr) DestroyError(vm->destroy(self, *chunk));
  return error;
}

// What is behind a busy run; the bytes that the driver would not take back.
uint64_t DeviceAllocator::UnmapPages(const PageRun& run) {
  const devrt_virtual_memory_v0* const vm = virtual_memory_.table;
  void* const self = virtual_memory_.self;
  const uint64_t bytes = run.page_bytes();
  uint64_t kept = 0;
  for (uint32_t i = 0; i < run.count; ++i) {
    Page& page = run.segment->pages->pages[run.first + i];
    if (page.chunk == nullptr) continue;
    absl::Status status =
        FromPlugin(device_, vm->unmap(self, run.address() + i * bytes, bytes),
                   "unmapping a page");
    if (status.ok()) {
      status = FromPlugin(device_,
                          vm->destroy(self, std::exchange(page.chunk, nullptr)),
                          "freeing a page");
    } else {
      kept += bytes;
    }
    if (!status.ok() && TakesHandlesBack(device_)) {
      DEVRT_LOG(kWarning, std::string(ToStd(status.message())));
    }
  }
  return kept;
}

// False: there is no room.
absl::StatusOr<bool> DeviceAllocator::MapPages(const PageRun& run) {
  std::atomic<uint64_t>& reserved = owner_->reserved_;
  const uint64_t bytes = run.bytes();
  if (reserved.fetch_add(bytes, std::memory_order_relaxed) + bytes >
      Allowed()) {
    reserved.fetch_sub(bytes, std::memory_order_relaxed);
    return false;
  }
  for (uint32_t i = 0; i < run.count; ++i) {
    Page& page = run.segment->pages->pages[run.first + i];
    const absl::Status status =
        FromPlugin(device_,
                   MapPage(run.address() + i * run.page_bytes(),
                           run.page_bytes(), &page.chunk),
                   "mapping pages");
    if (status.ok()) continue;
    page.chunk = nullptr;
    const uint64_t kept = UnmapPages(run);
    ledger_.CountReserved(RowOf(run.segment), static_cast<int64_t>(kept));
    ledger_.num_device_alloc.fetch_add(
        static_cast<int64_t>(kept / run.page_bytes()),
        std::memory_order_relaxed);
    reserved.fetch_sub(bytes - kept, std::memory_order_relaxed);
    if (absl::IsResourceExhausted(status)) return false;
    return status;
  }
  ledger_.CountReserved(RowOf(run.segment), static_cast<int64_t>(bytes));
  ledger_.num_device_alloc.fetch_add(run.count, std::memory_order_relaxed);
  Tell(MemoryAction::kSegmentMap, run.address(), bytes);
  if (suballocation_.table != nullptr) {
    Announce(suballocation_.table->carve(suballocation_.self, device_->ordinal,
                                         run.address(), bytes),
             "carve");
  }
  return true;
}

absl::StatusOr<void*> DeviceAllocator::Expand(const MemoryRequest& request,
                                              const PoolRequest& wanted) {
  // Alive before the gate is looked at, as raw memory is (C98).
  const LiveCount live(device_);
  if (!IsOpen(device_)) return ClosedError(device_);
  const CallSiteScope noted(request.site);
  const Moves::Scope moves(&owner_->moves_);
  for (;;) {
    BlockPool* const pool = PoolOf(request.stream);
    PageRun run;
    while (!pool->ReservePages(wanted, &run)) {
      absl::StatusOr<Segment*> made = ReserveAddresses(IsSmall(wanted.size));
      if (!made.ok()) return made.status();
      if (*made == nullptr) {
        return GrowPlainly(request, wanted);
      }
      if ((*made)->bytes() < wanted.size) {
        ReleaseAddresses(*made);
        return nullptr;
      }
      pool->AdoptAddresses(*made);
    }
    const absl::StatusOr<bool> mapped = MapPages(run);
    if (!mapped.ok() || !*mapped) {
      if (pool->EndPages(run)) ReleaseAddresses(run.segment);
      if (!mapped.ok()) return mapped.status();
      return nullptr;
    }
    pool->AddPages(run);
    absl::StatusOr<void*> found = SearchOwn(request.stream, wanted, nullptr);
    if (!found.ok() || *found != nullptr) return found;
    // Another thread of the stream was faster: more.
  }
}

// Taken from their pool by Take.
void DeviceAllocator::GiveBackPages(BlockPool* pool, const PageRun& run) {
  if (suballocation_.table != nullptr) {
    Announce(
        suballocation_.table->uncarve(suballocation_.self, device_->ordinal,
                                      run.address(), run.bytes()),
        "uncarve");
  }
  const uint64_t bytes = run.bytes();
  Tell(MemoryAction::kSegmentUnmap, run.address(), bytes);
  const uint64_t gone = bytes - UnmapPages(run);
  ledger_.num_device_free.fetch_add(
      static_cast<int64_t>(gone / run.page_bytes()), std::memory_order_relaxed);
  ledger_.CountReserved(RowOf(run.segment), -static_cast<int64_t>(gone));
  owner_->reserved_.fetch_sub(gone, std::memory_order_relaxed);
  if (pool->EndPages(run)) ReleaseAddresses(run.segment);
}

}  // namespace devrt::internal
