// SPDX-License-Identifier: Apache-2.0

#include "arrays/storage/storage.h"

#include <algorithm>
#include <atomic>
#include <new>
#include <sstream>
#include <string>
#include <utility>

#include "absl/base/optimization.h"
#include "absl/strings/str_cat.h"
#include "arrays/storage/object_cache.h"
#include "arrays/storage/storage_end.h"
#include "arrays/storage/storage_kept.h"
#include "arrays/storage/storage_order.h"
#include "devrt/memory/device_memory.h"
#include "devrt/memory/pinned_memory.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/status.h"
#include "memory/device/hooks.h"
#include "runtime/registry/process_state.h"
#include "streams/common/deferred_deletion.h"
#include "streams/objects/may_capture.h"
#include "streams/objects/ordering.h"
#include "streams/objects/stream_record.h"

namespace devrt::internal {

namespace {

constexpr std::align_val_t kHostAlignment{64};

// From the first storage on, allocators hear of ends of streams (timeline.h).
void NotePoints() {
  [[maybe_unused]] static const bool installed = [] {
    InstallMemoryHooks();
    return true;
  }();
}

absl::StatusOr<void*> AllocateHost(uint64_t bytes) {
  void* const base = bytes < uint64_t{1} << 60
                         ? ::operator new(bytes, kHostAlignment, std::nothrow)
                         : nullptr;
  if (base != nullptr) return base;
  return absl::ResourceExhaustedError(
      absl::StrCat("no host memory for an array of ", bytes, " bytes"));
}

absl::Status CheckMayMake(StreamRef stream, CaptureNumber capture) {
  if (capture != CaptureNumber::kUnknown) return absl::OkStatus();
  std::ostringstream text;
  text << stream;
  return CaptureError(absl::StrCat(
      "no array can be made on ", text.str(),
      ", which is capturing: the graph would keep its address, and the backend "
      "cannot tell for how long; make it before the capture begins, and write "
      "into it (AddInto, CopyFrom)"));
}

}  // namespace

StreamRef CurrentStreamOf(const Place& place) {
  return CurrentStream(*place.device());
}

Storage::Storage(Key /*key*/, const Place& place, Source source, void* base,
                 uint64_t bytes, std::optional<StreamRef> home)
    : place_(place),
      source_(source),
      counted_(StorageEnd::CountNew()),
      base_(base),
      bytes_(bytes),
      home_(home),
      home_timeline_(home.has_value() ? TimelineOf(*home) : nullptr) {}

absl::StatusOr<std::shared_ptr<Storage>> Storage::AllocateOn(StreamRef stream,
                                                             uint64_t bytes,
                                                             CallSite site) {
  NotePoints();
  CaptureNumber capture = CaptureNumber::kNone;
  // AllocateMemory has the error for a stream that does not live.
  if (ABSL_PREDICT_FALSE(MayBeCaptured(stream)) &&
      CheckStream(stream, "AllocateMemory").ok()) {
    DEVRT_ASSIGN_OR_RETURN(capture, HoldCapture(stream));
  }
  if (!InHostFunction()) PollPendingReleases(capture != CaptureNumber::kNone);
  void* base = nullptr;
  if (ABSL_PREDICT_FALSE(capture != CaptureNumber::kNone) && bytes != 0) {
    DEVRT_RETURN_IF_ERROR(CheckMayMake(stream, capture));
    base = StorageEnd::TakeFromGraph(stream, capture, bytes);
  }
  if (ABSL_PREDICT_TRUE(base == nullptr)) {
    DEVRT_ASSIGN_OR_RETURN(base, AllocateMemory(stream, bytes, site));
  }
  auto made = std::allocate_shared<Storage>(
      ObjectCache<Storage>(), Key(), Place(stream.device()),
      base != nullptr ? Source::kDevice : Source::kNothing, base, bytes,
      stream);
  // The home stream may still use the block for its former owner.
  if (base != nullptr) {
    made->AddHomeUse(capture, /*imported=*/false);
  }
  return made;
}

absl::StatusOr<std::shared_ptr<Storage>> Storage::Allocate(const Place& place,
                                                           uint64_t bytes,
                                                           CallSite site) {
  if (place.kind() == MemoryKind::kDevice) {
    return AllocateOn(CurrentStreamOf(place), bytes, site);
  }
  void* base = nullptr;
  if (place.device().has_value()) {
    RunPendingReleases(CurrentStreamOf(place));
  } else {
    RunPendingReleases();
  }
  NotePoints();
  switch (place.kind()) {
    case MemoryKind::kPinned: {
      DEVRT_ASSIGN_OR_RETURN(base,
                             AllocatePinned(*place.device(), bytes, site));
      return std::allocate_shared<Storage>(
          ObjectCache<Storage>(), Key(), place,
          base != nullptr ? Source::kPinned : Source::kNothing, base, bytes,
          std::nullopt);
    }
    case MemoryKind::kManaged:
      return absl::UnimplementedError(
          absl::StrCat("no array can be made in ", place.name(),
                       ": managed memory is of imported arrays only"));
    case MemoryKind::kDevice:
    case MemoryKind::kHost:
      break;
  }
  if (bytes != 0) {
    DEVRT_ASSIGN_OR_RETURN(base, AllocateHost(bytes));
  }
  return std::allocate_shared<Storage>(
      ObjectCache<Storage>(), Key(), place,
      base != nullptr ? Source::kHost : Source::kNothing, base, bytes,
      std::nullopt);
}

std::shared_ptr<Storage> Storage::Borrow(const Place& place,
                                         Borrowed&& borrowed) {
  RunPendingReleases(borrowed.stream);
  NotePoints();
  auto made = std::allocate_shared<Storage>(
      ObjectCache<Storage>(), Key(), place, Source::kBorrowed, borrowed.base,
      borrowed.bytes, borrowed.stream);
  made->owner_ = std::move(borrowed.owner);
  if (borrowed.stream.has_value() && borrowed.joined) made->AddLendersUse();
  return made;
}

Storage::~Storage() {
  if (has_ended_ || StorageEnd::RunAtHome(*this) ||
      StorageEnd::DropUnused(this)) {
    return;
  }
  if (source_ == Source::kHost) ::operator delete(base_, kHostAlignment);
  StorageEnd end(this);
  if (!end.IsNeeded()) return;
  // A forked child and a process at its end give nothing back.
  if (!IsProcessOpen()) {
    end.Leak();
    return;
  }
  RunOutsideHostFunction([end = std::move(end)]() mutable { end.Run(); });
}

absl::Status Storage::SetDeallocationStream(StreamRef stream) {
  DEVRT_RETURN_IF_ERROR(CheckStream(stream, "SetDeallocationStream"));
  if (place_.kind() != MemoryKind::kDevice ||
      stream.device() != *place_.device()) {
    std::ostringstream text;
    text << stream;
    return absl::InvalidArgumentError(
        absl::StrCat("SetDeallocationStream: memory of ", place_.name(),
                     " cannot go back on the ", text.str(),
                     place_.kind() == MemoryKind::kDevice
                         ? absl::StrCat(": pass a stream of ", place_.name())
                         : ": only the memory of a device has a stream"));
  }
  // Destroys the former one with no lock held.
  std::optional<OutsideUse> chosen(std::in_place, stream, KeptStream(stream));
  MutexLock lock(&mutex_);
  deallocation_.swap(chosen);
  return absl::OkStatus();
}

// ---- Uses -------------------------------------------------------------------

void Storage::AddUse(const StorageUse& use, bool writes) {
  // After a failure only a synchronisation of the device shows that the use is
  // complete.
  if (use.timeline->NeedsEagerCheckpoints() && !use.captured()) {
    use.timeline->CheckpointEagerly(use.epoch).IgnoreError();
  }
  MutexLock lock(&mutex_);
  uses_.Add(use, writes);
}

void Storage::AddLendersUse() {
  CaptureNumber capture = CaptureNumber::kNone;
  // If the backend cannot tell the capture, no event may be recorded either.
  if (CheckStream(*home_, "a use").ok()) {
    capture = HoldCapture(*home_).value_or(CaptureNumber::kUnknown);
  }
  AddHomeUse(capture, /*imported=*/true);
}

void Storage::AddHomeUse(CaptureNumber capture, bool imported)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  StorageUse use({home_timeline_, home_timeline_->Now()}, *home_);
  use.imported = imported;
  use.capture = capture;
  if (ABSL_PREDICT_FALSE(home_timeline_->NeedsEagerCheckpoints())) {
    AddUse(use, true);
  } else {
    uses_.AddFirst(use);
  }
}

