// SPDX-License-Identifier: Apache-2.0

#include "arrays/storage/storage_kept.h"

#include <atomic>
#include <limits>
#include <memory>
#include <utility>

#include "absl/base/optimization.h"
#include "arrays/storage/storage.h"
#include "memory/device/pending_frees.h"
#include "runtime/registry/process_state.h"
#include "streams/common/deferred_deletion.h"
#include "streams/objects/stream_record.h"

namespace devrt::internal {

namespace {

std::atomic<int64_t> g_kept{0};

struct Kept {
  std::function<void()> release;
};

void Release(void* settled) {
  std::unique_ptr<Kept> kept(static_cast<Kept*>(settled));
  g_kept.fetch_sub(1, std::memory_order_relaxed);
  // The line of the call that is under way did not end this storage.
  const EndSiteScope unknown({});
  kept->release();
}

PendingFrees& KeptThings() {
  static PendingFrees* const kept = new PendingFrees(&Release);
  return *kept;
}

}  // namespace

void KeepUntilComplete(absl::Span<const StorageUse> uses,
                       std::function<void()> release) {
  PendingFree item;
  item.block = new Kept{std::move(release)};
  for (const StorageUse& use : uses) {
    item.uses.push_back({use, use.stream.id()});
  }
  g_kept.fetch_add(1, std::memory_order_relaxed);
  KeptThings().Add(std::move(item));
}

void RunPendingReleases(std::optional<StreamRef> beside) {
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

void RunAllPendingReleases() {
  if (HasDeferredArrayReleases()) RunDeferredArrayReleases();
  if (InHostFunction() || !IsProcessOpen()) return;
  KeptThings().Poll(std::numeric_limits<size_t>::max());
}

bool HasPendingReleases() {
  return HasDeferredArrayReleases() ||
         g_kept.load(std::memory_order_relaxed) != 0;
}

int64_t CountPendingReleases() {
  return g_kept.load(std::memory_order_relaxed);
}

}  // namespace devrt::internal
