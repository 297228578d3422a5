// SPDX-License-Identifier: Apache-2.0

#include "arrays/storage/storage_end.h"

#include <algorithm>
#include <atomic>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "arrays/storage/storage_kept.h"
#include "arrays/storage/storage_order.h"
#include "devrt/memory/device_memory.h"
#include "devrt/memory/pinned_memory.h"
#include "devrt/runtime/log.h"
#include "memory/api/known_uses.h"
#include "memory/api/plain_free.h"
#include "runtime/common/text.h"
#include "runtime/registry/process_state.h"
#include "streams/objects/ordering.h"
#include "streams/objects/stream_record.h"

#if defined(__SANITIZE_THREAD__)
#define DEVRT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DEVRT_THREAD_SANITIZER 1
#endif
#endif

namespace devrt::internal {

namespace {

std::atomic<bool> g_counting{false};
std::atomic<int64_t> g_live{0};
__thread CallSite t_end_site = {};

// The program's line, or else a line of this file.
CallSite EndSite(CallSite own = CallSite::Here()) {
  return t_end_site.file != nullptr ? t_end_site : own;
}

// Logs the error of a destructor, which cannot return it.
void LogUnlessOk(const absl::Status& status, const void* base, uint64_t bytes) {
  if (status.ok()) return;
  DEVRT_LOG(kWarning, absl::StrCat("the memory of an array, ", bytes,
                                   " bytes at ", Hex(base),
                                   ", was not given back: ", status.message()));
}

bool Lives(const std::optional<StreamRef>& stream) {
  return stream.has_value() && CheckStream(*stream, "FreeMemory").ok();
}

StreamUses PointsOf(absl::Span<const StorageUse> uses) {
  StreamUses points;
  for (const StorageUse& use : uses) points.push_back({use, use.stream.id()});
  return points;
}

}  // namespace

StorageCounts CountStorages() {
  return {g_live.load(std::memory_order_relaxed), CountPendingReleases(),
          StorageEnd::CountInGraphs()};
}

void CountStoragesFromNow() {
  g_counting.store(true, std::memory_order_relaxed);
}

bool StorageEnd::CountNew() {
  const bool counting = g_counting.load(std::memory_order_relaxed);
  if (ABSL_PREDICT_FALSE(counting)) {
    g_live.fetch_add(1, std::memory_order_relaxed);
  }
  return counting;
}

void StorageEnd::CountEnd(const Storage& storage) {
  if (ABSL_PREDICT_FALSE(storage.counted_)) {
    g_live.fetch_sub(1, std::memory_order_relaxed);
  }
}

bool StorageEnd::IsAtHome(const Storage& storage)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  if ((storage.source_ != Storage::Source::kDevice &&
       storage.source_ != Storage::Source::kPinned) ||
      storage.deallocation_.has_value() || !storage.open_.empty() ||
      InHostFunction() || !IsProcessOpen()) {
    return false;
  }
  // Pinned memory has no home stream, so every use is another stream's.
  for (const auto* list : {&storage.uses_.writes(), &storage.uses_.reads()}) {
    for (const StorageUse& use : *list) {
      if (use.timeline != storage.home_timeline_ || use.captured() ||
          use.late) {
        return false;
      }
    }
  }
  return true;
}

bool StorageEnd::RunAtHome(const Storage& storage) {
  if (!IsAtHome(storage)) return false;
  CountEnd(storage);
  LogUnlessOk(storage.source_ == Storage::Source::kDevice
                  ? FreeMemory(storage.base_, EndSite())
                  : FreePinned(storage.base_, EndSite()),
              storage.base_, storage.bytes_);
  return true;
}

bool StorageEnd::DropUnused(Storage* storage)
    DEVRT_THREAD_ANNOTATION_(no_thread_safety_analysis) {
  if (storage->source_ != Storage::Source::kBorrowed ||
      storage->deallocation_.has_value() || !storage->open_.empty() ||
      InHostFunction() || !IsProcessOpen()) {
    return false;
  }
  const StorageUses& uses = storage->uses_;
  for (const auto* list : {&uses.writes(), &uses.reads()}) {
    for (const StorageUse& use : *list) {
      if (!use.imported) return false;
    }
  }
  CountEnd(*storage);
  storage->owner_.reset();
  return true;
}

