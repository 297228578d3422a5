// SPDX-License-Identifier: Apache-2.0
//
// A capability bit that is set is a promise that the feature works.  If the bit
// is not set, devrt refuses the call and names the backend and the feature.
#include <cstring>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/every_call.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace load_capability_tests {
namespace {

using Ops = devrt_ops_v0;

constexpr uint64_t kSize = 4096;

void EventTiming(Test& t) {
  for (const uint32_t device : t.devices()) {
    const RawEvent begin(t, device, DEVRT_EVENT_TIMING);
    const RawEvent end(t, device, DEVRT_EVENT_TIMING);
    const RawStream s(t, device);
    begin.Record(s);
    end.Record(s);
    s.Sync();
    int64_t ns = -1;
    t.Ok(begin.ElapsedTo(end, &ns), "elapsed time");
    t.Expect(ns >= 0, absl::StrCat("it is not negative: ", ns));
  }
}

void EventIpc(Test& t) {
  for (const uint32_t device : t.devices()) {
    const RawEvent event(t, device, DEVRT_EVENT_IPC);
    const RawStream s(t, device);
    event.Record(s);
    event.Sync();
    t.Expect(event.Query(), "an event for other processes works in its own");
  }
}

void HostFunc(Test& t) {
  for (const uint32_t device : t.devices()) {
    const auto calls = std::make_shared<std::atomic<int>>(0);
    const RawStream s(t, device);
    s.HostFunc([calls](devrt_code) { ++*calls; });
    s.Sync();
    t.Equal(calls->load(), 1, "calls of the host function");
  }
}

void StreamPriority(Test& t) {
  for (const uint32_t device : t.devices()) {
    const devrt_device_props_v0& props = t.machine().props(device);
    t.Expect(
        props.priority_greatest < props.priority_least,
        absl::StrCat("there is more than one priority, not [",
                     props.priority_greatest, ", ", props.priority_least, "]"));
    const RawStream s(t, device, 0, props.priority_greatest);
    s.Sync();
  }
}

void StreamExternal(Test& t) {
  for (const uint32_t device : t.devices()) {
    const DeviceBlock x(t, device, kSize);
    const RawStream owner(t, device);
    devrt_stream_desc_v0 desc = {};
    desc.struct_size = sizeof desc;
    desc.kind = DEVRT_STREAM_ADOPT;
    Machine& m = t.machine();
    t.Require(m.Call<&Ops::stream_native>(owner.handle(), &desc.native),
              "native stream");
    devrt_stream adopted = nullptr;
    t.Require(
        m.Call<&Ops::stream_create>(
            device, static_cast<const devrt_stream_desc_v0*>(&desc), &adopted),
        "adoption of a native stream");
    t.Ok(m.Call<&Ops::fill_async>(adopted, static_cast<void*>(x.ptr()), 3u,
                                  kSize),
         "fill in an adopted stream");
    t.Ok(m.Call<&Ops::stream_sync>(adopted), "sync of an adopted stream");
    t.Expect(x.Holds(3), "work in an adopted stream has happened");
    t.Ok(m.Call<&Ops::stream_destroy>(adopted), "release of an adopted stream");
  }
}

void PinnedHost(Test& t) {
  for (const uint32_t device : t.devices()) {
    const DeviceBlock x(t, device, kSize);
    const HostBlock host(t, device, kSize);
    t.Expect(host.is_pinned(), "the memory is pinned");
    std::memset(host.ptr(), 5, kSize);
    const RawStream s(t, device);
    s.Copy(x.ptr(), host.ptr(), kSize, DEVRT_COPY_H2D);
    s.Sync();
    t.Expect(x.Holds(5), "pinned memory can be copied from");
  }
}

void HostRegister(Test& t) {
  alignas(kSize) static unsigned char page[kSize];
  Machine& m = t.machine();
  for (const uint32_t device : t.devices()) {
    const DeviceBlock x(t, device, kSize);
    std::memset(page, 6, kSize);
    t.Require(
        m.Call<&Ops::host_register>(device, static_cast<void*>(page), kSize),
        "registration");
    const RawStream s(t, device);
    s.Copy(x.ptr(), page, kSize, DEVRT_COPY_H2D);
    s.Sync();
    t.Ok(m.Call<&Ops::host_unregister>(static_cast<void*>(page)),
         "end of the registration");
    t.Expect(x.Holds(6), "registered memory can be copied from");
  }
}

void PointerInformation(Test& t) {
  Machine& m = t.machine();
  for (const uint32_t device : t.devices()) {
    const DeviceBlock x(t, device, kSize);
    devrt_pointer_info_v0 info = {};
    info.struct_size = sizeof info;
    t.Require(m.Call<&Ops::pointer_info>(static_cast<const void*>(x.ptr() + 1),
                                         &info),
              "pointer_info of device memory");
    t.Equal(info.kind, DEVRT_POINTER_DEVICE, "its kind");
    t.Equal(info.device, static_cast<int32_t>(device), "its device");
    t.Expect(info.base == x.ptr() && info.size == kSize, "its block");
    t.Require(
        m.Call<&Ops::pointer_info>(static_cast<const void*>(&info), &info),
        "pointer_info of the stack");
    t.Equal(info.kind, DEVRT_POINTER_UNREGISTERED, "its kind");
    t.Equal(info.device, -1, "its device");
  }
}

void PeerCopy(Test& t) {
  const DeviceBlock from(t, t.device(0), kSize), to(t, t.device(1), kSize);
  const RawStream s(t, t.device(0));
  s.Fill(from.ptr(), 8, kSize);
  t.Require(t.machine().Call<&Ops::copy_peer_async>(
                s.handle(), static_cast<void*>(to.ptr()), t.device(1),
                static_cast<const void*>(from.ptr()), t.device(0), kSize),
            "copy to another device");
  s.Sync();
  t.Expect(to.Holds(8), "the other device has the bytes");
}

void PeerAccess(Test& t) {
  Machine& m = t.machine();
  const uint32_t device = t.device(0), peer = t.device(1);
  if (!CanAccess(t, device, peer)) {
    t.Skip("the first two devices cannot access each other");
  }
  t.Require(m.Call<&Ops::peer_enable>(device, peer), "peer_enable");
  t.Ok(m.Call<&Ops::peer_disable>(device, peer), "peer_disable");
}

void AsyncAlloc(Test& t) {
  Machine& m = t.machine();
  const RawStream s(t, t.device());
  void* ptr = nullptr;
  t.Require(m.Call<&Ops::alloc_async>(s.handle(), kSize, uint64_t{0}, &ptr),
            "alloc_async");
  t.Expect(ptr != nullptr, "the memory is not NULL");
  s.Fill(ptr, 9, kSize);
  t.Ok(m.Call<&Ops::dealloc_async>(s.handle(), ptr, kSize), "dealloc_async");
  s.Sync();
}

// ---- Bits that are not set

void AbsentSlotsAnswer(Test& t) {
  Machine& m = t.machine();
  const auto refused = [&](uint64_t bit, const Result& result,
                           const char* call) {
    if (m.Has(bit)) return;
    t.Expect(!result.ok() && !result.text.empty(),
             absl::StrCat(call, " answers with an error: ", ToString(result)));
  };
  const RawStream s(t, t.device());
  const RawEvent a(t, t.device()), b(t, t.device());
  const uint32_t none = NoSuchDevice(t);
  const uint64_t too_much = uint64_t{1} << 60;
  void* ptr = nullptr;
  int64_t ns = 0;
  uint32_t can = 0;
  refused(DEVRT_CAP_EVENT_TIMING,
          m.Call<&Ops::event_elapsed_ns>(a.handle(), b.handle(), &ns),
          "event_elapsed_ns");
  refused(DEVRT_CAP_PINNED_HOST,
          m.Call<&Ops::host_alloc>(t.device(), too_much, uint64_t{0}, &ptr),
          "host_alloc");
  refused(
      DEVRT_CAP_HOST_REGISTER,
      m.Call<&Ops::host_register>(none, static_cast<void*>(&ptr), uint64_t{1}),
      "host_register");
  refused(DEVRT_CAP_PEER_ACCESS,
          m.Call<&Ops::peer_can_access>(t.device(), none, &can),
          "peer_can_access");
  refused(DEVRT_CAP_PEER_ACCESS, m.Call<&Ops::peer_enable>(t.device(), none),
          "peer_enable");
  refused(DEVRT_CAP_PEER_ACCESS, m.Call<&Ops::peer_disable>(t.device(), none),
          "peer_disable");
  refused(DEVRT_CAP_ASYNC_ALLOC,
          m.Call<&Ops::alloc_async>(s.handle(), too_much, uint64_t{0}, &ptr),
          "alloc_async");
}

void AbsentFeaturesAreNamed(Test& t) {
  const Device device = t.cpp_device();
  const std::string backend = device.backend().name();
  int refusals = 0;
  const auto refused = [&](uint64_t bit, const absl::Status& status,
                           const char* call) {
    if (t.machine().Has(bit)) return;
    ++refusals;
    t.Code(status, DEVRT_UNIMPLEMENTED, call, backend);
  };
  EventOptions timing, interprocess;
  timing.timing = interprocess.interprocess = true;
  refused(DEVRT_CAP_EVENT_TIMING, Event::Create(device, timing).status(),
          "an event with timing");
  refused(DEVRT_CAP_EVENT_IPC, Event::Create(device, interprocess).status(),
          "an event for other processes");
  if (!t.machine().Has(DEVRT_CAP_HOST_FUNC)) {
    refused(DEVRT_CAP_HOST_FUNC,
            LaunchHostFunc(DefaultStream(device), [](const absl::Status&) {}),
            "a host function");
  }
  static char byte;
  if (!t.machine().Has(DEVRT_CAP_PINNED_HOST)) {
    refused(DEVRT_CAP_PINNED_HOST, AllocateHost(device, 1).status(),
            "pinned memory");
  }
  if (!t.machine().Has(DEVRT_CAP_HOST_REGISTER)) {
    refused(DEVRT_CAP_HOST_REGISTER, RegisterHost(device, &byte, 1),
            "registration");
  }
  refused(DEVRT_CAP_STREAM_EXTERNAL,
          Stream::FromNative(device, nullptr).status(),
          "adoption of a native stream");
  if (refusals == 0) t.Skip("everything is promised that devrt can ask for");
}

constexpr TestCase kTests[] = {
    {"load.promises_event_timing", "C35",
     "EVENT_TIMING: events with timing have an elapsed time.", &EventTiming,
     DEVRT_CAP_EVENT_TIMING},
    {"load.promises_event_ipc", "C38",
     "EVENT_IPC: events for other processes can be made and work.", &EventIpc,
     DEVRT_CAP_EVENT_IPC},
    {"load.promises_host_func", "C41",
     "HOST_FUNC: host functions are called, once.", &HostFunc,
     DEVRT_CAP_HOST_FUNC},
    {"load.promises_stream_priority", "C22",
     "STREAM_PRIORITY: there is more than one priority.", &StreamPriority,
     DEVRT_CAP_STREAM_PRIORITY},
    {"load.promises_stream_external", "C104",
     "STREAM_EXTERNAL: a native stream can be adopted and used.",
     &StreamExternal, DEVRT_CAP_STREAM_EXTERNAL},
    {"load.promises_pinned_host", "C54",
     "PINNED_HOST: pinned memory can be allocated and used.", &PinnedHost,
     DEVRT_CAP_PINNED_HOST},
    {"load.promises_host_register", "C70",
     "HOST_REGISTER: host memory can be registered and used.", &HostRegister,
     DEVRT_CAP_HOST_REGISTER},
    {"load.promises_pointer_info", "C71",
     "POINTER_INFO: device memory is distinguished from plain memory.",
     &PointerInformation, DEVRT_CAP_POINTER_INFO},
    {"load.promises_peer_copy", "C58",
     "PEER_COPY: bytes can be copied between devices.", &PeerCopy,
     DEVRT_CAP_PEER_COPY, kTwoDevices},
    {"load.promises_peer_access", "C74",
     "PEER_ACCESS: access can be asked for, allowed and forbidden.",
     &PeerAccess, DEVRT_CAP_PEER_ACCESS, kTwoDevices},
    {"load.promises_async_alloc", "",
     "ASYNC_ALLOC: memory can be allocated and freed in stream order (contract "
     "P5).",
     &AsyncAlloc, DEVRT_CAP_ASYNC_ALLOC},
    {"load.absent_slots_answer", "",
     "A slot that was not promised answers with an error (contract P6).",
     &AbsentSlotsAnswer},
    {"load.absent_features_are_named", "",
     "A feature without its capability is UNIMPLEMENTED, with the backend's "
     "name.",
     &AbsentFeaturesAreNamed},
};

}  // namespace
}  // namespace load_capability_tests

absl::Span<const TestCase> LoadCapabilityTests() {
  return load_capability_tests::kTests;
}

}  // namespace devrt::cts
