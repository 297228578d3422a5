// SPDX-License-Identifier: Apache-2.0
//
// Events: their destruction, other devices, the legacy stream, flags.
#include <cstring>

#include "cts/catalog.h"
#include "cts/held_stream.h"
#include "cts/objects.h"
#include "devrt/backends/abi/devrt_event_ipc.h"

namespace devrt::cts {
namespace event_life_tests {
namespace {

using Ops = devrt_ops_v0;
constexpr uint64_t kSize = 4096;

// ---- C34: destruction

void KeepsItsWaits(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    RawEvent e(t, t.device(), flags);
    HeldStream held(t, a);
    a.Fill(x.ptr(), 1, x.size());
    e.Record(a);
    b.Wait(e);
    t.Ok(e.Destroy(), "destruction of a pending event");
    held.StillHolds("destruction of a pending event does not wait");
    b.Fill(x.ptr(), 2, x.size());
    held.Blocks(b, "a wait holds although its event is gone");
    held.Open();
    b.Sync();
    t.Expect(x.Holds(2), "the wait orders although its event is gone");
  });
}

void DestroyedEventKeepsItsWaits(Test& t) {
  KeepsItsWaits(t, 0);
  KeepsItsWaits(t, DEVRT_EVENT_BLOCKING_SYNC);
}

// An event that is created after the destruction of a pending one may get its
// handle.
void DestroyedEventLeavesNoTrace(Test& t) {
  t.InEverySchedule([&] {
    const RawStream a(t, t.device()), b(t, t.device()), c(t, t.device());
    RawEvent old(t, t.device());
    Gate first(t);
    first.Hold(a);
    old.Record(a);
    c.Wait(old);
    t.Ok(old.Destroy(), "destruction of a pending event");
    const RawEvent e(t, t.device());
    t.Expect(e.Query(), "a new event was never recorded");
    HeldStream held(t, b);
    e.Record(b);
    t.Expect(!c.Query(), "a new event does not end waits for a former one");
    first.Open();
    a.Sync();
    c.Sync();
    held.Blocks(e, "a former event's record does not complete a new event");
  });
}

// ---- C30, C31, C32, C33: other streams and devices

void RecordOnLegacy(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const RawStream a(t, t.device(), DEVRT_STREAM_BLOCKING);
    const RawStream legacy = Legacy(t);
    const RawStream b(t, t.device());
    const RawEvent e(t, t.device(), flags);
    HeldStream held(t, a);
    e.Record(legacy);
    b.Wait(e);
    held.Blocks(e, "a record on the legacy stream covers blocking streams");
    held.Blocks(b, "so does a wait for it");
    held.Open();
    e.Sync();
    t.Expect(a.Query(), "and a synchronisation with it");
  });
}

void RecordOnLegacyCoversBlockingStreams(Test& t) { RecordOnLegacy(t, 0); }

void RecordAcrossDevices(Test& t, uint32_t flags) {
  Machine& m = t.machine();
  const RawStream a(t, t.device(0)), b(t, t.device(0)), other(t, t.device(1));
  const RawEvent fresh(t, t.device(0), flags), done(t, t.device(0), flags);
  const RawEvent pending(t, t.device(0), flags);
  done.Record(a);
  done.Sync();
  HeldStream held(t, a);
  Gate other_gate(t);
  other_gate.Hold(other);
  pending.Record(a);
  for (const RawEvent* const e : {&fresh, &done, &pending}) {
    t.Code(m.Call<&Ops::event_record>(e->handle(), other.handle()),
           DEVRT_INVALID_ARGUMENT, "a record on another device's stream");
  }
  t.Expect(fresh.Query(), "an event that could not be recorded is unrecorded");
  t.Expect(done.Query(), "a complete event stays complete");
  b.Wait(fresh);
  b.Wait(done);
  held.LetsPass(b, "waits for those two end at once");
  held.Blocks(pending, "a pending event keeps its capture");
  b.Wait(pending);
  held.Blocks(b, "a wait waits for the capture that stayed");
  held.Open();
  pending.Sync();
  b.Sync();
  t.Expect(!other.Query(), "none of them waits for the other device's stream");
}

void RecordAcrossDevicesIsRefused(Test& t) { RecordAcrossDevices(t, 0); }

// The C++ API refuses the record, too, and names both devices.
void RecordAcrossDevicesNamesBoth(Test& t) {
  const Event e = t.Require(Event::Create(t.cpp_device(0)), "event creation");
  const Stream s = t.Require(Stream::Create(t.cpp_device(1)), "a stream");
  const absl::Status refused = e.Record(s);
  t.Code(refused, DEVRT_INVALID_ARGUMENT, "a record on another device's stream",
         t.cpp_device(0).name());
  t.Code(refused, DEVRT_INVALID_ARGUMENT, "a record on another device's stream",
         t.cpp_device(1).name());
  t.Expect(t.Require(e.Query(), "event query"), "the event is unrecorded");
}