// Other threads dropped their references with a release, and the caller has
// read that none is left.
void Storage::SeeOthers() {
#ifdef DEVRT_THREAD_SANITIZER
  MutexLock lock(&mutex_);  // ThreadSanitizer does not understand fences
#else
  std::atomic_thread_fence(std::memory_order_acquire);
#endif
}

CallSite Storage::SetEndSite(CallSite site) {
  return std::exchange(t_end_site, site);
}

bool Storage::EndPlainly() {
  SeeOthers();
  if (!StorageEnd::IsAtHome(*this)) return false;
  has_ended_ = source_ == Source::kDevice ? FreeMemoryPlainly(base_, EndSite())
                                          : FreePinnedPlainly(base_, EndSite());
  if (has_ended_) StorageEnd::CountEnd(*this);
  return has_ended_;
}

bool Storage::EndUnused() {
  SeeOthers();
  has_ended_ = StorageEnd::DropUnused(this);
  return has_ended_;
}

StorageEnd::StorageEnd(Storage* storage)
    : source_(storage->source_),
      base_(storage->base_),
      bytes_(storage->bytes_),
      home_(storage->home_),
      home_timeline_(storage->home_timeline_),
      site_(EndSite()),
      owner_(std::move(storage->owner_)) {
  CountEnd(*storage);
  MutexLock lock(&storage->mutex_);
  deallocation_ = std::move(storage->deallocation_);
  open_ = std::move(storage->open_);
  for (const auto* list : {&storage->uses_.writes(), &storage->uses_.reads()}) {
    uses_.insert(uses_.end(), list->begin(), list->end());
  }
}

bool StorageEnd::IsNeeded() const {
  return source_ == Storage::Source::kDevice ||
         source_ == Storage::Source::kPinned || HasOwner() ||
         (source_ == Storage::Source::kBorrowed && home_.has_value());
}

void StorageEnd::Leak() {
  if (!HasOwner()) return;
  // Plain host memory has no uses: no device can still reach its owner.
  if (uses_.empty() && open_.empty()) return;
  [[maybe_unused]] auto* const leaked =
      new std::shared_ptr<void>(std::move(owner_));
}

void StorageEnd::Run() {
  CloseUses();
  if (!captured_.empty()) {
    if (source_ == Storage::Source::kBorrowed) {
      OrderHome();
      if (!HasOwner()) return;
    }
    RecordCheckpoints(nullptr);
  }
  EndWithCaptures(std::move(*this));
}

void StorageEnd::GiveBack() {
  switch (source_) {
    case Storage::Source::kDevice:
      FreeDeviceMemory();
      break;
    case Storage::Source::kPinned:
      FreePinnedMemory();
      break;
    default:
      DropOwner();
      break;
  }
}

void StorageEnd::Close(const OutsideUse& open) {
  if (const auto use = open.UpToNow()) {
    uses_.push_back(*use);
    if (use->captured()) uses_.emplace_back(*use, use->stream);
  }
  if (!open.IsLost()) return;
  const auto is_captured = [this] {
    return std::any_of(uses_.begin(), uses_.end(),
                       [](const auto& use) { return !CheckMayAsk(use).ok(); });
  };
  if (const auto use = UseOfUnknown(open.stream().device(), is_captured)) {
    uses_.push_back(*use);
  }
}

void StorageEnd::CloseDeallocation() {
  if (!deallocation_.has_value()) return;
  if (deallocation_->Lives() && source_ != Storage::Source::kBorrowed) return;
  Close(*deallocation_);
  deallocation_.reset();
}