absl::Status Storage::NoteUse(StreamRef stream, bool writes, CallSite site) {
  if (InHostFunction()) return HostFunctionError("NoteUse");
  DEVRT_RETURN_IF_ERROR(CheckStream(stream, "NoteUse"));
  if (place_.kind() == MemoryKind::kHost) return absl::OkStatus();
  const CallSiteScope noted(site);
  StorageUse use(PointOf(stream), stream);
  if (ABSL_PREDICT_FALSE(MayBeCaptured(stream))) {
    DEVRT_ASSIGN_OR_RETURN(use.capture, HoldCapture(stream));
  }
  PollPendingReleases(use.captured());
  AddUse(use, writes);
  return absl::OkStatus();
}

void Storage::NoteOutsideUse(const std::optional<OutsideUse>& outside,
                             bool writes) {
  if (outside.has_value()) {
    if (const auto use = outside->UpToNow()) {
      AddUse(*use, writes);
      if (ABSL_PREDICT_TRUE(!use->late)) return;  // its Stream lives
    }
    if (!outside->IsLost()) return;
  }
  const auto is_captured = [this] { return !CheckMayWait().ok(); };
  if (const auto use = UseOfUnknown(*place_.device(), is_captured)) {
    AddUse(*use, writes);
  }
}

absl::Status Storage::RecordUse(StreamRef stream, CallSite site) {
  DEVRT_RETURN_IF_ERROR(NoteUse(stream, true, site));
  if (place_.kind() == MemoryKind::kHost) return absl::OkStatus();
  MutexLock lock(&mutex_);
  for (const OutsideUse& known : open_) {
    if (known.stream() == stream) return absl::OkStatus();
  }
  open_.emplace_back(stream, KeptStream(stream));
  return absl::OkStatus();
}

