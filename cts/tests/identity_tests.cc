// SPDX-License-Identifier: Apache-2.0
//
// Identities of events (C99) and streams (C100, C101), and devices that no call
// has named (C103).
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cts/api_block.h"
#include "cts/catalog.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace identity_tests {
namespace {

using Ops = devrt_ops_v0;

constexpr uint64_t kSize = 4096;

// ---- C99

Event NewEvent(Test& t, size_t i = 0) {
  return t.Require(Event::Create(t.cpp_device(i)), "event");
}

// nullopt if the backend does not give native handles of events.
std::optional<void*> NativeOf(Test& t, const Event& e) {
  const auto native = e.Native();
  if (native.status().code() == absl::StatusCode::kUnimplemented) {
    return std::nullopt;
  }
  t.Ok(native.status(), "the native handle of an event");
  return native.ok() ? *native : nullptr;
}

void EventIsNobodyBeforeItsRecord(Test& t) {
  for (size_t i = 0; i < t.devices().size(); ++i) {
    const Event e = NewEvent(t, i);
    t.Equal(e.id(), uint64_t{0}, "the id before the first record");
    const auto before = NativeOf(t, e);
    t.Expect(!before || *before == nullptr,
             "the native handle before the first record is 0");
    const RawStream s(t, t.device(i));
    const Stream stream = t.Require(Stream::Create(t.cpp_device(i)), "stream");
    t.Ok(e.Record(stream), "record");
    t.Expect(e.id() != 0, "after it the id is not 0");
    const auto after = NativeOf(t, e);
    t.Expect(!after || *after != nullptr,
             "after it the native handle is not 0");
    t.Ok(e.Synchronize(), "synchronise");
  }
}

void EventKeepsItsId(Test& t) {
  t.InEverySchedule([&] {
    const Event e = NewEvent(t);
    const Stream a = t.Require(Stream::Create(t.cpp_device()), "stream");
    const Stream b = t.Require(Stream::Create(t.cpp_device()), "stream");
    const ApiBlock x(t, t.cpp_device(), kSize), y(t, t.cpp_device(), kSize);
    t.Ok(e.Record(a), "record");
    const uint64_t id = e.id();
    for (int i = 0; i < 10; ++i) {
      const Stream& s = i % 2 == 0 ? b : a;
      t.Ok(FillAsync(s, (i % 2 == 0 ? y : x).ptr(), 1, kSize), "fill");
      t.Ok(e.Record(s), "another record");
      t.Equal(e.id(), id, "the id after another record");
    }
    t.Ok(e.Synchronize(), "synchronise");
    t.Equal(e.id(), id, "the id of a complete event");
    t.Ok(t.cpp_device().Synchronize(), "synchronise");
  });
}

void LiveEventsDiffer(Test& t) {
  constexpr int kEvents = 200;
  std::vector<Event> events;
  std::set<uint64_t> ids;
  std::set<void*> natives;
  for (int i = 0; i < kEvents; ++i) {
    const size_t on = static_cast<size_t>(i) % t.devices().size();
    events.push_back(NewEvent(t, on));
    t.Ok(events.back().Record(DefaultStream(t.cpp_device(on))), "record");
    t.Expect(ids.insert(events.back().id()).second,
             "no two live events have one id");
    const auto native = NativeOf(t, events.back());
    if (native) {
      t.Expect(natives.insert(*native).second,
               "no two live events have one native handle");
    }
  }
  for (size_t i = 0; i < t.devices().size(); ++i) {
    t.Ok(t.cpp_device(i).Synchronize(), "synchronise");
  }
}

void LiveEventHandlesDiffer(Test& t) {
  std::vector<RawEvent> events;
  std::set<devrt_event> handles;
  for (int i = 0; i < 500; ++i) {
    events.emplace_back(t,
                        t.device(static_cast<size_t>(i) % t.devices().size()));
    t.Require(handles.insert(events.back().handle()).second,
              "no two live events have one handle");
  }
}

// The first record creates the native event.
void EventIsMadeAtItsRecord(Test& t) {
  const auto simulator = *t.machine().simulator();
  t.Require(t.machine().Reset(""), "reset of the simulator");
  const auto created = [&] {
    return t.Require(simulator.Stats(), "stats").created_events;
  };
  const Stream s = t.Require(Stream::Create(t.cpp_device()), "stream");
  const uint64_t before = created();
  const Event e = NewEvent(t), never = NewEvent(t);
  t.Ok(s.Wait(e), "a wait for what was never recorded");
  t.Ok(e.Query().status(), "a query of it");
  t.Equal(created(), before, "native events before the first record");
  t.Ok(e.Record(s), "record");
  t.Equal(created(), before + 1, "native events after it");
  t.Ok(s.Synchronize(), "synchronise");
}

// ---- C100

void StreamIdsAreNeverReused(Test& t) {
  constexpr int kStreams = 10'000;
  std::set<uint64_t> ids;
  for (int i = 0; i < kStreams; ++i) {
    const Stream s = t.Require(Stream::Create(t.cpp_device()), "stream");
    t.Require(s.id() != 0, "a created stream's id is not 0");
    t.Require(ids.insert(s.id()).second,
              absl::StrCat("the id of stream ", i, " was never used before"));
  }
}

void DefaultStreamIs0(Test& t) {
  for (size_t i = 0; i < t.devices().size(); ++i) {
    t.Equal(DefaultStream(t.cpp_device(i)).id(), uint64_t{0},
            "the id of a default stream");
    const Stream s = t.Require(Stream::Create(t.cpp_device(i)), "stream");
    t.Expect(s.id() != 0, "the id of a created stream is not 0");
  }
}

// ---- C101

void FreshStreamsDiffer(Test& t) {
  constexpr int kStreams = 1000;
  std::vector<RawStream> streams;
  std::set<devrt_stream> handles;
  std::set<void*> natives;
  for (int i = 0; i < kStreams; ++i) {
    const uint32_t flags = i % 2 == 0 ? 0 : DEVRT_STREAM_BLOCKING;
    streams.emplace_back(
        t, t.device(static_cast<size_t>(i) % t.devices().size()), flags);
    const devrt_stream handle = streams.back().handle();
    t.Require(handles.insert(handle).second,
              "no two live streams have one handle");
    void* native = nullptr;
    t.Require(t.machine().Call<&Ops::stream_native>(handle, &native),
              "native stream");
    t.Require(native != nullptr, "a stream's native handle is not 0");
    t.Require(natives.insert(native).second,
              "no two live streams have one native handle");
  }
}

// Streams are created and destroyed in random order.  Live ones always differ.
void HandlesAreNotReusedAlive(Test& t) {
  std::vector<std::unique_ptr<RawStream>> streams;
  std::set<devrt_stream> alive;
  for (int i = 0; i < 1000; ++i) {
    if (streams.size() < 20 || t.random()() % 2 == 0) {
      streams.push_back(std::make_unique<RawStream>(t, t.device()));
      t.Require(alive.insert(streams.back()->handle()).second,
                "a new stream has a handle that no live one has");
    } else {
      const size_t at = t.random()() % streams.size();
      alive.erase(streams[at]->handle());
      std::swap(streams[at], streams.back());
      streams.pop_back();
    }
  }
}

// Different handles must mean different streams.
void FreshStreamsAreIndependent(Test& t) {
  constexpr size_t kStreams = 32;
  const DeviceBlock x(t, t.device(), kStreams);
  std::vector<RawStream> streams;
  for (size_t i = 0; i < kStreams; ++i) streams.emplace_back(t, t.device());
  for (const size_t held : {size_t{0}, kStreams / 2, kStreams - 1}) {
    Gate gate(t);
    gate.Hold(streams[held]);
    for (size_t i = 0; i < kStreams; ++i) {
      if (i != held) streams[i].Fill(x.ptr() + i, 1, 1);
    }
    t.Expect(t.Eventually([&] {
      for (size_t i = 0; i < kStreams; ++i) {
        if (i != held && !streams[i].Query()) return false;
      }
      return true;
    }),
             "all other streams go on");
    t.Expect(!streams[held].Query(), "that one is still held");
  }
}

void StreamsOfTheApiDiffer(Test& t) {
  constexpr int kStreams = 1000;
  std::vector<Stream> streams;
  std::set<uint64_t> ids;
  std::set<void*> natives;
  for (int i = 0; i < kStreams; ++i) {
    streams.push_back(t.Require(Stream::Create(t.cpp_device()), "stream"));
    t.Require(ids.insert(streams.back().id()).second,
              "no two live streams have one id");
    t.Require(
        natives.insert(t.Require(streams.back().Native(), "native")).second,
        "no two live streams share a native one");
  }
}

// ---- C103

// A thread names only device 1, so nothing names device 0.  The test has its
// own process, because other tests name all devices.
void NobodyNamedDevice0(Test& t) {
  Machine& m = t.machine();
  const auto free = [&](uint32_t device) {
    uint64_t bytes = 0, total = 0;
    t.Require(m.Call<&Ops::mem_info>(device, &bytes, &total), "mem_info");
    return bytes;
  };
  // A context takes hundreds of MB; other processes may take a little memory.
  constexpr uint64_t kLittle = 64 << 20;
  const uint64_t before = free(t.device(0));
  Threads threads;
  threads.Start([&] {
    const DeviceGuard guard(t.cpp_device(1));
    const DeviceBlock x(t, t.device(1), kSize);
    const HostBlock out(t, t.device(1), kSize);
    const RawStream s(t, t.device(1));
    const RawEvent e(t, t.device(1));
    s.Fill(x.ptr(), 1, kSize);
    s.Copy(out.ptr(), x.ptr(), kSize, DEVRT_COPY_D2H);
    e.Record(s);
    e.Sync();
    t.Expect(s.Query() && out.Holds(1), "the work has happened");
  });
  threads.Join();
  const uint64_t after = free(t.device(0));
  t.Expect(after + (m.simulator() ? 0 : kLittle) >= before,
           absl::StrCat("work on one device takes no memory of another: ",
                        before - after, " bytes"));
}

// The result of context_current, which is also 0 without a context.
void QuestionsEnterNothing(Test& t) {
  const RawStream s(t, t.device(t.devices().size() - 1));
  const RawEvent e(t, s.device());
  e.Record(s);
  e.Sync();
  Threads threads;
  threads.Start([&] {
    Machine& m = t.machine();
    const auto current = [&] {
      uint32_t device = 77;
      t.Require(m.Call<&Ops::context_current>(&device), "context_current");
      return device;
    };
    devrt_context none = {};
    t.Require(m.Call<&Ops::context_enter>(s.device(), &none), "context_enter");
    t.Require(
        m.Call<&Ops::context_exit>(static_cast<const devrt_context*>(&none)),
        "context_exit");
    t.Equal(current(), 0u, "the device after a restore of none");
    s.Query();
    e.Query();
    RawEvent own(t, s.device());
    t.Ok(own.Destroy(), "event destruction");
    t.Equal(current(), 0u, "the device after queries and a destruction");
  });
  threads.Join();
}

constexpr TestCase kTests[] = {
    {"identity.event_is_nobody_before_its_record", "C99",
     "Before the first record an event's id and native handle are 0, after it "
     "they are not.",
     &EventIsNobodyBeforeItsRecord},
    {"identity.event_keeps_its_id", "C99",
     "An event's id is stable across records.", &EventKeepsItsId},
    {"identity.live_events_differ", "C99",
     "Ids and native handles are distinct among live events.",
     &LiveEventsDiffer},
    {"identity.live_event_handles_differ", "C99",
     "The handle of a new event is no live one's.", &LiveEventHandlesDiffer},
    {"identity.event_is_made_at_its_record", "C99 C4",
     "The native event is made at the first record.", &EventIsMadeAtItsRecord,
     0, kNeedsSim},
    {"identity.stream_ids_are_never_reused", "C100",
     "A stream's id is never used again in the process.",
     &StreamIdsAreNeverReused},
    {"identity.default_stream_is_0", "C100",
     "The id of a device's default stream is 0, and no other's.",
     &DefaultStreamIs0},
    {"identity.fresh_streams_differ", "C101",
     "Each creation gives a new stream: handles and native handles differ from "
     "those of live streams, and none is 0.",
     &FreshStreamsDiffer},
    {"identity.handles_are_not_reused_alive", "C101",
     "A handle is given out again only after its stream was destroyed.",
     &HandlesAreNotReusedAlive},
    {"identity.fresh_streams_are_independent", "C101",
     "Streams of different creations do not wait for each other.",
     &FreshStreamsAreIndependent, 0, kNeedsGate},
    {"identity.streams_of_the_api_differ", "C101",
     "Each Stream::Create gives a stream that differs from all live ones.",
     &StreamsOfTheApiDiffer},
    {"identity.nobody_named_device_0", "C103",
     "Work on one device takes nothing of another.", &NobodyNamedDevice0, 0,
     kTwoDevices | kOwnProcess},
    {"identity.questions_enter_nothing", "C103 C107",
     "Queries, restores and destructions leave a fresh thread's current device "
     "0.",
     &QuestionsEnterNothing},
};

}  // namespace
}  // namespace identity_tests

absl::Span<const TestCase> IdentityTests() { return identity_tests::kTests; }

}  // namespace devrt::cts
