// SPDX-License-Identifier: Apache-2.0

#include "streams/common/deferred_deletion.h"

#include <atomic>

#include "absl/base/optimization.h"
#include "runtime/registry/process_state.h"

namespace devrt::internal {

// Without destructors, because the lists are used after the end of main.
std::atomic<DeferredObject*> g_deferred_deletions{nullptr};

namespace {

std::atomic<DeferredObject*> g_array_releases{nullptr};
std::atomic<DeferredObject*> g_capture_ends{nullptr};

void Push(std::atomic<DeferredObject*>* list, DeferredObject* object) {
  DeferredObject* head = list->load(std::memory_order_relaxed);
  do {
    object->next_deferred = head;
  } while (!list->compare_exchange_weak(head, object, std::memory_order_release,
                                        std::memory_order_relaxed));
}

void DeleteAll(std::atomic<DeferredObject*>* list) {
  DeferredObject* object = list->exchange(nullptr, std::memory_order_acquire);
  while (object != nullptr) {
    DeferredObject* next = object->next_deferred;
    delete object;
    object = next;
  }
}

}  // namespace

void DeferDeletion(DeferredObject* object) {
  Push(&g_deferred_deletions, object);
}

void RunDeferredDeletions() {
  // A forked child leaves the objects to the parent, which owns what they use.
  if (InHostFunction() || (process_state.load() & kForkedChild) != 0) return;
  DeleteAll(&g_deferred_deletions);
}

void DeferArrayRelease(DeferredObject* object) {
  Push(&g_array_releases, object);
}

bool HasDeferredArrayReleases() {
  return g_array_releases.load(std::memory_order_relaxed) != nullptr ||
         g_capture_ends.load(std::memory_order_relaxed) != nullptr;
}

void RunDeferredArrayReleases() {
  RunDeferredCaptureEnds();
  if (InHostFunction() || !IsProcessOpen()) return;
  DeleteAll(&g_array_releases);
}

void DeferCaptureEnd(DeferredObject* object) { Push(&g_capture_ends, object); }

void RunDeferredCaptureEnds() {
  // Each call for memory comes here, and there is seldom an object.
  if (ABSL_PREDICT_TRUE(g_capture_ends.load(std::memory_order_relaxed) ==
                        nullptr)) {
    return;
  }
  if (InHostFunction() || !IsProcessOpen()) return;
  DeleteAll(&g_capture_ends);
}

}  // namespace devrt::internal