absl::Status Storage::RecordConsumer(StreamRef stream, CallSite site) {
  if (home_ == stream && source_ == Source::kDevice &&
      !KeptStream::MayOutlive(*stream.record())) {
    return absl::OkStatus();
  }
  return RecordUse(stream, site);
}

bool Storage::IsUsedOnlyBy(const Timeline* timeline) {
  MutexLock lock(&mutex_);
  return uses_.AreOnlyOf(timeline);
}

// ---- Pending uses -----------------------------------------------------------

// Includes uses of captures if `captured`.
absl::InlinedVector<StorageUse, 4> Storage::PendingUses(bool captured) {
  absl::InlinedVector<StorageUse, 4> pending;
  MutexLock lock(&mutex_);
  uses_.DropComplete();
  for (const auto* list : {&uses_.writes(), &uses_.reads()}) {
    for (const StorageUse& use : *list) {
      if (captured || !use.captured()) pending.push_back(use);
    }
  }
  return pending;
}

bool Storage::IsBusy() {
  if (place_.kind() == MemoryKind::kHost) return false;
  // In a forked child another thread may have held the lock for ever.
  if ((process_state.load() & kForkedChild) != 0) return true;
  const auto pending = PendingUses(true);
  return std::any_of(pending.begin(), pending.end(),
                     [](const StorageUse& use) { return !use.imported; });
}

absl::Status Storage::CheckMayWait() {
  for (const StorageUse& use : PendingUses(true)) {
    DEVRT_RETURN_IF_ERROR(CheckMayAsk(use));
  }
  return absl::OkStatus();
}

absl::Status Storage::Ready(CallSite site) {
  if (InHostFunction()) return HostFunctionError("Ready");
  PollPendingReleases(/*capturing=*/false);
  for (const StorageUse& use : PendingUses()) {
    DEVRT_RETURN_IF_ERROR(WaitForUse(use, site));
  }
  TellHostOrder(place_);
  return absl::OkStatus();
}

namespace {

// Asks the backend.  The caller has called CheckMayAsk.
absl::StatusOr<bool> AskWhetherOver(const StorageUse& use) {
  Timeline* const timeline = use.timeline;
  if (!IsOpen(timeline->device())) return ClosedError(timeline->device());
  timeline->Poll(true);
  if (timeline->IsComplete(use.epoch)) return true;
  // A query of a stream that is always busy says nothing, so an event is
  // recorded for the next call.
  OrderedPoint covered;
  const auto check = timeline->PinCheckpoint(use.epoch, &covered);
  if (check.ok() && *check != nullptr) timeline->Unpin(*check);
  return timeline->IsComplete(use.epoch);
}

}  // namespace

absl::StatusOr<bool> Storage::IsReady(CallSite site) {
  if (InHostFunction()) return HostFunctionError("IsReady");
  PollPendingReleases(/*capturing=*/false);
  const CallSiteScope noted(site);
  for (const StorageUse& use : PendingUses()) {
    DEVRT_RETURN_IF_ERROR(CheckMayAsk(use));
    DEVRT_ASSIGN_OR_RETURN(const bool over, AskWhetherOver(use));
    if (!over) return false;
  }
  TellHostOrder(place_);
  return true;
}

absl::StatusOr<bool> Storage::IsReadyFor(StreamRef stream, CallSite site) {
  if (InHostFunction()) return HostFunctionError("an export");
  DEVRT_RETURN_IF_ERROR(CheckStream(stream, "an export"));
  DEVRT_ASSIGN_OR_RETURN(const bool capturing, IsCapturing(stream));
  PollPendingReleases(capturing);
  const CallSiteScope noted(site);
  for (const StorageUse& use : PendingUses(true)) {
    // Work that an ended capture recorded did not run.
    const absl::Status may = CheckMayAsk(use);
    if (absl::IsFailedPrecondition(may)) return false;
    DEVRT_RETURN_IF_ERROR(may);
    if (use.captured()) continue;
    if (capturing) return false;
    DEVRT_ASSIGN_OR_RETURN(const bool over, AskWhetherOver(use));
    if (!over) return false;
  }
  TellKnownOrder(stream);
  return true;
}

}  // namespace devrt::internal
