// SPDX-License-Identifier: Apache-2.0

#include "memory/external/captured_blocks.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "devrt/memory/device_memory.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"
#include "memory/common/known_uses.h"
#include "memory/device/rounding.h"
#include "runtime/internal/allocation_table.h"
#include "runtime/internal/process_state.h"
#include "runtime/internal/text.h"
#include "streams/internal/finished.h"
#include "streams/internal/may_capture.h"
#include "streams/internal/stream_record.h"

namespace devrt::internal {

namespace {

using Captures = std::vector<CaptureNumber>;

// What captures have to do with a block.
struct CaptureMarks {
  Captures captures;
  // Used by another stream than its own: a graph need not run what its own
  // stream does later behind that.
  bool elsewhere = false;

  void Join(CaptureNumber capture) {
    if (std::find(captures.begin(), captures.end(), capture) ==
        captures.end()) {
      captures.push_back(capture);
    }
  }
};

uint64_t Granules(uint64_t bytes) { return (bytes + kGranule - 1) / kGranule; }

// A block that was freed; it ends with the captures that keep it.
struct KeptBlock final : Finished {
  ~KeptBlock() override;

  void* block = nullptr;  // nullptr: handed out again, or given back
  uint64_t bytes = 0;
  std::optional<StreamRef> home;
  std::optional<StreamRef> freed_on;  // another than home
  CallSite site;
  CaptureMarks marks;
};

// The blocks that programs have or have freed, which a capture keeps.
class CapturedBlocks {
 public:
  static CapturedBlocks& Get() {
    static CapturedBlocks* const blocks = new CapturedBlocks;
    return *blocks;
  }

  bool empty() const { return count_.load(std::memory_order_acquire) == 0; }

  void Add(void* block, CaptureNumber capture, bool elsewhere)
      DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    CaptureMarks& marks = blocks_[block].marks;
    marks.Join(capture);
    marks.elsewhere = marks.elsewhere || elsewhere;
    Count();
  }
  // The block was freed, while `captures` were under way.  All that is known of
  // it; an error if it was freed before.
  absl::StatusOr<CaptureMarks> Close(void* block, const Captures& captures,
                                     CallSite site) DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    if (captures.empty() && !blocks_.contains(block)) return CaptureMarks();
    Known& known = blocks_[block];
    if (known.freed) return FreedBefore(block, known.freed_at);
    for (const CaptureNumber capture : captures) known.marks.Join(capture);
    known.freed = true;
    known.freed_at = site;
    Count();
    return known.marks;
  }
  // The capture that kept the block handed it out again.
  void Reopen(void* block) DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    blocks_[block].freed = false;
  }
  void Forget(void* block) DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    blocks_.erase(block);
    Count();
  }

 private:
  struct Known {
    CaptureMarks marks;
    bool freed = false;
    CallSite freed_at;
  };

  static absl::Status FreedBefore(const void* block, CallSite site) {
    std::string text = absl::StrCat(
        "FreeMemory needs the beginning of a live block from AllocateMemory, "
        "but the block at ",
        Hex(block), " was freed before");
    if (site.file != nullptr) {
      absl::StrAppend(&text, " at ", site.file, ":", site.line);
    }
    return absl::InvalidArgumentError(
        absl::StrCat(text, "; a graph of another library keeps its memory"));
  }
  void Count() DEVRT_REQUIRES(mutex_) {
    count_.store(blocks_.size(), std::memory_order_release);
  }

  std::atomic<size_t> count_{0};
  Mutex mutex_;  // a leaf
  absl::flat_hash_map<void*, Known> blocks_ DEVRT_GUARDED_BY(mutex_);
};

absl::Status Free(void* block, const std::optional<StreamRef>& stream,
                  CallSite site) {
  return stream.has_value() ? FreeMemory(block, *stream, site)
                            : FreeMemory(block, site);
}

// From one capture to the next that is not over.
absl::Status GiveBack(std::unique_ptr<KeptBlock> kept) {
  Captures& captures = kept->marks.captures;
  captures.erase(std::remove_if(captures.begin(), captures.end(), &IsOver),
                 captures.end());
  if (captures.empty()) {
    void* const block = std::exchange(kept->block, nullptr);
    CapturedBlocks::Get().Forget(block);
    return Free(block, kept->freed_on, kept->site);
  }
  // If that is over by now `kept` ends, and comes here again.
  const CaptureNumber capture = captures.back();
  (void)EndWith(capture, std::move(kept));
  return absl::OkStatus();
}

KeptBlock::~KeptBlock() {
  if (block == nullptr || !IsProcessOpen()) return;
  auto next = std::make_unique<KeptBlock>();
  next->block = block;
  next->bytes = bytes;
  next->home = home;
  next->freed_on = freed_on;
  next->site = site;
  next->marks = std::move(marks);
  const absl::Status status = GiveBack(std::move(next));
  if (!status.ok()) DEVRT_LOG(kWarning, std::string(ToStd(status.message())));
}

