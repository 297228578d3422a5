// SPDX-License-Identifier: Apache-2.0

#include "arrays/storage/storage_end.h"

#include <algorithm>
#include <atomic>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "devrt/memory/device_memory.h"
#include "devrt/memory/pinned_memory.h"
#include "devrt/runtime/log.h"
#include "memory/common/known_uses.h"
#include "memory/common/pending_frees.h"
#include "memory/common/plain_free.h"
#include "runtime/internal/process_state.h"
#include "runtime/internal/text.h"
#include "streams/internal/deferred_deletion.h"
#include "streams/internal/ordering.h"
#include "streams/internal/stream_record.h"

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
std::atomic<int64_t> g_kept{0};

// What is released when uses are complete.
struct Kept {
  std::function<void()> release;
};

void Release(void* settled) {
  std::unique_ptr<Kept> kept(static_cast<Kept*>(settled));
  g_kept.fetch_sub(1, std::memory_order_relaxed);
  const EndSiteScope unknown({});  // the call that is under way let nothing go
  kept->release();
}

std::atomic<int64_t> g_captured{0};

PendingFrees& KeptThings() {
  static PendingFrees* const kept = new PendingFrees(&Release);
  return *kept;
}

__thread CallSite t_end_site = {};

CallSite EndSite(CallSite own = CallSite::Here()) {
  return t_end_site.file != nullptr ? t_end_site : own;
}

// A destructor cannot return an error.
void LogUnlessOk(const absl::Status& status, const void* base, uint64_t bytes) {
  if (status.ok()) return;
  DEVRT_LOG(kWarning, absl::StrCat("the memory of an array, ", bytes,
                                   " bytes at ", Hex(base),
                                   ", was not given back: ", status.message()));
}

}  // namespace

void LetKeptGo(std::optional<StreamRef> beside) {
  if (HasDeferredArrayReleases()) RunDeferredArrayReleases();
  if (ABSL_PREDICT_TRUE(g_kept.load(std::memory_order_relaxed) == 0) ||
      InHostFunction() || !IsProcessOpen()) {
    return;
  }
  if (beside.has_value() && CheckStream(*beside, "a look").ok()) {
    const absl::StatusOr<bool> capturing = IsCapturing(*beside);
    if (!capturing.ok() || *capturing) return;
  }
  KeptThings().Poll(1);
}

void LetAllKeptGo() {
  if (HasDeferredArrayReleases()) RunDeferredArrayReleases();
  if (InHostFunction() || !IsProcessOpen()) return;
  KeptThings().Poll(std::numeric_limits<size_t>::max());
}

bool HasKept() {
  return HasDeferredArrayReleases() ||
         g_kept.load(std::memory_order_relaxed) != 0;
}

