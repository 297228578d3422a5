// SPDX-License-Identifier: Apache-2.0
//
// Streams that are destroyed while they work (C17), and events that outlive
// their stream (C18).
#include <memory>
#include <optional>
#include <string>

#include "cts/catalog.h"
#include "cts/objects.h"
#include "cts/ordered_op.h"

namespace devrt::cts {
namespace stream_lifetime_tests {
namespace {

constexpr uint64_t kSize = 4096;

// ---- C17

void DestroyReturnsAtOnce(Test& t) {
  for (const uint32_t device : t.devices()) {
    const DeviceBlock x(t, device, kSize);
    const RawEvent e(t, device);
    for (const uint32_t flags : {0u, DEVRT_STREAM_BLOCKING}) {
      RawStream s(t, device, flags);
      {
        Gate gate(t);
        gate.Hold(s);
        s.Fill(x.ptr(), 1, kSize);
        e.Record(s);
        t.Ok(s.Destroy(), "destroying a busy stream");
        t.Expect(!e.Query(), "destroying a stream waits for no work");
      }
      e.Sync();
      t.Expect(x.Holds(1), "submitted work completes");
    }
  }
}

// Work of every kind that has not begun when the stream is destroyed.
void DestroyDropsNothing(Test& t) {
  t.InEverySchedule([&] {
    for (const OpKind kind : OrderedOp::Kinds(t)) {
      RawStream s(t, t.device());
      const RawEvent e(t, t.device());
      OrderedOp op(t, kind, t.device());
      {
        Gate gate(t);
        gate.Hold(s);
        op.Produce(s);
        op.Enqueue(s);
        op.EnqueueLater(s);
        e.Record(s);
        t.Ok(s.Destroy(), "destroying a busy stream");
        t.Require(!e.Query(), "destroying a stream waits for no work");
        op.ExpectNotYet();
      }
      e.Sync();
      op.ExpectAfter();
    }
  });
}

void DestroyNeedsNoGate(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    for (uint8_t i = 1; i <= 20; ++i) {
      const RawStream s(t, t.device());
      s.Delay(100'000);
      s.Fill(x.ptr() + i, i, 1);
    }
    t.Require(t.machine().Call<&devrt_ops_v0::device_sync>(t.device()), "sync");
    const std::vector<uint8_t> bytes = x.Read();
    for (uint8_t i = 1; i <= 20; ++i) {
      t.Equal(bytes[i], i, "the byte that a destroyed stream wrote");
    }
  });
}

// Waits of the destroyed stream hold, too.
void DestroyKeepsWaits(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize), y(t, t.device(), kSize);
    const RawStream producer(t, t.device());
    const RawEvent produced(t, t.device()), copied(t, t.device());
    RawStream s(t, t.device());
    {
      Gate gate(t);
      gate.Hold(producer);
      producer.Fill(x.ptr(), 1, kSize);
      produced.Record(producer);
      s.Wait(produced);
      s.Copy(y.ptr(), x.ptr(), kSize, DEVRT_COPY_D2D);
      copied.Record(s);
      t.Ok(s.Destroy(), "destroying a stream that waits");
      t.Settle();
      t.Expect(!copied.Query(), "its work still waits");
    }
    copied.Sync();
    t.Expect(y.Holds(1), "its work came after what it waited for");
  });
}

// The next stream may get the handle of the destroyed one, but not its work.
void NextStreamIsAnother(Test& t) {
  for (const uint32_t device : t.devices()) {
    const DeviceBlock x(t, device, kSize);
    const RawEvent e(t, device);
    RawStream s(t, device);
    Gate gate(t);
    gate.Hold(s);
    s.Fill(x.ptr(), 1, kSize);
    e.Record(s);
    t.Ok(s.Destroy(), "destroying a busy stream");
    for (int i = 0; i < 10; ++i) {
      const RawStream next(t, device);
      t.Expect(next.Query(), "a new stream is idle");
      next.Fill(x.ptr(), 2, kSize);
      t.Expect(t.Eventually([&] { return next.Query(); }),
               "a new stream waits for no destroyed one");
    }
    t.Expect(!e.Query(), "the destroyed stream's work is still held");
    gate.Open();
    e.Sync();
    t.Expect(x.Holds(1), "it has happened after that");
  }
}

// ---- C17 through the C++ API

void DestroyedStreamsAreRefused(Test& t) {
  const Device device = t.cpp_device();
  std::optional<Stream> owner = t.Require(Stream::Create(device), "stream");
  const StreamRef s = *owner;
  const Event e = t.Require(Event::Create(device), "event");
  t.Ok(e.Record(s), "record");
  owner.reset();
  const DeviceBlock x(t, t.device(), kSize);
  const auto refused = [&](const absl::Status& status, const char* call) {
    t.Code(status, DEVRT_INVALID_ARGUMENT, call, "destroyed");
  };
  refused(s.Query().status(), "a query");
  refused(s.Synchronize(), "a synchronisation");
  refused(s.Wait(e), "a wait for an event");
  refused(s.Wait(DefaultStream(device)), "a wait for a stream");
  refused(DefaultStream(device).Wait(s), "a wait of another stream for it");
  refused(e.Record(s), "a record");
  refused(s.Native().status(), "its native handle");
  refused(FillAsync(s, x.ptr(), 1, kSize), "a fill");
  refused(SetCurrentStream(s), "making it current");
  // A new stream may reuse the native one, but is another stream.
  const Stream next = t.Require(Stream::Create(device), "stream");
  refused(s.Query().status(), "a query after another was created");
  t.Expect(next.ref() != s, "the new one is not the old one");
  t.Ok(e.Synchronize(), "the event still works");
}

