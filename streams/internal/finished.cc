// SPDX-License-Identifier: Apache-2.0

#include "streams/internal/finished.h"

#include <atomic>

#include "runtime/internal/process_state.h"

namespace devrt::internal {

// Trivially destructible: both are used after the end of main.
std::atomic<Finished*> g_finished{nullptr};

namespace {

std::atomic<Finished*> g_released{nullptr};
std::atomic<Finished*> g_ended{nullptr};

void Push(std::atomic<Finished*>* list, Finished* object) {
  Finished* head = list->load(std::memory_order_relaxed);
  do {
    object->next_finished = head;
  } while (!list->compare_exchange_weak(head, object, std::memory_order_release,
                                        std::memory_order_relaxed));
}

void DeleteAll(std::atomic<Finished*>* list) {
  Finished* object = list->exchange(nullptr, std::memory_order_acquire);
  while (object != nullptr) {
    Finished* next = object->next_finished;
    delete object;
    object = next;
  }
}

}  // namespace

void AddFinished(Finished* object) { Push(&g_finished, object); }

void DrainFinished() {
  // In a forked child what the parent's functions owned is the parent's.
  if (InHostFunction() || (process_state.load() & kForkedChild) != 0) return;
  DeleteAll(&g_finished);
}

void AddReleased(Finished* object) { Push(&g_released, object); }

bool HasReleased() {
  return g_released.load(std::memory_order_relaxed) != nullptr || HasEnded();
}

void DrainReleased() {
  DrainEnded();
  if (InHostFunction() || !IsProcessOpen()) return;
  DeleteAll(&g_released);
}

void AddEnded(Finished* object) { Push(&g_ended, object); }

bool HasEnded() { return g_ended.load(std::memory_order_relaxed) != nullptr; }

void DrainEnded() {
  if (InHostFunction() || !IsProcessOpen()) return;
  DeleteAll(&g_ended);
}

}  // namespace devrt::internal
