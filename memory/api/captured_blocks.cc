// SPDX-License-Identifier: Apache-2.0

#include "memory/api/captured_blocks.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "devrt/memory/device_memory.h"
#include "devrt/runtime/capture_error.h"
#include "devrt/runtime/log.h"
#include "devrt/runtime/mutex.h"
#include "devrt/runtime/status.h"
#include "memory/api/known_uses.h"
#include "memory/common/rounding.h"
#include "memory/device/device_allocator.h"
#include "runtime/common/text.h"
#include "runtime/raw_memory/allocation_table.h"
#include "runtime/registry/process_state.h"
#include "streams/common/deferred_deletion.h"
#include "streams/objects/may_capture.h"
#include "streams/objects/stream_record.h"

namespace devrt::internal {

std::atomic<size_t> g_captured_blocks{0};

namespace {

using Captures = std::vector<CaptureNumber>;

enum class MarkedBy { kAllocation, kItsStream, kOtherStream };

// The captures that keep a block, and what they may do with it.
struct CaptureMarks {
  Captures captures;
  // The capture in which the block was handed out.  Eager work, which no graph
  // is ordered behind, may use a block from before the capture.
  CaptureNumber handed_out = CaptureNumber::kNone;
  // Another stream than the block's own has used it.  A graph need not run
  // later work of the block's stream behind that use.
  bool other_stream = false;

  void Join(CaptureNumber capture) {
    if (std::find(captures.begin(), captures.end(), capture) ==
        captures.end()) {
      captures.push_back(capture);
    }
  }
};

uint64_t Granules(uint64_t bytes) { return (bytes + kGranule - 1) / kGranule; }

// A freed block that captures keep.  The object ends when one of them is over.
struct KeptBlock final : DeferredObject {
  ~KeptBlock() override;

  void* block = nullptr;  // nullptr: reused, or given back
  uint64_t id = 0;
  uint64_t bytes = 0;
  std::optional<StreamRef> home;
  std::optional<StreamRef> freed_on;  // if not `home`
  CallSite site;
  CaptureMarks marks;
};

// The live and freed blocks that captures keep.  A block is identified by its
// address and its id, because a block that its resource took back may leave an
// entry behind.
class CapturedBlocks {
 public:
  static CapturedBlocks& Get() {
    static CapturedBlocks* const blocks = new CapturedBlocks;
    return *blocks;
  }

