// SPDX-License-Identifier: Apache-2.0
#include "runtime/registry/shutdown.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "devrt/backends/abi/devrt_race.h"
#include "devrt/runtime/backend.h"
#include "devrt/runtime/log.h"
#include "runtime/common/text.h"
#include "runtime/registry/memory_hooks.h"
#include "runtime/registry/process_state.h"
#include "runtime/registry/race_detector.h"

namespace devrt::internal {
namespace {

// "mtia:0 has 1 stream, 2 allocations"; empty if nothing is alive.
std::string LiveObjects(DeviceRecord* device) {
  std::vector<std::string> counts;
  const auto add = [&](int64_t count, const char* noun) {
    if (count > 0) counts.push_back(Counted(count, noun));
  };
  add(device->live_streams.load(), "stream");
  const bool has_spare = device->spare_event.load() != nullptr;
  add(device->live_events.load() - (has_spare ? 1 : 0), "event");
  int64_t allocations = device->live_allocations.load();
  if (const MemoryHooks* hooks = GetMemoryHooks()) {
    allocations += hooks->count_live(device);
  }
  add(allocations, "allocation");
  if (counts.empty()) return std::string();
  return absl::StrCat(DeviceName(device), " has ", absl::StrJoin(counts, ", "));
}

void SetClosed(const std::vector<DeviceRecord*>& devices, bool closed) {
  const auto set = [closed](std::atomic<uint32_t>* state) {
    closed ? state->fetch_or(kShutDown) : state->fetch_and(~kShutDown);
  };
  set(&process_state);
  static const Turns* before = nullptr;  // a refused shutdown goes back to it
  if (closed) {
    before = g_turns.exchange(nullptr);
  } else {
    g_turns.store(before);
  }
  for (DeviceRecord* device : devices) set(&device->state);
}

bool HasLostDevice(const BackendRecord& backend) {
  return std::any_of(backend.devices.begin(), backend.devices.end(),
                     [](const DeviceRecord* device) {
                       return (device->state.load() & kQuarantined) != 0;
                     });
}

// Tells a race detector, if there is one: it knows the lines.
void ReportLeaks(absl::Span<BackendRecord* const> backends) {
  for (BackendRecord* const backend : backends) {
    const absl::StatusOr<Extension> race = FindRaceDetector(backend);
    if (!race.ok()) continue;
    const auto* const table = static_cast<const devrt_race_v0*>(race->table);
    if (DEVRT_HAS_FIELD(table, devrt_race_v0, report_leaks)) {
      table->report_leaks(race->self);
    }
    return;  // one detector serves all backends
  }
}

}  // namespace

absl::Status CheckNothingAlive(const char* call,
                               const std::vector<DeviceRecord*>& devices) {
  std::vector<std::string> alive;
  for (DeviceRecord* device : devices) {
    std::string text = LiveObjects(device);
    if (!text.empty()) alive.push_back(std::move(text));
  }
  if (alive.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      call, " is refused while objects are alive: ", absl::StrJoin(alive, "; "),
      "; destroy them first"));
}

absl::Status CloseBackends(absl::Span<BackendRecord* const> backends) {
  std::vector<DeviceRecord*> devices;
  for (const BackendRecord* backend : backends) {
    devices.insert(devices.end(), backend->devices.begin(),
                   backend->devices.end());
  }
  absl::Status refused = CheckNothingAlive("Shutdown", devices);
  if (!refused.ok()) {
    ReportLeaks(backends);
    return refused;
  }
  SetClosed(devices, true);
  // Checks again, because an object may have been made before the gate closed.
  refused = CheckNothingAlive("Shutdown", devices);
  if (!refused.ok()) {
    SetClosed(devices, false);
    return refused;
  }
  for (DeviceRecord* device : devices) RunReleaseHook(device);
  absl::Status first;
  for (BackendRecord* backend : backends) {
    // The handles of a lost device were leaked, so its driver must not shut
    // down.
    if (HasLostDevice(*backend)) continue;
    first.Update(backend->chain->Shutdown());
  }
  return first;
}

}  // namespace devrt::internal