// A block of the same size that the stream has freed in the same capture.
void* TakeFromCapture(StreamRef stream, CaptureNumber capture, uint64_t bytes) {
  const auto fits = [&](const Finished& object) {
    const auto* const kept = dynamic_cast<const KeptBlock*>(&object);
    if (kept == nullptr) return false;
    const CaptureMarks& marks = kept->marks;
    return kept->home == stream && !kept->freed_on.has_value() &&
           // A resource may have given no byte more than it was asked.
           kept->bytes >= bytes && Granules(kept->bytes) == Granules(bytes) &&
           !marks.elsewhere && marks.captures.size() == 1 &&
           marks.captures.front() == capture;
  };
  void* block = nullptr;
  // Of resources that the program has replaced since.
  std::vector<std::unique_ptr<Finished>> others;
  while (std::unique_ptr<Finished> taken = TakeBack(capture, fits)) {
    auto& kept = static_cast<KeptBlock&>(*taken);
    if (IsOfChosenResource(stream.device(), kept.block)) {
      block = std::exchange(kept.block, nullptr);
      CapturedBlocks::Get().Reopen(block);
      break;
    }
    others.push_back(std::move(taken));
  }
  for (auto& other : others) (void)EndWith(capture, std::move(other));
  return block;
}

absl::Status NotTold(StreamRef stream) {
  std::ostringstream text;
  text << stream;
  return CaptureError(absl::StrCat(
      "no memory can be allocated on ", text.str(),
      ", which is capturing: the graph would keep its address, and the backend "
      "cannot tell for how long; allocate before the capture begins"));
}

bool MayCall() { return IsProcessOpen() && !InHostFunction(); }

}  // namespace

absl::StatusOr<CaptureNumber> CaptureOf(StreamRef stream) {
  if (!CheckStream(stream, "a look").ok() ||
      ABSL_PREDICT_TRUE(!MayBeCaptured(stream))) {
    return CaptureNumber::kNone;
  }
  absl::StatusOr<CaptureNumber> capture = HoldCapture(stream);
  // Invalid, or beside a capture that the stream is no part of (C83).
  if (absl::IsFailedPrecondition(capture.status())) return CaptureNumber::kNone;
  return capture;
}

void EndCapturesThatAreOver() {
  if (ABSL_PREDICT_FALSE(HasEnded())) DrainEnded();
}

absl::StatusOr<void*> AllocateOutside(StreamRef stream, uint64_t bytes,
                                      CallSite site) {
  if (!MayCall()) return AllocateMemory(stream, bytes, site);
  EndCapturesThatAreOver();
  DEVRT_ASSIGN_OR_RETURN(const CaptureNumber capture, CaptureOf(stream));
  if (ABSL_PREDICT_TRUE(capture == CaptureNumber::kNone) || bytes == 0) {
    return AllocateMemory(stream, bytes, site);
  }
  if (capture == CaptureNumber::kUnknown) return NotTold(stream);
  if (void* const block = TakeFromCapture(stream, capture, bytes)) return block;
  DEVRT_ASSIGN_OR_RETURN(void* const block,
                         AllocateMemory(stream, bytes, site));
  CapturedBlocks::Get().Add(block, capture, /*elsewhere=*/false);
  return block;
}

absl::Status FreeOutside(void* pointer, const StreamRef* stream,
                         CallSite site) {
  std::optional<StreamRef> on;
  if (stream != nullptr) on = *stream;
  if (pointer == nullptr || !MayCall()) return Free(pointer, on, site);
  EndCapturesThatAreOver();
  const std::optional<HeldBlock> held = FindHeldBlock(pointer);
  // What is no live block is for FreeMemory to describe.
  if (!held.has_value() || held->for_graphs) return Free(pointer, on, site);
  Captures captures;
  for (const std::optional<StreamRef>& each : {held->stream, on}) {
    if (!each.has_value()) continue;
    // Where nothing is known the block is kept.
    const CaptureNumber capture =
        CaptureOf(*each).value_or(CaptureNumber::kUnknown);
    if (capture != CaptureNumber::kNone) captures.push_back(capture);
  }
  if (ABSL_PREDICT_TRUE(captures.empty()) && CapturedBlocks::Get().empty()) {
    return Free(pointer, on, site);
  }
  DEVRT_ASSIGN_OR_RETURN(CaptureMarks marks,
                         CapturedBlocks::Get().Close(pointer, captures, site));
  if (marks.captures.empty()) return Free(pointer, on, site);
  auto kept = std::make_unique<KeptBlock>();
  kept->marks = std::move(marks);
  kept->block = pointer;
  kept->bytes = held->bytes;
  kept->home = held->stream;
  if (on != held->stream) kept->freed_on = on;
  kept->site = site;
  return GiveBack(std::move(kept));
}

absl::Status RecordOutside(const void* pointer, StreamRef stream,
                           CallSite site) {
  if (!MayCall()) return RecordStream(pointer, stream, site);
  EndCapturesThatAreOver();
  DEVRT_ASSIGN_OR_RETURN(const CaptureNumber capture, CaptureOf(stream));
  // What the stream does behind the capture is a use as any other.
  DEVRT_RETURN_IF_ERROR(RecordStream(pointer, stream, site));
  if (ABSL_PREDICT_TRUE(capture == CaptureNumber::kNone)) {
    return absl::OkStatus();
  }
  // The end of a block counts for it (F17).
  for (const char* at : {static_cast<const char*>(pointer),
                         static_cast<const char*>(pointer) - 1}) {
    const std::optional<AllocationRange> range = FindAllocation(at);
    if (!range.has_value()) continue;
    const std::optional<HeldBlock> held = FindHeldBlock(range->base);
    if (!held.has_value() || held->for_graphs) continue;
    CapturedBlocks::Get().Add(const_cast<void*>(range->base), capture,
                              held->stream != stream);
  }
  return absl::OkStatus();
}

}  // namespace devrt::internal