  // The capture keeps the block.  Returns true if the capture has no CaptureEnd
  // yet.
  bool Add(const HeldBlock& block, CaptureNumber capture, MarkedBy by)
      DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    CaptureMarks& marks = Find(block).marks;
    marks.Join(capture);
    if (by == MarkedBy::kAllocation) marks.handed_out = capture;
    if (by == MarkedBy::kOtherStream) marks.other_stream = true;
    Count();
    return captures_.insert(capture).second;
  }
  // Work of another stream than the block's uses it, and is not captured.
  void NoteOtherStream(const HeldBlock& block) DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    const auto found = blocks_.find(block.base);
    if (found != blocks_.end() && found->second.id == block.id) {
      found->second.marks.other_stream = true;
    }
  }
  bool Contains(const void* block) DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    return blocks_.contains(block);
  }
  // The block was freed while `captures` were under way.  Returns all captures
  // that keep it, or an error if it was freed before.
  absl::StatusOr<CaptureMarks> NoteFree(const HeldBlock& block,
                                        const Captures& captures, CallSite site)
      DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    if (captures.empty() && !blocks_.contains(block.base)) {
      return CaptureMarks();
    }
    Entry& entry = Find(block);
    if (entry.freed) return FreedBefore(block.base, entry.freed_at);
    for (const CaptureNumber capture : captures) entry.marks.Join(capture);
    if (entry.marks.captures.empty()) {
      blocks_.erase(block.base);
      Count();
      return CaptureMarks();
    }
    entry.freed = true;
    entry.freed_at = site;
    Count();
    return entry.marks;
  }
  // The capture that keeps the block has handed it out again.
  void NoteReuse(const void* block) DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    const auto found = blocks_.find(block);
    if (found != blocks_.end()) found->second.freed = false;
  }
  void Forget(const void* block, uint64_t id) DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    const auto found = blocks_.find(block);
    if (found != blocks_.end() && found->second.id == id) blocks_.erase(found);
    Count();
  }
  // Forgets captures that are over, and the live blocks that they kept.
  void ForgetEndedCaptures() DEVRT_EXCLUDES(mutex_) {
    MutexLock lock(&mutex_);
    absl::erase_if(captures_, &IsOver);
    absl::erase_if(blocks_, [](const auto& block) {
      const Entry& entry = block.second;
      return !entry.freed && std::all_of(entry.marks.captures.begin(),
                                         entry.marks.captures.end(), &IsOver);
    });
    Count();
  }

 private:
  struct Entry {
    uint64_t id = 0;
    CaptureMarks marks;
    bool freed = false;
    CallSite freed_at;
  };

  Entry& Find(const HeldBlock& block) DEVRT_REQUIRES(mutex_) {
    Entry& entry = blocks_[block.base];
    if (entry.id != block.id) entry = Entry();
    entry.id = block.id;
    return entry;
  }
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
    g_captured_blocks.store(blocks_.size(), std::memory_order_release);
  }

  Mutex mutex_;  // only IsOver is called under it
  absl::flat_hash_map<const void*, Entry> blocks_ DEVRT_GUARDED_BY(mutex_);
  absl::flat_hash_set<CaptureNumber> captures_ DEVRT_GUARDED_BY(mutex_);
};

// Attached to a capture; destroyed when the capture is over.
struct CaptureEnd final : DeferredObject {
  ~CaptureEnd() override { CapturedBlocks::Get().ForgetEndedCaptures(); }
};

void Mark(const HeldBlock& block, CaptureNumber capture, MarkedBy by) {
  if (CapturedBlocks::Get().Add(block, capture, by)) {
    (void)KeepUntilOver(capture, std::make_unique<CaptureEnd>());
  }
}

absl::Status Free(void* block, const std::optional<StreamRef>& stream,
                  CallSite site) {
  return stream.has_value() ? FreeMemory(block, *stream, site)
                            : FreeMemory(block, site);
}

// False if the block's resource has taken it back without a free.
bool IsStillLive(const KeptBlock& kept) {
  const std::optional<HeldBlock> held = FindHeldBlock(kept.block);
  return held.has_value() && held->base == kept.block && held->id == kept.id;
}

// Frees the block if all captures that keep it are over.  Otherwise attaches it
// to one of the others.
absl::Status FreeOrKeepForNext(std::unique_ptr<KeptBlock> kept) {
  Captures& captures = kept->marks.captures;
  captures.erase(std::remove_if(captures.begin(), captures.end(), &IsOver),
                 captures.end());
  if (captures.empty()) {
    const bool is_live = IsStillLive(*kept);
    void* const block = std::exchange(kept->block, nullptr);
    CapturedBlocks::Get().Forget(block, kept->id);
    return is_live ? Free(block, kept->freed_on, kept->site) : absl::OkStatus();
  }
  // If the capture is over by now, `kept` is destroyed, which calls this again.
  const CaptureNumber capture = captures.back();
  (void)KeepUntilOver(capture, std::move(kept));
  return absl::OkStatus();
}

KeptBlock::~KeptBlock() {
  if (block == nullptr || !IsProcessOpen()) return;
  auto next = std::make_unique<KeptBlock>();
  next->block = block;
  next->id = id;
  next->bytes = bytes;
  next->home = home;
  next->freed_on = freed_on;
  next->site = site;
  next->marks = std::move(marks);
  const absl::Status status = FreeOrKeepForNext(std::move(next));
  if (!status.ok()) DEVRT_LOG(kWarning, std::string(ToStd(status.message())));
}

