// SPDX-License-Identifier: Apache-2.0

#include "streams/common/host_order.h"

#include "devrt/runtime/mutex.h"

namespace devrt::internal {

std::atomic<bool> g_has_exact_host_order{false};

namespace {

enum class Wanted { kAsTheDetector, kObserved, kExact };

struct Attached {
  DeviceRecord* device = nullptr;
  ExtensionOf<devrt_race_v0> race;
};

// Written once, before the pointer is.
Attached g_first;
std::atomic<const Attached*> g_attached{nullptr};

ABSL_CONST_INIT Mutex g_mutex;
Wanted g_wanted DEVRT_GUARDED_BY(g_mutex) = Wanted::kAsTheDetector;
bool g_wants_stacks DEVRT_GUARDED_BY(g_mutex) = false;

// Calls one of the detector's functions.
template <typename Function, typename Arg>
void Tell(Function function, Arg arg) {
  const Attached* const to = g_attached.load(std::memory_order_acquire);
  if (to != nullptr) (to->race.table->*function)(to->race.self, arg);
}

void AskForStacks(const Attached& to) {
  // A detector of before call stacks has a shorter table.
  if (!DEVRT_HAS_FIELD(to.race.table, devrt_race_v0, set_stacks)) return;
  to.race.table->set_stacks(to.race.self, 1);
}

absl::Status Choose(const Attached& to, bool is_exact) {
  absl::Status status =
      FromPlugin(to.device,
                 to.race.table->set_host_order(
                     to.race.self, is_exact ? DEVRT_HOST_ORDER_EXACT
                                            : DEVRT_HOST_ORDER_OBSERVED),
                 "order of host threads");
  if (status.ok()) g_has_exact_host_order.store(is_exact);
  return status;
}

}  // namespace

void AttachDetector(DeviceRecord* device,
                    const ExtensionOf<devrt_race_v0>& race) {
  // A detector of before the order of host threads has a shorter table.
  if (race.table == nullptr ||
      !DEVRT_HAS_FIELD(race.table, devrt_race_v0, set_host_order)) {
    return;
  }
  MutexLock lock(&g_mutex);
  if (g_attached.load(std::memory_order_relaxed) != nullptr) return;
  g_first = {device, race};
  g_has_exact_host_order.store(race.table->host_order(race.self) ==
                               DEVRT_HOST_ORDER_EXACT);
  if (g_wanted != Wanted::kAsTheDetector) {
    Choose(g_first, g_wanted == Wanted::kExact).IgnoreError();
  }
  if (g_wants_stacks) AskForStacks(g_first);
  g_attached.store(&g_first, std::memory_order_release);
}

void WantStacks() {
  MutexLock lock(&g_mutex);
  g_wants_stacks = true;
  const Attached* const to = g_attached.load(std::memory_order_relaxed);
  if (to != nullptr) AskForStacks(*to);
}

absl::Status SetHostOrder(bool is_exact) {
  MutexLock lock(&g_mutex);
  g_wanted = is_exact ? Wanted::kExact : Wanted::kObserved;
  const Attached* const to = g_attached.load(std::memory_order_relaxed);
  return to == nullptr ? absl::OkStatus() : Choose(*to, is_exact);
}

bool IsExactChosen() {
  if (HasExactHostOrder()) return true;
  MutexLock lock(&g_mutex);
  return g_wanted == Wanted::kExact &&
         g_attached.load(std::memory_order_relaxed) == nullptr;
}

void TellRelease(const void* object) {
  Tell(&devrt_race_v0::sync_release, object);
}

void TellAcquire(const void* object) {
  Tell(&devrt_race_v0::sync_acquire, object);
}

void TellForget(const void* object) {
  Tell(&devrt_race_v0::sync_forget, object);
}

void TellKnownOrderToHost() {
  Tell(&devrt_race_v0::known_order, devrt_stream(nullptr));
}

void TellOwnEvent(devrt_event event) { Tell(&devrt_race_v0::own_event, event); }

}  // namespace devrt::internal