StorageCounts CountStorages() {
  return {g_live.load(std::memory_order_relaxed),
          g_kept.load(std::memory_order_relaxed),
          g_captured.load(std::memory_order_relaxed)};
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
  // Pinned memory has no home: any use is another's.
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

// What others did who had it: the last of their references went with a release,
// and that it is the last the caller has read.
void Storage::SeeOthers() {
#ifdef DEVRT_THREAD_SANITIZER
  MutexLock lock(&mutex_);  // it knows no fences
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
  // Plain memory has no uses, and its owner is no matter of a device.
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

// Runs owners' deleters: not where a capture comes to be over.
struct StorageEnd::AfterGraphs final : DeferredObject {
  explicit AfterGraphs(StorageEnd e) : end(std::move(e)) {}
  ~AfterGraphs() override {
    const EndSiteScope unknown({});
    EndWithCaptures(std::move(end));
  }
  StorageEnd end;
};

struct StorageEnd::InGraphs final : DeferredObject {
  explicit InGraphs(StorageEnd e) : end(std::move(e)) {
    g_captured.fetch_add(1, std::memory_order_relaxed);
  }
  ~InGraphs() override {
    g_captured.fetch_sub(1, std::memory_order_relaxed);
    if (end.base_ != nullptr || end.HasOwner()) {
      DeferArrayRelease(new AfterGraphs(std::move(end)));
    }
  }
  StorageEnd end;
};

// It goes from one capture to the next that is not over.
void StorageEnd::EndWithCaptures(StorageEnd end) {
  auto& captured = end.captured_;
  const auto over = [](const StorageUse& use) { return IsOver(use.capture); };
  captured.erase(std::remove_if(captured.begin(), captured.end(), over),
                 captured.end());
  if (captured.empty()) {
    end.GiveBack();
    return;
  }
  const CaptureNumber capture = captured.back().capture;
  (void)EndWith(capture, std::make_unique<InGraphs>(std::move(end)));
}

void* StorageEnd::TakeFromGraph(StreamRef stream, CaptureNumber capture,
                                uint64_t bytes) {
  constexpr uint64_t kGranule = 512;
  const auto blocks = [](uint64_t size) {
    return (size + kGranule - 1) / kGranule;
  };
  const auto fits = [&](const DeferredObject& object) {
    // Others keep blocks here too (captured_blocks.h).
    const auto* const kept = dynamic_cast<const InGraphs*>(&object);
    if (kept == nullptr) return false;
    const StorageEnd& end = kept->end;
    const auto elsewhere = [&](const StorageUse& use) {
      return use.stream != stream || (use.captured() && use.capture != capture);
    };
    return end.source_ == Storage::Source::kDevice && end.home_ == stream &&
           !end.deallocation_.has_value() &&
           // A resource may have given no byte more than it was asked.
           end.bytes_ >= bytes && blocks(end.bytes_) == blocks(bytes) &&
           std::none_of(end.captured_.begin(), end.captured_.end(),
                        elsewhere) &&
           std::none_of(end.uses_.begin(), end.uses_.end(), elsewhere);
  };
  void* base = nullptr;
  // Of resources that the program has replaced since.
  std::vector<std::unique_ptr<DeferredObject>> others;
  while (std::unique_ptr<DeferredObject> taken = TakeBack(capture, fits)) {
    StorageEnd& end = static_cast<InGraphs&>(*taken).end;
    if (IsOfChosenResource(stream.device(), end.base_)) {
      base = std::exchange(end.base_, nullptr);
      break;
    }
    others.push_back(std::move(taken));
  }
  for (auto& other : others) (void)EndWith(capture, std::move(other));
  return base;
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
  // Its home stream is a consumer's, too, who told of nothing there.
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

// Later ones say less: what the stream is given meanwhile counts with them.
void StorageEnd::RecordCheckpoints(const Timeline* past) {
  for (const StorageUse& use : uses_) {
    if (past != nullptr && past->IsPast(use)) continue;
    if (!IsOpen(use.timeline->device())) continue;
    OrderedPoint covered;
    const auto check = use.timeline->PinCheckpoint(use.epoch, &covered);
    if (check.ok() && *check != nullptr) use.timeline->Unpin(*check);
  }
}

// Edges of the graph, where `stream` is in the same one.
void StorageEnd::OrderAfterCaptured(StreamRef stream) {
  if (captured_.empty()) return;
  const HeldStream held(stream);
  if (held.handle() == nullptr) return;
  const absl::StatusOr<CaptureNumber> capture = HoldCapture(held);
  if (!capture.ok() || *capture == CaptureNumber::kNone ||
      *capture == CaptureNumber::kUnknown) {
    return;
  }
  for (const StorageUse& use : captured_) {
    if (use.capture != *capture || use.stream == stream) continue;
    const HeldStream after(use.stream, use.timeline);
    if (after.handle() == nullptr) continue;
    OrderInCapture(held, after, CallSite()).IgnoreError();
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

void StorageEnd::Keep(std::function<void()> release) {
  PendingFree item;
  item.block = new Kept{std::move(release)};
  for (const StorageUse& use : uses_) {
    item.uses.push_back({use, use.stream.id()});
  }
  g_kept.fetch_add(1, std::memory_order_relaxed);
  KeptThings().Add(std::move(item));
}

void StorageEnd::FreeDeviceMemory() {
  const auto lives = [](const std::optional<StreamRef>& stream) {
    return stream.has_value() && CheckStream(*stream, "FreeMemory").ok();
  };
  const bool home_lives = lives(home_);
  CloseDeallocation();  // it may have ended since
  std::optional<StreamRef> chosen;
  if (deallocation_.has_value()) chosen = deallocation_->stream();
  const auto free = [base = base_, bytes = bytes_, to = chosen, site = site_] {
    LogUnlessOk(
        to.has_value() ? FreeMemory(base, *to, site) : FreeMemory(base, site),
        base, bytes);
  };
  // What the block's own stream did is before what it does next; the allocator
  // knows of nothing that comes after its end.
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
  StreamUses points;
  for (const StorageUse& use : uses_) points.push_back({use, use.stream.id()});
  if (AddKnownUses(base_, points)) {
    free();
    return;
  }
  const std::optional<StreamRef> to = chosen.has_value() ? chosen : home_;
  if (lives(to) && OrderAfterUses(*to)) {
    free();
  } else {
    Keep(free);
  }
}

void StorageEnd::FreePinnedMemory() {
  RecordCheckpoints(nullptr);
  StreamUses points;
  for (const StorageUse& use : uses_) points.push_back({use, use.stream.id()});
  const auto free = [base = base_, bytes = bytes_, site = site_] {
    LogUnlessOk(FreePinned(base, site), base, bytes);
  };
  if (points.empty() || AddKnownUses(base_, points)) {
    free();
  } else {
    Keep(free);
  }
}

// The other half of a consumer's duty (E47): who lent the memory and
// goes on with it there comes after devrt's uses.
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
  Keep([owner = std::move(owner_)]() mutable { owner.reset(); });
}

}  // namespace devrt::internal
