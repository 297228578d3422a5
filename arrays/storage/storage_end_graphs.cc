// SPDX-License-Identifier: Apache-2.0
//
// StorageEnd, for memory that graphs of another library may use: a graph keeps
// the addresses of the memory that its capture used.

#include <algorithm>
#include <atomic>
#include <utility>
#include <vector>

#include "arrays/storage/storage_end.h"
#include "memory/api/known_uses.h"
#include "streams/common/deferred_deletion.h"
#include "streams/objects/ordering.h"
#include "streams/objects/stream_record.h"

namespace devrt::internal {

namespace {

std::atomic<int64_t> g_in_graphs{0};

}  // namespace

// An end that may go on.  A call of devrt destroys it: the end may run an
// owner's deleter, which is not allowed where the driver reports that a graph
// is gone.
struct StorageEnd::AfterGraphs final : DeferredObject {
  explicit AfterGraphs(StorageEnd e) : end(std::move(e)) {}
  ~AfterGraphs() override {
    const EndSiteScope unknown({});
    EndWithCaptures(std::move(end));
  }
  StorageEnd end;
};

// An end that waits for the graphs of one capture, which own this object.
struct StorageEnd::InGraphs final : DeferredObject {
  explicit InGraphs(StorageEnd e) : end(std::move(e)) {
    g_in_graphs.fetch_add(1, std::memory_order_relaxed);
  }
  ~InGraphs() override {
    g_in_graphs.fetch_sub(1, std::memory_order_relaxed);
    if (end.base_ != nullptr || end.HasOwner()) {
      DeferArrayRelease(new AfterGraphs(std::move(end)));
    }
  }
  StorageEnd end;
};

int64_t StorageEnd::CountInGraphs() {
  return g_in_graphs.load(std::memory_order_relaxed);
}

// Waits for one capture at a time, until none is left.
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
  (void)KeepUntilOver(capture, std::make_unique<InGraphs>(std::move(end)));
}

bool StorageEnd::IsOnlyOf(StreamRef stream, CaptureNumber capture) const {
  const auto elsewhere = [&](const StorageUse& use) {
    return use.stream != stream || (use.captured() && use.capture != capture);
  };
  return source_ == Storage::Source::kDevice && home_ == stream &&
         !deallocation_.has_value() &&
         std::none_of(captured_.begin(), captured_.end(), elsewhere) &&
         std::none_of(uses_.begin(), uses_.end(), elsewhere);
}

void* StorageEnd::TakeFromGraph(StreamRef stream, CaptureNumber capture,
                                uint64_t bytes) {
  constexpr uint64_t kGranule = 512;
  const auto granules = [](uint64_t size) {
    return (size + kGranule - 1) / kGranule;
  };
  const auto fits = [&](const DeferredObject& object) {
    // Captures keep objects of other classes as well (captured_blocks.h).
    const auto* const kept = dynamic_cast<const InGraphs*>(&object);
    if (kept == nullptr) return false;
    const StorageEnd& end = kept->end;
    // A resource may have given no byte more than the array asked for.
    return end.bytes_ >= bytes && granules(end.bytes_) == granules(bytes) &&
           end.IsOnlyOf(stream, capture);
  };
  void* base = nullptr;
  // Memory of a resource that the program has replaced since.
  std::vector<std::unique_ptr<DeferredObject>> others;
  while (std::unique_ptr<DeferredObject> taken = TakeOutNewest(capture, fits)) {
    StorageEnd& end = static_cast<InGraphs&>(*taken).end;
    if (IsOfChosenResource(stream.device(), end.base_)) {
      base = std::exchange(end.base_, nullptr);
      break;
    }
    others.push_back(std::move(taken));
  }
  for (auto& other : others) (void)KeepUntilOver(capture, std::move(other));
  return base;
}

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

}  // namespace devrt::internal
