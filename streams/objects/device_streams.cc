// SPDX-License-Identifier: Apache-2.0

#include "streams/objects/device_streams.h"

#include <memory>
#include <mutex>

#include "runtime/registry/open.h"
#include "runtime/registry/race_detector.h"
#include "streams/common/deferred_deletion.h"
#include "streams/common/host_order.h"

namespace devrt::internal {

namespace {

void ReleasePooled(DeviceRecord* device) {
  DeviceStreams* s = device->streams.load(std::memory_order_acquire);
  if (s == nullptr) return;
  s->streams.ReleaseIdle();
  s->timelines.Release();
  s->checkpoints.DestroyAll();
  s->events.ReleaseIdle();
  s->legacy.handle.store(nullptr, std::memory_order_release);
}

void Settle(DeviceRecord* device) {
  if (HasDeferredDeletions()) RunDeferredDeletions();
  if (HasDeferredArrayReleases()) RunDeferredArrayReleases();
  DeviceStreams* s = device->streams.load(std::memory_order_acquire);
  if (s != nullptr && IsOpen(device)) s->streams.Trim();
}

absl::Status SynchronizeDevice(DeviceRecord* device,
                               absl::FunctionRef<absl::Status()> wait) {
  DeviceStreams* s = device->streams.load(std::memory_order_acquire);
  return s != nullptr ? s->timelines.Synchronize(wait) : wait();
}

}  // namespace

DeviceStreams::DeviceStreams(DeviceRecord* record)
    : device(record),
      legacy(record),
      streams(record),
      events(record),
      checkpoints(record),
      timelines(record, &checkpoints, &capture) {
  legacy.kind = StreamKind::kDefault;
  legacy.blocking = true;
  legacy.timeline.store(timelines.legacy());
  legacy.serial.store(kDefaultSerial);
  launch = FindExtension<devrt_launch_v0>(record, DEVRT_LAUNCH_EXTENSION);
  probe = FindExtension<devrt_probe_v0>(record, DEVRT_PROBE_EXTENSION);
  const auto numbers =
      FindExtension<devrt_dlpack_v0>(record, DEVRT_DLPACK_EXTENSION);
  dlpack = numbers.table != nullptr
               ? *numbers.table
               : devrt_dlpack_v0{sizeof(devrt_dlpack_v0), 12, 1, 0};
  event_ipc =
      FindExtension<devrt_event_ipc_v0>(record, DEVRT_EVENT_IPC_EXTENSION);
  capture = FindCapture(record);
  elementwise =
      FindExtension<devrt_elementwise_v0>(record, DEVRT_ELEMENTWISE_EXTENSION);
  reduce = FindExtension<devrt_reduce_v0>(record, DEVRT_REDUCE_EXTENSION);
  race = ToExtensionOf<devrt_race_v0>(FindRaceDetector(record->backend));
  AttachDetector(record, race);
  AttachTurns(*record->backend);
}

void DeviceStreams::Tell(uint32_t kind, const void* object,
                         CallSite site) const {
  if (!DEVRT_HAS_FIELD(race.table, devrt_race_v0, report_leaks)) return;
  const CallSiteScope noted(site);
  race.table->object_made(race.self, device->ordinal, kind, object);
}

void DeviceStreams::TellEnd(const void* object) const {
  if (!DEVRT_HAS_FIELD(race.table, devrt_race_v0, report_leaks)) return;
  // The layer's mutex may be locked by a thread that a forked child lacks.
  if ((device->state.load(std::memory_order_acquire) & kForkedChild) != 0) {
    return;
  }
  race.table->object_ended(race.self, object);
}

DeviceStreams* DeviceStreams::Make(DeviceRecord* device) {
  static std::once_flag hooks;
  std::call_once(hooks, [] {
    SetQuarantineHook(&RunHostCallsWithFault);
    SetReleaseHook(&ReleasePooled);
    SetSettleHook(&Settle);
    SetSynchronizeHook(&SynchronizeDevice);
  });
  auto made = std::make_unique<DeviceStreams>(device);
  DeviceStreams* expected = nullptr;
  if (device->streams.compare_exchange_strong(expected, made.get())) {
    return made.release();
  }
  return expected;
}

}  // namespace devrt::internal
