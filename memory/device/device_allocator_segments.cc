// SPDX-License-Identifier: Apache-2.0
//
// DeviceAllocator: segments from the driver and back.

#include <algorithm>
#include <cmath>
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
#include "streams/internal/relaxed_captures.h"

namespace devrt::internal {

namespace {

Row RowOf(bool small) { return small ? kSmallRow : kLargeRow; }

bool IsOversize(uint64_t size) {
  return size >= hot_settings.max_split_size.load(std::memory_order_relaxed);
}

}  // namespace

// A simulator's reset may change it: asked again after each Release.
uint64_t DeviceAllocator::Total() {
  uint64_t total = total_.load(std::memory_order_relaxed);
  if (total != 0) return total;
  const absl::StatusOr<DeviceProperties> properties =
      Device(device_).Properties();
  total = properties.ok() && properties->total_memory != 0
              ? properties->total_memory
              : UINT64_MAX;
  total_.store(total, std::memory_order_relaxed);
  return total;
}

uint64_t DeviceAllocator::Allowed() {
  const double fraction = this->fraction();
  const uint64_t total = Total();
  if (fraction >= 1.0) return total;
  return static_cast<uint64_t>(
      std::floor(fraction * static_cast<double>(total)));
}

absl::StatusOr<Segment*> DeviceAllocator::GetSegment(uint64_t size, bool small,
                                                     CallSite site) {
  // Alive before the gate is looked at, as raw memory is (C98).
  const LiveCount live(device_);
  if (!IsOpen(device_)) return ClosedError(device_);
  std::atomic<uint64_t>& reserved = owner_->reserved_;
  if (reserved.fetch_add(size, std::memory_order_relaxed) + size > Allowed()) {
    reserved.fetch_sub(size, std::memory_order_relaxed);
    return nullptr;
  }
  const CallSiteScope noted(site);
  void* pointer = nullptr;
  absl::Status status;
  {
    const RelaxedCaptures relaxed(device_);
    status = FromPlugin(device_,
                        device_->ops->alloc(device_->self, device_->ordinal,
                                            size, kGranule, &pointer),
                        "segment allocation");
  }
  if (!status.ok()) {
    reserved.fetch_sub(size, std::memory_order_relaxed);
    if (absl::IsResourceExhausted(status)) return nullptr;
    return status;
  }
  absl::StatusOr<Segment*> segment = TakeIn(pointer, size, small);
  if (!segment.ok()) reserved.fetch_sub(size, std::memory_order_relaxed);
  return segment;
}

// Segments are the device's: of no stream.
void DeviceAllocator::Tell(MemoryAction action, const void* pointer,
                           uint64_t bytes) const {
  HistoryRing* const history = ledger_.history();
  if (history != nullptr) history->Add(action, pointer, bytes, 0, 0);
}

// Into the maps; not counted, and no pool's.
absl::StatusOr<Segment*> DeviceAllocator::Enter(void* pointer, uint64_t size,
                                                bool small, const char* call) {
  const std::string what =
      absl::StrCat(call, " of backend ", Quoted(device_->backend->name),
                   " gave ", size, " bytes at ", Hex(pointer));
  if (pointer == nullptr ||
      reinterpret_cast<uintptr_t>(pointer) % kGranule != 0) {
    return absl::InternalError(
        absl::StrCat(what, ", which is no block that is aligned to ", kGranule,
                     " bytes (contract P10)"));
  }
  AllocationRange range;
  range.device = device_;
  range.kind = PointerKind::kDevice;
  range.base = pointer;
  range.size = size;
  range.cached = true;
  if (const auto in_the_way = AllocationTable::Get().Insert(&range)) {
    return absl::InternalError(absl::StrCat(what, ", where there is ",
                                            DescribeRange(*in_the_way),
                                            " (contract P10)"));
  }
  Segment* segment = Segment::Make(this, pointer, size, small);
  if (segment == nullptr) {
    AllocationTable::Get().Remove(range, CallSite());
    return absl::ResourceExhaustedError(
        absl::StrCat("the host has no memory for the table of a segment of ",
                     size, " bytes on ", DeviceName(device_)));
  }
  segment->table_id = range.id;
  AddressMap::Get().Add(segment);
  return segment;
}

absl::StatusOr<Segment*> DeviceAllocator::TakeIn(void* pointer, uint64_t size,
                                                 bool small) {
  absl::StatusOr<Segment*> entered = Enter(pointer, size, small, "alloc");
  if (!entered.ok()) {
    // What breaks the contract is nobody's to free.
    if (absl::IsResourceExhausted(entered.status())) {
      DestroyError(device_->ops->dealloc(device_->self, device_->ordinal,
                                         pointer, size));
    }
    return entered;
  }
  Segment* const segment = *entered;
  segment->oversize = IsOversize(size);
  ledger_.CountSegment(RowOf(small), static_cast<int64_t>(size),
                       segment->oversize);
  Tell(MemoryAction::kSegmentAlloc, pointer, size);
  ledger_.num_device_alloc.fetch_add(1, std::memory_order_relaxed);
  if (suballocation_.table != nullptr) {
    Announce(suballocation_.table->carve(suballocation_.self, device_->ordinal,
                                         pointer, size),
             "carve");
  }
  return segment;
}

// Out of the maps, and free for another use.
void DeviceAllocator::Leave(Segment* segment) {
  AllocationRange range;
  range.device = device_;
  range.base = segment->address();
  range.size = segment->bytes();
  range.id = segment->table_id;
  AddressMap::Get().Remove(segment);
  AllocationTable::Get().Remove(range, CallSite());
  Segment::Recycle(segment);
}

// Out of the figures, too.
void DeviceAllocator::Forget(Segment* segment) {
  const uint64_t size = segment->mapped;
  const Row row = RowOf(segment->small);
  if (segment->expandable()) {
    ledger_.CountReserved(row, -static_cast<int64_t>(size));
  } else {
    Tell(MemoryAction::kSegmentFree, segment->address(), size);
    ledger_.CountSegment(row, -static_cast<int64_t>(size), segment->oversize);
  }
  owner_->reserved_.fetch_sub(size, std::memory_order_relaxed);
  Leave(segment);
}

void DeviceAllocator::GiveBack(Segment* segment) {
  void* const pointer = segment->address();
  const uint64_t size = segment->bytes();
  // The driver may give the addresses to another thread at once.
  Forget(segment);
  if (suballocation_.table != nullptr) {
    Announce(suballocation_.table->uncarve(suballocation_.self,
                                           device_->ordinal, pointer, size),
             "uncarve");
  }
  absl::Status status;
  {
    const RelaxedCaptures relaxed(device_);
    status = FromPlugin(
        device_,
        device_->ops->dealloc(device_->self, device_->ordinal, pointer, size),
        "segment free");
  }
  ledger_.num_device_free.fetch_add(1, std::memory_order_relaxed);
  if (!status.ok() && TakesHandlesBack(device_)) {
    DEVRT_LOG(kWarning, std::string(ToStd(status.message())));
  }
}

// ---- Giving back ------------------------------------------------------------

bool DeviceAllocator::ReleaseOne(const FreeSegment& segment,
                                 absl::Status* gave_up, bool of_graphs) {
  const OrderPoint& released = segment.released;
  if (gave_up != nullptr) {
    gave_up->Update(WaitFor(released));
  } else if (!released.timeline->IsComplete(released.epoch)) {
    released.timeline->Poll(true);
  }
  const Moves::Scope moves(&owner_->moves_);
  if (!released.timeline->IsComplete(released.epoch) ||
      !segment.pool->Take(segment, of_graphs ? nullptr : &for_graphs_)) {
    return false;
  }
  if (segment.pages != 0) {
    GiveBackPages(segment.pool, segment.run());
  } else {
    GiveBack(segment.segment);
  }
  return true;
}

void DeviceAllocator::ListFree(std::vector<FreeSegment>* list) {
  if (IsForGraphs()) return;
  for (BlockPool* pool : Pools()) pool->ListFree(list);
}

std::vector<FreeSegment> DeviceAllocator::ListFamilyFree() {
  std::vector<FreeSegment> list;
  for (DeviceAllocator* each : owner_->Family()) each->ListFree(&list);
  return list;
}

bool DeviceAllocator::ReleaseSegments(uint64_t bytes, uint64_t least,
                                      absl::Status* gave_up) {
  std::vector<FreeSegment> list = ListFamilyFree();
  // First the smallest that is enough by itself, then the largest ones.
  std::sort(list.begin(), list.end(),
            [bytes](const FreeSegment& a, const FreeSegment& b) {
              const bool a_enough = a.bytes >= bytes;
              const bool b_enough = b.bytes >= bytes;
              if (a_enough != b_enough) return a_enough;
              return a_enough ? a.bytes < b.bytes : a.bytes > b.bytes;
            });
  uint64_t released = 0;
  for (const FreeSegment& segment : list) {
    if (released >= bytes || !IsOpen(device_)) break;
    if (segment.bytes >= least &&
        segment.segment->allocator->ReleaseOne(segment, gave_up)) {
      released += segment.bytes;
    }
  }
  return released != 0;
}

void DeviceAllocator::CollectGarbage() {
  const double threshold =
      hot_settings.garbage_collection_threshold.load(std::memory_order_relaxed);
  if (threshold <= 0) return;
  const double most = threshold * static_cast<double>(Allowed());
  const auto above = [&] {
    return static_cast<double>(
               owner_->reserved_.load(std::memory_order_relaxed)) > most;
  };
  if (!above()) return;
  std::vector<FreeSegment> list = ListFamilyFree();
  std::stable_sort(
      list.begin(), list.end(),
      [](const FreeSegment& a, const FreeSegment& b) { return a.age > b.age; });
  for (const FreeSegment& segment : list) {
    if (!above()) return;
    segment.segment->allocator->ReleaseOne(segment, nullptr);
  }
}

absl::Status DeviceAllocator::EmptyCache() {
  if (!IsOpen(device_)) return ClosedError(device_);
  pending_.Poll(SIZE_MAX);
  std::vector<FreeSegment> list;
  ListFree(&list);
  for (const FreeSegment& segment : list) {
    if (IsOpen(device_)) ReleaseOne(segment, nullptr);
  }
  return absl::OkStatus();
}

// So that Release, which may ask nobody any more, finds what is over.
void DeviceAllocator::Settle() {
  if (!IsOpen(device_)) return;
  for (BlockPool* pool : Pools()) {
    if (pool->free_bytes() == 0) continue;
    Timeline* timeline = pool->timeline();
    if (!timeline->IsComplete(timeline->Now() - 1)) timeline->Poll(true);
  }
  if (!pending_.empty()) pending_.Poll(SIZE_MAX);
}

// Nobody holds a block: the gate is closed, or was asked under all locks.
void DeviceAllocator::Release() {
  if (TakesHandlesBack(device_)) {
    if (IsOpen(device_)) pending_.Poll(SIZE_MAX);
    std::vector<FreeSegment> list;
    for (BlockPool* pool : Pools()) pool->ListFree(&list);
    for (const FreeSegment& segment : list) ReleaseOne(segment, nullptr, true);
  }
  // Work still uses what is left, or the device is lost.
  pending_.TakeAll();
  std::vector<Segment*> left;
  for (BlockPool* pool : Pools()) pool->Drop(&left);
  for (Segment* segment : left) Forget(segment);
  total_.store(0, std::memory_order_relaxed);
}

}  // namespace devrt::internal
