// SPDX-License-Identifier: Apache-2.0

#include "memory/device/expandable_segments.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "memory/common/hot_settings.h"
#include "runtime/common/text.h"
#include "runtime/plugins/host_table.h"
#include "runtime/raw_memory/blocks.h"

namespace devrt::internal {

namespace {

constexpr uint64_t kSmallAddresses = 1024 * kMiB;
// Blocks count granules in 32 bits.
constexpr uint64_t kMostAddresses = uint64_t{1} << 40;

}  // namespace

ExpandableSegments::ExpandableSegments(DeviceRecord* device,
                                       MemoryBudget* budget, Ledger* ledger,
                                       const SuballocationReports* reports,
                                       SegmentSource* source)
    : device_(device),
      budget_(budget),
      ledger_(ledger),
      reports_(reports),
      source_(source),
      extension_(FindExtension<devrt_virtual_memory_v0>(
          device, DEVRT_VIRTUAL_MEMORY_EXTENSION)) {}

uint64_t ExpandableSegments::Granularity() {
  uint64_t known = granularity_.load(std::memory_order_relaxed);
  if (known != kUnknown) return known;
  known = 0;
  absl::Status status = absl::UnimplementedError(
      absl::StrCat("backend ", Quoted(device_->backend->name),
                   " has no extension ", DEVRT_VIRTUAL_MEMORY_EXTENSION));
  if (extension_.table != nullptr) {
    devrt_virtual_memory_info_v0 info{};
    info.struct_size = sizeof info;
    status = FromPlugin(
        device_,
        extension_.table->info(extension_.self, device_->ordinal, &info),
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

bool ExpandableSegments::IsEnabled() {
  return hot_settings.expandable_segments.load(std::memory_order_relaxed) &&
         Granularity() != 0;
}

// ---- Addresses --------------------------------------------------------------

absl::StatusOr<Segment*> ExpandableSegments::ReserveAddresses(bool small) {
  const uint64_t page =
      RoundUp(small ? kSmallSegment : kLargeSegment, Granularity());
  const uint64_t total = std::min(budget_->Total(), kMostAddresses / 9 * 8);
  const uint64_t size =
      RoundUp(small ? std::min(kSmallAddresses, total) : total / 8 * 9, page);
  void* base = nullptr;
  const absl::Status status =
      FromPlugin(device_,
                 extension_.table->reserve(extension_.self, device_->ordinal,
                                           size, page & -page, &base),
                 "address reservation");
  if (!status.ok()) {
    if (!absl::IsResourceExhausted(status)) return status;
    if (!logged_no_addresses_.exchange(true)) {
      DEVRT_LOG(kWarning,
                absl::StrCat("no addresses for an expandable segment "
                             "of ",
                             size, " bytes on ", DeviceName(device_),
                             ", plain ones serve: ", status.message()));
    }
    return nullptr;
  }
  absl::StatusOr<Segment*> segment =
      source_->Register(base, size, small, "reserve of devrt.virtual_memory");
  if (!segment.ok()) {
    DestroyError(extension_.table->release(extension_.self, base, size));
    return segment.status();
  }
  auto* const pages = new PageTable;
  pages->page_bytes = page;
  pages->pages.resize(size / page);
  (*segment)->pages = pages;
  (*segment)->mapped = 0;
  return *segment;
}

void ExpandableSegments::ReleaseAddresses(Segment* segment) {
  void* const base = segment->address();
  const uint64_t size = segment->bytes();
  source_->Unregister(segment);
  const absl::Status status = FromPlugin(
      device_, extension_.table->release(extension_.self, base, size),
      "address release");
  if (!status.ok() && TakesHandlesBack(device_)) {
    DEVRT_LOG(kWarning, std::string(ToStd(status.message())));
  }
}

// ---- Pages ------------------------------------------------------------------

devrt_status ExpandableSegments::MapPage(char* address, uint64_t bytes,
                                         devrt_chunk* chunk) {
  const devrt_virtual_memory_v0* const vm = extension_.table;
  void* const self = extension_.self;
  if (devrt_status error = vm->create(self, device_->ordinal, bytes, chunk)) {
    return error;
  }
  devrt_status error = vm->map(self, address, bytes, *chunk);
  if (error != nullptr) DestroyError(vm->destroy(self, *chunk));
  return error;
}

uint64_t ExpandableSegments::Unmap(const PageRun& run) {
  const devrt_virtual_memory_v0* const vm = extension_.table;
  void* const self = extension_.self;
  const uint64_t bytes = run.page_bytes();
  uint64_t kept = 0;
  for (uint32_t i = 0; i < run.count; ++i) {
    Page& page = run.segment->pages->pages[run.first + i];
    if (page.chunk == nullptr) continue;
    absl::Status status =
        FromPlugin(device_, vm->unmap(self, run.address() + i * bytes, bytes),
                   "unmapping a page");
    if (status.ok() || IsOfEarlierWork(status)) {
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

void ExpandableSegments::UndoMap(const PageRun& run) {
  const uint64_t kept = Unmap(run);
  ledger_->CountReserved(RowOf(run.segment->small), static_cast<int64_t>(kept));
  ledger_->num_device_alloc.fetch_add(
      static_cast<int64_t>(kept / run.page_bytes()), std::memory_order_relaxed);
  budget_->Release(run.bytes() - kept);
}

absl::StatusOr<bool> ExpandableSegments::Map(const PageRun& run,
                                             uint64_t stream) {
  const uint64_t bytes = run.bytes();
  if (!budget_->Reserve(bytes)) return false;
  for (uint32_t i = 0; i < run.count; ++i) {
    Page& page = run.segment->pages->pages[run.first + i];
    const absl::Status status =
        FromPlugin(device_,
                   MapPage(run.address() + i * run.page_bytes(),
                           run.page_bytes(), &page.chunk),
                   "mapping pages");
    if (status.ok()) continue;
    page.chunk = nullptr;
    UndoMap(run);
    if (absl::IsResourceExhausted(status)) return false;
    return status;
  }
  ledger_->CountReserved(RowOf(run.segment->small),
                         static_cast<int64_t>(bytes));
  ledger_->num_device_alloc.fetch_add(run.count, std::memory_order_relaxed);
  source_->AddToHistory(MemoryAction::kSegmentMap, run.address(), bytes,
                        stream);
  reports_->Carve(run.address(), bytes);
  return true;
}

void ExpandableSegments::Free(BlockPool* pool, const PageRun& run) {
  const uint64_t bytes = run.bytes();
  reports_->Uncarve(run.address(), bytes);
  source_->AddToHistory(MemoryAction::kSegmentUnmap, run.address(), bytes,
                        StreamId(pool->serial()));
  const uint64_t gone = bytes - Unmap(run);
  ledger_->num_device_free.fetch_add(
      static_cast<int64_t>(gone / run.page_bytes()), std::memory_order_relaxed);
  ledger_->CountReserved(RowOf(run.segment->small),
                         -static_cast<int64_t>(gone));
  budget_->Release(gone);
  if (pool->pages().End(run)) ReleaseAddresses(run.segment);
}

}  // namespace devrt::internal
