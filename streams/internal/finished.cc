// SPDX-License-Identifier: Apache-2.0

#include "devrt/streams/internal/finished.h"

#include <atomic>

#include "devrt/runtime/internal/process_state.h"

namespace devrt::internal {

namespace {
std::atomic<Finished*> g_finished{nullptr};
}  // namespace

void AddFinished(Finished* object) {
  Finished* head = g_finished.load(std::memory_order_relaxed);
  do {
    object->next_finished = head;
  } while (!g_finished.compare_exchange_weak(
      head, object, std::memory_order_release, std::memory_order_relaxed));
}

bool HasFinished() {
  return g_finished.load(std::memory_order_relaxed) != nullptr;
}

void DrainFinished() {
  // In a forked child what the parent's functions owned is the parent's.
  if (InHostFunction() || (process_state.load() & kForkedChild) != 0) return;
  Finished* object = g_finished.exchange(nullptr, std::memory_order_acquire);
  while (object != nullptr) {
    Finished* next = object->next_finished;
    delete object;
    object = next;
  }
}

}  // namespace devrt::internal