// A kept block for a request of `bytes` in `capture`: one of that size which
// the stream got and freed in the capture; nullptr if there is none.
void* ReuseInCapture(StreamRef stream, CaptureNumber capture, uint64_t bytes) {
  const auto fits = [&](const DeferredObject& object) {
    const auto* const kept = dynamic_cast<const KeptBlock*>(&object);
    if (kept == nullptr) return false;
    const CaptureMarks& marks = kept->marks;
    return kept->home == stream && !kept->freed_on.has_value() &&
           // A resource need not give more bytes than it was asked for.
           kept->bytes >= bytes && Granules(kept->bytes) == Granules(bytes) &&
           !marks.other_stream && marks.handed_out == capture &&
           marks.captures.size() == 1 && marks.captures.front() == capture;
  };
  void* block = nullptr;
  // Kept blocks of resources that the program has replaced since.
  std::vector<std::unique_ptr<DeferredObject>> others;
  while (std::unique_ptr<DeferredObject> taken = TakeOutNewest(capture, fits)) {
    auto& kept = static_cast<KeptBlock&>(*taken);
    if (!IsStillLive(kept)) {
      CapturedBlocks::Get().Forget(std::exchange(kept.block, nullptr), kept.id);
      continue;
    }
    if (IsOfChosenResource(stream.device(), kept.block)) {
      block = std::exchange(kept.block, nullptr);
      CapturedBlocks::Get().NoteReuse(block);
      break;
    }
    others.push_back(std::move(taken));
  }
  for (auto& other : others) (void)KeepUntilOver(capture, std::move(other));
  return block;
}

absl::Status UnknownCaptureError(StreamRef stream) {
  std::ostringstream text;
  text << stream;
  return CaptureError(absl::StrCat(
      "no memory can be allocated on ", text.str(),
      ", which is capturing: the graph would keep its address, and the backend "
      "cannot tell for how long, as with a driver older than CUDA 12.3; "
      "allocate before the capture begins"));
}

bool AreCallsAllowed() { return IsProcessOpen() && !InHostFunction(); }

}  // namespace

absl::StatusOr<CaptureNumber> CaptureOf(StreamRef stream) {
  if (!CheckStream(stream, "a look").ok() ||
      ABSL_PREDICT_TRUE(!MayBeCaptured(stream))) {
    return CaptureNumber::kNone;
  }
  absl::StatusOr<CaptureNumber> capture = HoldCapture(stream);
  // The capture is invalid, or the stream is not part of it (C83).
  if (absl::IsFailedPrecondition(capture.status())) return CaptureNumber::kNone;
  return capture;
}

absl::StatusOr<void*> AllocateOutside(StreamRef stream, uint64_t bytes,
                                      CallSite site) {
  if (!AreCallsAllowed()) return AllocateMemory(stream, bytes, site);
  RunDeferredCaptureEnds();
  DEVRT_ASSIGN_OR_RETURN(const CaptureNumber capture, CaptureOf(stream));
  if (ABSL_PREDICT_TRUE(capture == CaptureNumber::kNone) || bytes == 0) {
    return AllocateMemory(stream, bytes, site);
  }
  if (capture == CaptureNumber::kUnknown) return UnknownCaptureError(stream);
  if (void* const block = ReuseInCapture(stream, capture, bytes)) return block;
  DEVRT_ASSIGN_OR_RETURN(void* const block,
                         AllocateMemory(stream, bytes, site));
  if (const auto held = FindHeldBlock(block)) {
    Mark(*held, capture, MarkedBy::kAllocation);
  }
  return block;
}