void WaitAcross(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(0), kSize), y(t, t.device(1), kSize);
    const HostBlock between(t, t.device(0), kSize);
    const RawStream a(t, t.device(0)), b(t, t.device(1));
    const RawEvent e(t, t.device(0), flags);
    HeldStream held(t, a);
    a.Fill(x.ptr(), 1, x.size());
    a.Copy(between.ptr(), x.ptr(), x.size(), DEVRT_COPY_D2H);
    e.Record(a);
    b.Wait(e);
    b.Copy(y.ptr(), between.ptr(), y.size(), DEVRT_COPY_H2D);
    held.Blocks(b, "a stream waits for an event of another device");
    held.Open();
    b.Sync();
    t.Expect(y.Holds(1), "the consumer on device 1 sees the producer's data");
  });
}

void WaitAcrossDevices(Test& t) { WaitAcross(t, 0); }

// Query and synchronise neither depend on the current device nor change it.
void WithAnyCurrentDevice(Test& t, uint32_t flags) {
  Machine& m = t.machine();
  const RawStream a(t, t.device(1));
  const RawEvent e(t, t.device(1), flags);
  devrt_context before = {};
  t.Require(m.Call<&Ops::context_enter>(t.device(0), &before),
            "making device 0 current");
  {
    HeldStream held(t, a);
    e.Record(a);
    held.Blocks(e, "an event of a device that is not current can be queried");
    held.Open();
    e.Sync();
    t.Expect(e.Query(), "and synchronised with");
  }
  uint32_t current = UINT32_MAX;
  t.Ok(m.Call<&Ops::context_current>(&current), "the current device");
  t.Equal(current, t.device(0), "the current device afterwards");
  t.Require(
      m.Call<&Ops::context_exit>(static_cast<const devrt_context*>(&before)),
      "leaving device 0");
}

void AnyCurrentDeviceWillDo(Test& t) { WithAnyCurrentDevice(t, 0); }

// ---- C40: the blocking-sync flag

void BlockingSyncOfOtherStreams(Test& t) {
  RecordOnLegacy(t, DEVRT_EVENT_BLOCKING_SYNC);
  if (t.devices().size() > 1) {
    RecordAcrossDevices(t, DEVRT_EVENT_BLOCKING_SYNC);
    WaitAcross(t, DEVRT_EVENT_BLOCKING_SYNC);
    WithAnyCurrentDevice(t, DEVRT_EVENT_BLOCKING_SYNC);
  }
}

// ---- C38: interprocess events

void InterprocessExcludesTiming(Test& t) {
  Machine& m = t.machine();
  EventOptions options;
  options.timing = options.interprocess = true;
  t.Code(Event::Create(t.cpp_device(), options).status(),
         DEVRT_INVALID_ARGUMENT, "an interprocess event with timing");
  options.timing = false;
  const auto alone = Event::Create(t.cpp_device(), options);
  if (!m.Has(DEVRT_CAP_EVENT_IPC)) {
    t.Code(alone.status(), DEVRT_UNIMPLEMENTED,
           "an interprocess event without that capability", "EVENT_IPC");
    return;
  }
  t.Ok(alone.status(), "an interprocess event without timing");
  const RawEvent e(t, t.device(), DEVRT_EVENT_IPC);
  devrt_event none = nullptr;
  t.Code(m.Call<&Ops::event_create>(
             t.device(), DEVRT_EVENT_IPC | DEVRT_EVENT_TIMING, &none),
         DEVRT_INVALID_ARGUMENT, "an interprocess event with timing");
  t.Expect(none == nullptr, "a refused creation makes no handle");
}

// devrt.event_ipc/0, by the table: calls that are refused.  Opening an event in
// another process takes two programs, and is not tested here.
class EventIpc {
 public:
  explicit EventIpc(Test& t) : m_(t.machine()) {
    const auto found = m_.backend().GetExtension(DEVRT_EVENT_IPC_EXTENSION,
                                                 sizeof(devrt_event_ipc_v0));
    t.Ok(found.status(), "devrt.event_ipc/0 belongs to EVENT_IPC");
    if (!found.ok()) return;
    table_ = static_cast<const devrt_event_ipc_v0*>(found->table);
    self_ = found->self;
  }
  bool is_there() const { return table_ != nullptr; }
  Result Export(const RawEvent& event, devrt_event_handle_v0* name) const {
    return m_.CallExtension(&devrt_event_ipc_v0::event_export, table_, self_,
                            event.handle(), name);
  }
  Result Open(uint32_t device, const devrt_event_handle_v0* name,
              devrt_event* event) const {
    return m_.CallExtension(&devrt_event_ipc_v0::event_open, table_, self_,
                            device, name, event);
  }

 private:
  Machine& m_;
  const devrt_event_ipc_v0* table_ = nullptr;
  void* self_ = nullptr;
};

