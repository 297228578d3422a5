// SPDX-License-Identifier: Apache-2.0

#include "memory/device/recovery.h"

#include <utility>

#include "devrt/runtime/status.h"
#include "memory/device/out_of_memory_callbacks.h"
#include "runtime/plugins/host_table.h"
#include "runtime/raw_memory/blocks.h"
#include "streams/objects/stream_record.h"

namespace devrt::internal {

namespace {

// What round `round` of a request leaves to its caller.  `main` is the device's
// own allocator, which outlives every request.
void DoLeftStep(DeviceAllocator* main, int round, uint64_t bytes,
                uint64_t least) {
  AllocatorFamily& family = main->family();
  switch (round) {
    case 0:
      family.ReleaseSegments(bytes, least, nullptr);
      return;
    case 1:
      family.WaitForFrees(&main->ledger()).IgnoreError();
      return;
    default:
      // The request itself waits again, and reports what it gave up on.
      absl::Status gave_up;
      family.ReleaseSegments(UINT64_MAX, 0, &gave_up);
  }
}

}  // namespace

Recovery::Recovery(DeviceAllocator* allocator, const MemoryRequest& request,
                   const PoolRequest& wanted)
    : allocator_(allocator),
      family_(&allocator->family()),
      request_(request),
      wanted_(wanted),
      segment_bytes_(SegmentSize(wanted.size)),
      least_(wanted.max_split_size != UINT64_MAX &&
                     wanted.size >= wanted.max_split_size
                 ? wanted.max_split_size
                 : 0),
      deferred_(DeferredRecovery::Current()),
      round_(deferred_ != nullptr ? deferred_->rounds() : 0),
      result_(nullptr) {}

// ---- The order of the steps -------------------------------------------------

absl::StatusOr<void*> Recovery::Run() {
  DEVRT_RETURN_IF_ERROR(OutOfMemoryCallbacks::CheckNotInside(
      Device(allocator_->device()), request_.bytes));
  RunDeferredCaptureEnds();
  family_->Poll();
  if (Search(true)) return result_;
  if (wanted_.size > family_->budget()->Allowed()) return OutOfMemory({});
  if (SearchAfterCallbacks()) return result_;
  family_->CollectGarbage();
  if (Grow()) return result_;
  if (round_ == 0) {
    allocator_->ledger().num_alloc_retries.fetch_add(1,
                                                     std::memory_order_relaxed);
  }
  if (LeaveToCaller()) {
    return absl::CancelledError("the request waits where its caller does");
  }
  if (ReleaseAndGrow()) return result_;
  return WaitForRoom();
}

// Captured work has not run, although queries report its streams as idle.  So
// only new memory of the driver is safe.
absl::StatusOr<void*> Recovery::RunInCapture() {
  if (Accept(GrowBySegment())) return result_;
  family_->ReleaseSegments(segment_bytes_, 0, nullptr);
  if (Accept(GrowBySegment())) return result_;
  return OutOfMemory({});
}

bool Recovery::Accept(absl::StatusOr<void*> tried) {
  result_ = std::move(tried);
  return !result_.ok() || *result_ != nullptr;
}

bool Recovery::Search(bool room) {
  return Accept(allocator_->search().FindBlock(request_.stream, wanted_, room));
}

bool Recovery::SearchAfterCallbacks() {
  // Once for a request, also if its caller asks again.
  if (round_ != 0) return false;
  const absl::StatusOr<bool> again = OutOfMemoryCallbacks::Get().Run(
      Device(allocator_->device()), request_.bytes);
  if (!again.ok()) return Accept(again.status());
  if (!*again) return false;
  family_->Poll();
  return Search(true);
}

bool Recovery::LeaveToCaller() {
  if (deferred_ == nullptr || round_ >= DeferredRecovery::kMostRounds) {
    return false;
  }
  deferred_->Leave(Device(allocator_->device()),
                   [main = family_->main(), bytes = segment_bytes_,
                    least = least_, round = round_] {
                     DoLeftStep(main, round, bytes, least);
                     return absl::OkStatus();
                   });
  return true;
}

bool Recovery::ReleaseAndGrow() {
  family_->ReleaseSegments(segment_bytes_, least_, nullptr);
  return Search(false) || Grow();
}

bool Recovery::WaitAndGrow(absl::Status* gave_up) {
  *gave_up = family_->WaitForFrees(&allocator_->ledger());
  if (Search(false)) return true;
  family_->ReleaseSegments(UINT64_MAX, 0, gave_up);
  return Grow();
}

absl::StatusOr<void*> Recovery::WaitForRoom() {
  for (int attempt = 1;; ++attempt) {
    const uint64_t frees = family_->CountFrees();
    const MemoryInFlight::Ended before = family_->in_flight()->CountEnded();
    absl::Status gave_up;
    if (WaitAndGrow(&gave_up)) return result_;
    const bool changed = family_->in_flight()->HaveEnded(before) ||
                         family_->CountFrees() != frees;
    if (!changed || attempt == kMostAttempts ||
        !family_->HasRoom(wanted_.size)) {
      return OutOfMemory(gave_up);
    }
  }
}

// ---- Growth -----------------------------------------------------------------

bool Recovery::Grow() {
  return Accept(allocator_->expandable().IsEnabled() ? GrowByPages()
                                                     : GrowBySegment());
}

absl::StatusOr<void*> Recovery::GrowBySegment() {
  const MemoryInFlight::Scope moving(family_->in_flight());
  absl::StatusOr<Segment*> fresh =
      allocator_->source().Allocate(segment_bytes_, IsSmall(wanted_.size),
                                    request_.stream.id(), request_.site);
  if (!fresh.ok()) return fresh.status();
  if (*fresh == nullptr) return nullptr;
  return allocator_->search().FindOwn(request_.stream, wanted_, *fresh);
}

absl::StatusOr<bool> Recovery::ReservePages(BlockPool* pool, PageRun* run,
                                            bool* no_addresses) {
  ExpandableSegments& expandable = allocator_->expandable();
  while (!pool->pages().Reserve(wanted_, run)) {
    DEVRT_ASSIGN_OR_RETURN(Segment* const made,
                           expandable.ReserveAddresses(IsSmall(wanted_.size)));
    *no_addresses = made == nullptr;
    if (made == nullptr) return false;
    if (made->bytes() < wanted_.size) {
      expandable.ReleaseAddresses(made);
      return false;
    }
    pool->pages().AdoptAddresses(made);
  }
  return true;
}

absl::StatusOr<void*> Recovery::GrowByPages() {
  ExpandableSegments& expandable = allocator_->expandable();
  DeviceRecord* const device = allocator_->device();
  // Counts as alive before the gate is read, as raw memory does (C98).
  const LiveCount live(device);
  if (!IsOpen(device)) return ClosedError(device);
  const CallSiteScope noted(request_.site);
  const MemoryInFlight::Scope moving(family_->in_flight());
  for (;;) {
    BlockPool* const pool = allocator_->pools().Of(request_.stream);
    PageRun run;
    bool no_addresses = false;
    DEVRT_ASSIGN_OR_RETURN(const bool reserved,
                           ReservePages(pool, &run, &no_addresses));
    if (no_addresses) return GrowBySegment();
    if (!reserved) return nullptr;
    const absl::StatusOr<bool> mapped =
        expandable.Map(run, request_.stream.id());
    if (!mapped.ok() || !*mapped) {
      if (pool->pages().End(run)) expandable.ReleaseAddresses(run.segment);
      if (!mapped.ok()) return mapped.status();
      return nullptr;
    }
    pool->pages().Add(run);
    absl::StatusOr<void*> found =
        allocator_->search().FindOwn(request_.stream, wanted_, nullptr);
    if (!found.ok() || *found != nullptr) return found;
    // Another thread of the stream took the new memory: grow again.
  }
}

// ---- The error --------------------------------------------------------------

absl::Status Recovery::OutOfMemory(const absl::Status& gave_up) {
  DeviceRecord* const device = allocator_->device();
  Ledger& ledger = allocator_->ledger();
  ledger.num_ooms.fetch_add(1, std::memory_order_relaxed);
  if (HistoryRing* const history = ledger.history()) {
    history->Add(MemoryAction::kOutOfMemory, nullptr, request_.bytes,
                 request_.stream.id(), wanted_.site);
  }
  OutOfMemoryInfo info;
  info.requested = request_.bytes;
  const devrt_status no_info = device->ops->mem_info(
      device->self, device->ordinal, &info.free, &info.total);
  DestroyError(no_info);
  info.segment = segment_bytes_;
  info.allowed = family_->budget()->Allowed();
  family_->AddFigures(&info);
  return OutOfMemoryError(device, info, absl::OkStatus(), gave_up);
}

}  // namespace devrt::internal