namespace {

// Frees the block, unless its captures or `captures` keep it.
absl::Status FreeOrKeep(const HeldBlock& held, const Captures& captures,
                        const std::optional<StreamRef>& on, CallSite site) {
  DEVRT_ASSIGN_OR_RETURN(CaptureMarks marks,
                         CapturedBlocks::Get().NoteFree(held, captures, site));
  if (marks.captures.empty()) return Free(held.base, on, site);
  auto kept = std::make_unique<KeptBlock>();
  kept->marks = std::move(marks);
  kept->block = held.base;
  kept->id = held.id;
  kept->bytes = held.bytes;
  kept->home = held.stream;
  if (on != held.stream) kept->freed_on = on;
  kept->site = site;
  return FreeOrKeepForNext(std::move(kept));
}

// True if the capture keeps the whole pool of the block.
bool IsKeptByPool(const HeldBlock& held, CaptureNumber capture) {
  return held.graphs != nullptr && held.graphs->HasCapture(capture);
}

}  // namespace

absl::Status FreeOutside(void* pointer, const StreamRef* stream,
                         CallSite site) {
  std::optional<StreamRef> on;
  if (stream != nullptr) on = *stream;
  if (pointer == nullptr || !AreCallsAllowed()) return Free(pointer, on, site);
  RunDeferredCaptureEnds();
  const std::optional<HeldBlock> held = FindHeldBlock(pointer);
  // FreeMemory makes the error for a pointer that is not a live block.
  if (!held.has_value() || held->base != pointer) {
    return Free(pointer, on, site);
  }
  Captures captures;
  for (const std::optional<StreamRef>& each : {held->stream, on}) {
    if (!each.has_value()) continue;
    // If the backend cannot tell, the block is kept.
    const CaptureNumber capture =
        CaptureOf(*each).value_or(CaptureNumber::kUnknown);
    if (capture != CaptureNumber::kNone && !IsKeptByPool(*held, capture)) {
      captures.push_back(capture);
    }
  }
  if (ABSL_PREDICT_TRUE(captures.empty()) && !HasCapturedBlocks()) {
    return Free(pointer, on, site);
  }
  return FreeOrKeep(*held, captures, on, site);
}

bool IsCapturedBlock(const void* pointer) {
  return CapturedBlocks::Get().Contains(pointer);
}

std::optional<absl::Status> FreeCapturedBlock(void* pointer,
                                              const StreamRef* stream,
                                              CallSite site) {
  if (!IsCapturedBlock(pointer)) return std::nullopt;
  const std::optional<HeldBlock> held = FindHeldBlock(pointer);
  if (!held.has_value() || held->base != pointer) return std::nullopt;
  std::optional<StreamRef> on;
  if (stream != nullptr) on = *stream;
  return FreeOrKeep(*held, {}, on, site);
}

absl::Status RecordOutside(const void* pointer, StreamRef stream,
                           CallSite site) {
  if (!AreCallsAllowed()) return RecordStream(pointer, stream, site);
  RunDeferredCaptureEnds();
  DEVRT_ASSIGN_OR_RETURN(const CaptureNumber capture, CaptureOf(stream));
  // Work that the stream gets behind the capture uses the block, too.
  DEVRT_RETURN_IF_ERROR(RecordStream(pointer, stream, site));
  if (ABSL_PREDICT_TRUE(capture == CaptureNumber::kNone) &&
      !HasCapturedBlocks()) {
    return absl::OkStatus();
  }
  const std::optional<HeldBlock> held = FindHeldBlock(pointer);
  if (!held.has_value()) return absl::OkStatus();
  const bool other_stream = held->stream != stream;
  if (capture == CaptureNumber::kNone) {
    if (other_stream) CapturedBlocks::Get().NoteOtherStream(*held);
  } else if (!IsKeptByPool(*held, capture)) {
    Mark(*held, capture,
         other_stream ? MarkedBy::kOtherStream : MarkedBy::kItsStream);
  }
  return absl::OkStatus();
}

}  // namespace devrt::internal
