// SPDX-License-Identifier: Apache-2.0

#include "memory/device/segment_source.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/status.h"
#include "memory/common/hot_settings.h"
#include "memory/device/address_map.h"
#include "runtime/common/text.h"
#include "runtime/plugins/host_table.h"
#include "runtime/raw_memory/blocks.h"
#include "streams/common/relaxed_captures.h"
#include "streams/objects/device_streams.h"

namespace devrt::internal {

namespace {

bool IsOversize(uint64_t size) {
  return size >= hot_settings.max_split_size.load(std::memory_order_relaxed);
}

}  // namespace

absl::StatusOr<Segment*> SegmentSource::Allocate(uint64_t size, bool small,
                                                 uint64_t stream,
                                                 CallSite site) {
  // Counts as alive before the gate is read, as raw memory does (C98).
  const LiveCount live(device_);
  if (!IsOpen(device_)) return ClosedError(device_);
  if (!budget_->Reserve(size)) return nullptr;
  const CallSiteScope noted(site);
  void* pointer = nullptr;
  absl::Status status;
  {
    const RelaxedCaptures relaxed(device_, DeviceStreams::Of(device_)->capture);
    status = FromPlugin(device_,
                        device_->ops->alloc(device_->self, device_->ordinal,
                                            size, kGranule, &pointer),
                        "segment allocation");
  }
  if (!status.ok()) {
    budget_->Release(size);
    if (absl::IsResourceExhausted(status)) return nullptr;
    return status;
  }
  absl::StatusOr<Segment*> segment = Adopt(pointer, size, small, stream);
  if (!segment.ok()) budget_->Release(size);
  return segment;
}

absl::StatusOr<Segment*> SegmentSource::Adopt(void* pointer, uint64_t size,
                                              bool small, uint64_t stream) {
  absl::StatusOr<Segment*> entered = Register(pointer, size, small, "alloc");
  if (!entered.ok()) {
    // Memory that breaks the contract is not freed: it may be another block's.
    if (absl::IsResourceExhausted(entered.status())) {
      DestroyError(device_->ops->dealloc(device_->self, device_->ordinal,
                                         pointer, size));
    }
    return entered;
  }
  Segment* const segment = *entered;
  segment->oversize = IsOversize(size);
  ledger_->CountSegment(RowOf(small), static_cast<int64_t>(size),
                        segment->oversize);
  AddToHistory(MemoryAction::kSegmentAlloc, pointer, size, stream);
  ledger_->num_device_alloc.fetch_add(1, std::memory_order_relaxed);
  reports_->Carve(pointer, size);
  return segment;
}

absl::StatusOr<Segment*> SegmentSource::Register(void* pointer, uint64_t size,
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
  Segment* segment = Segment::Make(allocator_, pointer, size, small);
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

void SegmentSource::Unregister(Segment* segment) {
  AllocationRange range;
  range.device = device_;
  range.base = segment->address();
  range.size = segment->bytes();
  range.id = segment->table_id;
  AddressMap::Get().Remove(segment);
  AllocationTable::Get().Remove(range, CallSite());
  Segment::Recycle(segment);
}

void SegmentSource::Forget(Segment* segment, uint64_t stream) {
  const uint64_t size = segment->mapped;
  const Row row = RowOf(segment->small);
  if (segment->expandable()) {
    ledger_->CountReserved(row, -static_cast<int64_t>(size));
  } else {
    AddToHistory(MemoryAction::kSegmentFree, segment->address(), size, stream);
    ledger_->CountSegment(row, -static_cast<int64_t>(size), segment->oversize);
  }
  budget_->Release(size);
  Unregister(segment);
}

void SegmentSource::Free(Segment* segment, uint64_t stream) {
  void* const pointer = segment->address();
  const uint64_t size = segment->bytes();
  // Before the driver's free, which may give the addresses to another thread.
  Forget(segment, stream);
  reports_->Uncarve(pointer, size);
  absl::Status status;
  {
    const RelaxedCaptures relaxed(device_, DeviceStreams::Of(device_)->capture);
    status = FromPlugin(
        device_,
        device_->ops->dealloc(device_->self, device_->ordinal, pointer, size),
        "segment free");
  }
  ledger_->num_device_free.fetch_add(1, std::memory_order_relaxed);
  if (!status.ok() && TakesHandlesBack(device_)) {
    DEVRT_LOG(kWarning, std::string(ToStd(status.message())));
  }
}

void SegmentSource::AddToHistory(MemoryAction action, const void* pointer,
                                 uint64_t bytes, uint64_t stream) const {
  HistoryRing* const history = ledger_->history();
  if (history != nullptr) history->Add(action, pointer, bytes, stream, 0);
}

}  // namespace devrt::internal