// ---- C18

void EventsKeepTheirMeaning(Test& t) {
  for (const uint32_t device : t.devices()) {
    t.InEverySchedule([&] {
      const DeviceBlock x(t, device, kSize), y(t, device, kSize);
      const RawEvent e(t, device);
      const RawStream consumer(t, device);
      RawStream s(t, device);
      {
        Gate gate(t);
        gate.Hold(s);
        s.Fill(x.ptr(), 1, kSize);
        e.Record(s);
        t.Ok(s.Destroy(), "destroying the stream");
        consumer.Wait(e);
        consumer.Copy(y.ptr(), x.ptr(), kSize, DEVRT_COPY_D2D);
        t.Settle();
        t.Expect(!e.Query(), "the event is not complete");
        t.Expect(!consumer.Query(), "a stream that waits for it still waits");
      }
      e.Sync();
      t.Expect(e.Query(), "the event is complete");
      t.Expect(x.Holds(1), "what it stands for has happened");
      consumer.Sync();
      t.Expect(y.Holds(1), "the waiting stream came after it");
    });
  }
}

// The event captures only a wait.  A backend that forgets the stream would
// report it as complete.
void BareWaitsKeepTheirMeaning(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const HostBlock out(t, t.device(), kSize);
    const RawStream producer(t, t.device());
    const RawEvent produced(t, t.device()), e(t, t.device());
    {
      RawStream s(t, t.device());
      Gate gate(t);
      gate.Hold(producer);
      producer.Fill(x.ptr(), 1, kSize);
      producer.Copy(out.ptr(), x.ptr(), kSize, DEVRT_COPY_D2H);
      produced.Record(producer);
      s.Wait(produced);
      e.Record(s);
      t.Ok(s.Destroy(), "destroying the stream");
      t.Settle();
      t.Expect(!e.Query(), "an event behind a bare wait is not complete");
    }
    e.Sync();
    t.Expect(out.Holds(1), "it stands for what was waited for");
  });
}

// After the creation of other streams, which may have the handle.
void EventsAreNotTheNextStreams(Test& t) {
  const DeviceBlock x(t, t.device(), kSize);
  const RawEvent old(t, t.device());
  {
    const RawStream s(t, t.device());
    s.Fill(x.ptr(), 1, kSize);
    old.Record(s);
    s.Sync();
  }
  std::vector<RawStream> next;
  for (int i = 0; i < 10; ++i) next.emplace_back(t, t.device());
  Gate gate(t);
  for (const RawStream& s : next) gate.Hold(s);
  t.Expect(old.Query(), "an event of a destroyed stream stays complete");
  old.Sync();
  for (const RawStream& s : next) {
    t.Expect(!s.Query(), "the event did not wait for newer streams");
  }
}

constexpr TestCase kTests[] = {
    {"stream.destroy_returns_at_once", "C17",
     "Destroying a busy stream returns at once; submitted work completes.",
     &DestroyReturnsAtOnce, 0, kNeedsGate},
    {"stream.destroy_drops_nothing", "C17",
     "Submitted work of every kind completes after its stream was destroyed.",
     &DestroyDropsNothing, 0, kNeedsGate},
    {"stream.destroyed_streams_complete", "C17",
     "The work of many destroyed streams completes.", &DestroyNeedsNoGate},
    {"stream.destroy_keeps_waits", "C17",
     "A destroyed stream's work keeps the order that its waits made.",
     &DestroyKeepsWaits, 0, kNeedsGate},
    {"stream.next_stream_is_another", "C17 C101",
     "A stream created after a busy one was destroyed has nothing of its work.",
     &NextStreamIsAnother, 0, kNeedsGate},
    {"stream.destroyed_are_refused", "C17",
     "devrt passes no handle of a destroyed stream on: every call is "
     "INVALID_ARGUMENT.",
     &DestroyedStreamsAreRefused},
    {"stream.events_outlive_it", "C18",
     "An event keeps its meaning when its stream is destroyed: for queries, "
     "synchronisation and waits.",
     &EventsKeepTheirMeaning, 0, kNeedsGate},
    {"stream.events_outlive_it_behind_a_bare_wait", "C18",
     "An event that captured only a wait keeps its meaning when its stream is "
     "destroyed.",
     &BareWaitsKeepTheirMeaning, DEVRT_CAP_PINNED_HOST, kNeedsGate},
    {"stream.events_are_not_the_next_streams", "C18",
     "An event of a destroyed stream has nothing to do with newer streams.",
     &EventsAreNotTheNextStreams, 0, kNeedsGate},
};

}  // namespace
}  // namespace stream_lifetime_tests

absl::Span<const TestCase> StreamLifetimeTests() {
  return stream_lifetime_tests::kTests;
}

}  // namespace devrt::cts