void ExportedEventGoesOn(Test& t) {
  const EventIpc ipc(t);
  if (!ipc.is_there()) return;
  for (const uint32_t device : t.devices()) {
    const RawEvent e(t, device, DEVRT_EVENT_IPC);
    const RawStream s(t, device), other(t, device);
    devrt_event_handle_v0 first = {}, second = {};
    t.Require(ipc.Export(e, &first), "export before the first record");
    t.Expect(e.Query(),
             "an exported event that nobody has recorded is "
             "complete");
    {
      Gate gate(t);
      gate.Hold(s);
      e.Record(s);
      other.Wait(e);
      t.Require(ipc.Export(e, &second), "export of a pending event");
      t.Expect(!e.Query() && !other.Query(),
               "it still counts and is waited "
               "for");
    }
    e.Sync();
    other.Sync();
    t.Expect(e.Query(), "it is complete when its work is");
    t.Expect(std::memcmp(&first, &second, sizeof first) == 0,
             "an event has one name");
  }
}

void RecordedEventsAreExported(Test& t) {
  const EventIpc ipc(t);
  if (!ipc.is_there()) return;
  for (const uint32_t device : t.devices()) {
    const RawEvent e(t, device, DEVRT_EVENT_IPC);
    const RawStream s(t, device);
    for (int i = 0; i < 5; ++i) {
      e.Record(s);
      e.Sync();
    }
    devrt_event_handle_v0 name = {};
    t.Require(ipc.Export(e, &name), "export behind five records");
    e.Record(s);
    e.Sync();
    t.Expect(e.Query(), "it is recorded as before");
  }
}

void WrongInterprocessEvents(Test& t) {
  const EventIpc ipc(t);
  if (!ipc.is_there()) return;
  const RawEvent plain(t, t.device()), e(t, t.device(), DEVRT_EVENT_IPC);
  devrt_event_handle_v0 name = {};
  t.Code(ipc.Export(plain, &name), DEVRT_INVALID_ARGUMENT,
         "export of an event without EVENT_IPC");
  devrt_event opened = nullptr;
  t.Code(ipc.Open(t.device(), &name, &opened), DEVRT_INVALID_ARGUMENT,
         "opening a handle of zeroes");
  t.Require(ipc.Export(e, &name), "export");
  t.Expect(!ipc.Open(t.device(), &name, &opened).ok(),
           "a process does not open its own event");
  t.Expect(opened == nullptr, "a refused opening makes no handle");
}

// Two streams are held at once.  Without a probe gates are host functions,
// which may run one by one (C44).
constexpr uint32_t kTwoGates = kNeedsGate | kNeedsProbe;

constexpr TestCase kTests[] = {
    {"event.record_on_legacy_covers_blocking_streams", "C30",
     "A record on the legacy stream captures all blocking streams of the "
     "device, also when the legacy stream itself has no work.",
     &RecordOnLegacyCoversBlockingStreams, 0, kNeedsGate},
    {"event.record_across_devices_is_refused", "C31",
     "A record on a stream of another device is INVALID_ARGUMENT, and the "
     "event keeps its former capture.",
     &RecordAcrossDevicesIsRefused, 0, kTwoGates | kTwoDevices},
    {"event.record_across_devices_names_both", "C31",
     "A record on a stream of another device is INVALID_ARGUMENT, both devices "
     "named.",
     &RecordAcrossDevicesNamesBoth, 0, kTwoDevices},
    {"event.wait_across_devices", "C32",
     "A wait for an event of another device succeeds and orders.",
     &WaitAcrossDevices, DEVRT_CAP_PINNED_HOST, kNeedsGate | kTwoDevices},
    {"event.any_current_device_will_do", "C33",
     "An event can be queried and synchronised with any current device, and "
     "the call leaves the current device as it is.",
     &AnyCurrentDeviceWillDo, 0, kNeedsGate | kTwoDevices},
    {"event.blocking_sync_of_other_streams", "C40",
     "The blocking-sync flag changes nothing about legacy streams and other "
     "devices.",
     &BlockingSyncOfOtherStreams, 0, kNeedsGate},
    {"event.destroyed_event_keeps_its_waits", "C34 C40",
     "Destroying a pending event returns at once; issued waits still hold.",
     &DestroyedEventKeepsItsWaits, 0, kNeedsGate},
    {"event.destroyed_event_leaves_no_trace", "C34",
     "The capture of a destroyed event does not affect a later event.",
     &DestroyedEventLeavesNoTrace, 0, kTwoGates},
    {"event.interprocess_excludes_timing", "C38",
     "An interprocess event with timing is INVALID_ARGUMENT at creation.",
     &InterprocessExcludesTiming},
    {"event.exported_goes_on", "C38",
     "An interprocess event can be exported before and after a record, and "
     "still works in its own process.",
     &ExportedEventGoesOn, DEVRT_CAP_EVENT_IPC, kNeedsGate},
    {"event.recorded_interprocess_events", "C38",
     "An event that was recorded several times can be exported.",
     &RecordedEventsAreExported, DEVRT_CAP_EVENT_IPC},
    {"event.wrong_interprocess_events", "C38",
     "An export of another kind of event, and a handle that was not exported, "
     "are refused.",
     &WrongInterprocessEvents, DEVRT_CAP_EVENT_IPC},
};

}  // namespace
}  // namespace event_life_tests

absl::Span<const TestCase> EventLifeTests() { return event_life_tests::kTests; }

}  // namespace devrt::cts