void StorageEnd::CloseUses() {
  for (const OutsideUse& open : open_) Close(open);
  open_.clear();
  CloseDeallocation();
  // Another library may have used the home stream too, and reported nothing.
  if (deallocation_.has_value()) {
    StorageUse use({home_timeline_, home_timeline_->Now()}, *home_);
    uses_.push_back(use);
  }
  for (const StorageUse& use : uses_) {
    if (use.captured() && !use.imported) captured_.push_back(use);
  }
  const auto over = [](const StorageUse& use) {
    return use.captured() || use.imported ||
           use.timeline->IsComplete(use.epoch);
  };
  uses_.erase(std::remove_if(uses_.begin(), uses_.end(), over), uses_.end());
}

// Records now rather than later, because a later event also covers what the
// stream is given meanwhile.
void StorageEnd::RecordCheckpoints(const Timeline* past) {
  for (const StorageUse& use : uses_) {
    if (past != nullptr && past->IsPast(use)) continue;
    if (!IsOpen(use.timeline->device())) continue;
    OrderedPoint covered;
    const auto check = use.timeline->PinCheckpoint(use.epoch, &covered);
    if (check.ok() && *check != nullptr) use.timeline->Unpin(*check);
  }
}

bool StorageEnd::OrderAfterUses(StreamRef stream) {
  if (uses_.empty()) return true;
  const HeldStream held(stream);
  const absl::StatusOr<bool> capturing = IsCapturing(held);
  if (!capturing.ok()) return false;
  for (const StorageUse& use : uses_) {
    const absl::StatusOr<bool> ordered =
        OrderAfter(stream, use, *capturing, CallSite());
    if (!ordered.ok() || !*ordered) return false;
  }
  return true;
}

void StorageEnd::FreeDeviceMemory() {
  const bool home_lives = Lives(home_);
  CloseDeallocation();  // the stream may have ended since CloseUses
  std::optional<StreamRef> chosen;
  if (deallocation_.has_value()) chosen = deallocation_->stream();
  const auto free = [base = base_, bytes = bytes_, to = chosen, site = site_] {
    LogUnlessOk(
        to.has_value() ? FreeMemory(base, *to, site) : FreeMemory(base, site),
        base, bytes);
  };
  // The allocator orders the next use of the block after its home stream.  It
  // cannot know of work that the home stream got after its Stream had ended.
  uses_.erase(std::remove_if(uses_.begin(), uses_.end(),
                             [&](const StorageUse& use) {
                               return use.captured() ||
                                      (use.timeline == home_timeline_ &&
                                       !use.late && !chosen.has_value());
                             }),
              uses_.end());
  if (uses_.empty()) {
    free();
    return;
  }
  RecordCheckpoints(home_lives ? home_timeline_ : nullptr);
  if (AddKnownUses(base_, PointsOf(uses_))) {
    free();
    return;
  }
  const std::optional<StreamRef> to = chosen.has_value() ? chosen : home_;
  if (Lives(to) && OrderAfterUses(*to)) {
    free();
  } else {
    KeepUntilComplete(uses_, free);
  }
}

void StorageEnd::FreePinnedMemory() {
  RecordCheckpoints(nullptr);
  const auto free = [base = base_, bytes = bytes_, site = site_] {
    LogUnlessOk(FreePinned(base, site), base, bytes);
  };
  if (uses_.empty() || AddKnownUses(base_, PointsOf(uses_))) {
    free();
  } else {
    KeepUntilComplete(uses_, free);
  }
}

// The second half of a consumer's duty (E47): the lender goes on with the
// memory on the home stream, so that stream waits for devrt's uses.
void StorageEnd::OrderHome() {
  if (!home_.has_value() || !CheckStream(*home_, "the end of an array").ok()) {
    return;
  }
  OrderAfterCaptured(*home_);
  OrderAfterUses(*home_);
}

void StorageEnd::DropOwner() {
  OrderHome();
  if (!HasOwner()) return;
  if (uses_.empty()) {
    owner_.reset();
    return;
  }
  RecordCheckpoints(nullptr);
  KeepUntilComplete(uses_,
                    [owner = std::move(owner_)]() mutable { owner.reset(); });
}

}  // namespace devrt::internal
