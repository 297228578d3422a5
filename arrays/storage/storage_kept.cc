// SPDX-License-Identifier: Apache-2.0

#include "arrays/storage/storage_kept.h"

#include <atomic>
#include <limits>
#include <memory>
#include <utility>

#include "absl/base/attributes.h"
#include "absl/base/optimization.h"
#include "arrays/storage/storage.h"
#include "memory/device/pending_frees.h"
#include "runtime/common/thread_state.h"
#include "runtime/registry/process_state.h"
#include "streams/common/deferred_deletion.h"
#include "streams/objects/ordering.h"

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

namespace {

// Returns true for a stream that lives and is capturing, or whose state the
// backend cannot tell.
bool MayBeCapturing(StreamRef stream) {
  return CheckStream(stream, "a look").ok() &&
         IsCapturing(stream).value_or(true);
}

ABSL_ATTRIBUTE_NOINLINE void RunReleases(bool poll) {
  const devrt_call_site_v0 site = t_state.site;
  if (HasDeferredArrayReleases()) RunDeferredArrayReleases();
  if (poll && IsProcessOpen()) KeptThings().Poll(1);
  t_state.site = site;
}

ABSL_ATTRIBUTE_NOINLINE void AskAndRunReleases(
    const std::optional<StreamRef>& beside) {
  RunReleases(CountPendingReleases() != 0 && !InHostFunction() &&
              !(beside.has_value() && MayBeCapturing(*beside)));
}

}  // namespace

void PollPendingReleases(bool capturing) {
  if (ABSL_PREDICT_TRUE(!HasPendingReleases())) return;
  RunReleases(!capturing && CountPendingReleases() != 0);
}

void RunPendingReleases(std::optional<StreamRef> beside) {
  if (ABSL_PREDICT_TRUE(!HasPendingReleases())) return;
  AskAndRunReleases(beside);
}

void RunAllPendingReleases() {
  if (HasDeferredArrayReleases()) RunDeferredArrayReleases();
  if (InHostFunction() || !IsProcessOpen()) return;
  KeptThings().Poll(std::numeric_limits<size_t>::max());
}

bool HasPendingReleases() {
  return g_kept.load(std::memory_order_relaxed) != 0 ||
         HasDeferredArrayReleases();
}

int64_t CountPendingReleases() {
  return g_kept.load(std::memory_order_relaxed);
}

}  // namespace devrt::internal
