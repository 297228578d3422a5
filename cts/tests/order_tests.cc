// SPDX-License-Identifier: Apache-2.0
//
// The happens-before edges of docs/reference/semantics.md 1.14.  Each program
// fails if its edge is missing.  order_legacy_tests.cc has the edges of the
// legacy stream, order_free_tests.cc has work that must stay unordered.
#include <algorithm>
#include <functional>
#include <string>
#include <vector>

#include "cts/catalog.h"
#include "cts/held_stream.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace order_tests {
namespace {

using Ops = devrt_ops_v0;
constexpr uint64_t kSize = 4096;

// ---- submit: the stream joins the host, and its own earlier work

void HostWritesBeforeSubmission(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const HostBlock in(t, t.device(), kSize), out(t, t.device(), kSize);
    const RawStream a(t, t.device());
    for (int i = 1; i <= 5; ++i) {
      std::fill_n(in.ptr(), in.size(), static_cast<uint8_t>(i));
      a.Copy(x.ptr(), in.ptr(), in.size(), DEVRT_COPY_H2D);
      a.Copy(out.ptr(), x.ptr(), out.size(), DEVRT_COPY_D2H);
      a.Sync();
      t.Require(out.Holds(static_cast<uint8_t>(i)),
                "a copy reads what the host wrote before it was submitted");
    }
  });
}

// One operation of each engine after the other, repeated.
void OneStreamIsInOrder(Test& t) {
  constexpr int kRounds = 12;
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize), y(t, t.device(), kSize);
    const HostBlock up(t, t.device(), kSize), down(t, t.device(), kSize);
    const RawStream a(t, t.device());
    for (int i = 1; i <= kRounds; ++i) {
      a.Fill(x.ptr(), static_cast<uint8_t>(i), x.size());
      a.Copy(up.ptr(), x.ptr(), up.size(), DEVRT_COPY_D2H);
      a.Copy(y.ptr(), up.ptr(), y.size(), DEVRT_COPY_H2D);
      a.Fill(x.ptr(), 0, x.size());
      a.Copy(x.ptr(), y.ptr(), x.size(), DEVRT_COPY_D2D);
      a.Copy(down.ptr(), x.ptr(), down.size(), DEVRT_COPY_D2H);
    }
    a.Sync();
    t.Expect(down.Holds(kRounds),
             "each operation of a stream sees the effects of the former");
  });
}

// ---- record and wait, for each kind of operation behind the wait

struct Kind {
  const char* name;
  std::function<void(const RawStream&)> submit;
};

void WaitOrdersEveryKind(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize), y(t, t.device(), kSize);
    const HostBlock h(t, t.device(), kSize);
    const RawEvent other(t, t.device());
    const Kind kinds[] = {
        {"a fill", [&](auto& s) { s.Fill(x.ptr(), 2, kSize); }},
        {"a copy to the device",
         [&](auto& s) { s.Copy(x.ptr(), h.ptr(), kSize, DEVRT_COPY_H2D); }},
        {"a copy from the device",
         [&](auto& s) { s.Copy(h.ptr(), x.ptr(), kSize, DEVRT_COPY_D2H); }},
        {"a copy on the device",
         [&](auto& s) { s.Copy(y.ptr(), x.ptr(), kSize, DEVRT_COPY_D2D); }},
        {"a record", [&](auto& s) { other.Record(s); }},
        {"nothing else", [](auto&) {}},
    };
    for (const Kind& kind : kinds) {
      const RawStream a(t, t.device()), b(t, t.device());
      const RawEvent e(t, t.device());
      HeldStream held(t, a);
      e.Record(a);
      b.Wait(e);
      kind.submit(b);
      held.Blocks(b, std::string("a wait orders ") + kind.name);
      held.Open();
      b.Sync();
    }
  });
}

// One operation behind several waits comes after all of them.
void WaitsAddUp(Test& t) {
  constexpr size_t kProducers = 4;
  t.InEverySchedule([&] {
    for (size_t late = 0; late < kProducers; ++late) {
      const DeviceBlock x(t, t.device(), kSize);
      const RawStream c(t, t.device());
      std::vector<RawStream> producers;
      std::vector<RawEvent> events;
      for (size_t i = 0; i < kProducers; ++i) {
        producers.emplace_back(t, t.device());
        events.emplace_back(t, t.device());
      }
      HeldStream held(t, producers[late]);
      for (size_t i = 0; i < kProducers; ++i) {
        producers[i].Fill(x.ptr() + i * kSize / kProducers, 1,
                          kSize / kProducers);
        events[i].Record(producers[i]);
        c.Wait(events[i]);
      }
      c.Fill(x.ptr(), 2, x.size());
      held.Blocks(c, "an operation comes after every wait before it");
      held.Open();
      c.Sync();
      t.Expect(x.Holds(2), "and after the work of all of them");
    }
  });
}

// With waits for two events of one stream, in either order, the newer capture
// counts.
void NewerCaptureOfOneStream(Test& t) {
  t.InEverySchedule([&] {
    for (const bool newer_first : {true, false}) {
      const RawStream a(t, t.device()), b(t, t.device());
      const RawEvent older(t, t.device()), newer(t, t.device());
      Gate first(t);
      first.Hold(a);
      older.Record(a);
      HeldStream held(t, a);
      newer.Record(a);
      b.Wait(newer_first ? newer : older);
      b.Wait(newer_first ? older : newer);
      first.Open();
      t.Require(t.Eventually([&] { return older.Query(); }),
                "the older event is complete");
      held.Blocks(b, "two waits for events of one stream: both count");
    }
  });
}

// A wait for an event of the stream itself neither blocks nor orders.
void WaitForItself(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device());
    const RawEvent e(t, t.device());
    for (int i = 1; i <= 3; ++i) {
      a.Fill(x.ptr(), static_cast<uint8_t>(i), x.size());
      e.Record(a);
      a.Wait(e);
    }
    t.Expect(t.Eventually([&] { return a.Query(); }),
             "a stream that waits for its own event gets idle");
    t.Expect(x.Holds(3), "its work is done in order");
  });
}

// ---- the host joins: synchronisation and true queries

// The ways for the host to learn that a stream's work is complete.
void HostJoins(
    Test& t, const char* how,
    const std::function<void(const RawStream&, const RawEvent&)>& join) {
  const DeviceBlock x(t, t.device(), kSize);
  const HostBlock out(t, t.device(), kSize);
  const RawStream a(t, t.device()), b(t, t.device());
  const RawEvent e(t, t.device());
  a.Delay(50'000);
  a.Fill(x.ptr(), 1, x.size());
  a.Copy(out.ptr(), x.ptr(), out.size(), DEVRT_COPY_D2H);
  e.Record(a);
  join(a, e);
  t.Expect(out.Holds(1), std::string(how) + " makes pinned writes visible");
  // Later submissions of the host come after the work.
  b.Fill(x.ptr(), 2, x.size());
  b.Sync();
  a.Sync();
  t.Expect(x.Holds(2), std::string(how) + " orders later submissions");
}

void HostJoinsByEveryMeans(Test& t) {
  t.InEverySchedule([&] {
    HostJoins(t, "event synchronise", [](auto&, auto& e) { e.Sync(); });
    HostJoins(t, "stream synchronise", [](auto& a, auto&) { a.Sync(); });
    HostJoins(t, "a true event query", [&](auto&, auto& e) {
      t.Require(t.Eventually([&] { return e.Query(); }), "the event completes");
    });
    HostJoins(t, "a true stream query", [&](auto& a, auto&) {
      t.Require(t.Eventually([&] { return a.Query(); }), "the stream is idle");
    });
    HostJoins(t, "device synchronise", [&](auto& a, auto&) {
      t.Require(t.machine().Call<&Ops::device_sync>(a.device()), "device sync");
    });
  });
}

// Through the C++ API, which alone has this form.
void BlockingCopyJoins(Test& t) {
  constexpr int kRounds = 8;
  const Device device = t.cpp_device();
  const Stream s = t.Require(Stream::Create(device), "a stream");
  void* const block = t.Require(Allocate(device, kSize), "an allocation");
  void* const other = t.Require(Allocate(device, kSize), "an allocation");
  const RawStream raw(t, t.device());
  std::vector<uint8_t> host(kSize), up(kSize);
  for (int i = 1; i <= kRounds; ++i) {
    const auto value = static_cast<uint8_t>(i);
    const std::vector<uint8_t> expected(kSize, value);
    t.Ok(FillAsync(s, block, value, kSize), "fill");
    t.Ok(Copy(s, host.data(), block, kSize), "a blocking copy to the host");
    t.Expect(host == expected, "the host sees what was before a blocking copy");
    up = expected;
    t.Ok(Copy(s, other, up.data(), kSize), "a blocking copy to the device");
    // Another stream reads without a wait, and the source may change at once.
    std::fill(up.begin(), up.end(), uint8_t{0});
    HostBlock out(t, t.device(), kSize);
    raw.Copy(out.ptr(), other, kSize, DEVRT_COPY_D2H);
    raw.Sync();
    t.Expect(out.Holds(value), "what the host submits after it comes after it");
  }
  t.Ok(Free(device, block), "free");
  t.Ok(Free(device, other), "free");
}

void DeviceSyncCoversAllStreams(Test& t) {
  t.InEverySchedule([&] {
    std::vector<RawStream> streams;
    std::vector<DeviceBlock> blocks;
    std::vector<HostBlock> outs;
    for (int i = 0; i < 4; ++i) {
      blocks.emplace_back(t, t.device(), kSize);
      outs.emplace_back(t, t.device(), kSize);
    }
    streams.emplace_back(t, t.device());
    streams.emplace_back(t, t.device(), DEVRT_STREAM_BLOCKING);
    streams.push_back(PerThread(t));
    streams.push_back(Legacy(t));
    for (size_t i = 0; i < streams.size(); ++i) {
      streams[i].Delay(50'000);
      streams[i].Fill(blocks[i].ptr(), 1, kSize);
      streams[i].Copy(outs[i].ptr(), blocks[i].ptr(), kSize, DEVRT_COPY_D2H);
    }
    t.Ok(streams[0].Destroy(), "destruction of a busy stream");
    t.Require(t.machine().Call<&Ops::device_sync>(t.device()), "device sync");
    for (const HostBlock& out : outs) {
      t.Expect(out.Holds(1),
               "device synchronise covers every kind of stream, "
               "destroyed ones too");
    }
  });
}

// Also covers a stream that has only a wait for another device.
void DeviceSyncCoversPendingWaits(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(0), kSize);
    const HostBlock out(t, t.device(0), kSize);
    const RawStream a(t, t.device(0)), b(t, t.device(1));
    const RawEvent e(t, t.device(0));
    a.Delay(100'000);
    a.Fill(x.ptr(), 1, x.size());
    a.Copy(out.ptr(), x.ptr(), out.size(), DEVRT_COPY_D2H);
    e.Record(a);
    b.Wait(e);
    t.Require(t.machine().Call<&Ops::device_sync>(t.device(1)), "device sync");
    t.Expect(out.Holds(1),
             "device synchronise covers what its streams wait for");
  });
}

// ---- destroyed events and streams

void EventsOutliveTheirStream(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    RawStream a(t, t.device());
    const RawStream b(t, t.device()), watched(t, t.device());
    const RawEvent e(t, t.device());
    HeldStream held(t, watched);
    const RawEvent opened(t, t.device());
    opened.Record(watched);
    a.Wait(opened);
    a.Fill(x.ptr(), 1, x.size());
    e.Record(a);
    t.Ok(a.Destroy(), "destruction of a busy stream");
    held.Blocks(e, "an event of a destroyed stream is pending like any other");
    b.Wait(e);
    b.Fill(x.ptr(), 2, x.size());
    held.Blocks(b, "a wait for it waits");
    held.Open();
    e.Sync();
    t.Expect(e.Query(), "synchronised with, it is complete");
    b.Sync();
    t.Expect(x.Holds(2), "it orders behind the destroyed stream's work");
  });
}

// The destroyed stream had only a wait, and no operation.
void EventsOutliveAnEmptyStream(Test& t) {
  t.InEverySchedule([&] {
    const RawStream a(t, t.device());
    const RawEvent e1(t, t.device()), e2(t, t.device());
    HeldStream held(t, a);
    e1.Record(a);
    {
      const RawStream between(t, t.device());
      between.Wait(e1);
      e2.Record(between);
    }
    held.Blocks(e2, "an event behind a bare wait outlives its stream");
  });
}

// Later streams may get the handle of the destroyed one.  Events of the
// destroyed stream do not belong to them.
void NewStreamIsNotTheOldOne(Test& t) {
  t.InEverySchedule([&] {
    const RawStream other(t, t.device());
    const RawEvent e(t, t.device());
    {
      const RawStream a(t, t.device());
      e.Record(a);
      a.Sync();
    }
    const RawStream b(t, t.device());
    HeldStream held(t, b);
    other.Wait(e);
    held.LetsPass(e, "an event of a destroyed stream, complete, stays so");
    held.LetsPass(other, "and orders behind nothing of a stream made later");
  });
}

constexpr TestCase kTests[] = {
    {"order.host_writes_before_submission", "C6",
     "submit: an operation sees data that the host wrote before the "
     "submission.",
     &HostWritesBeforeSubmission},
    {"order.one_stream_is_in_order", "C6",
     "submit: operations of one stream run in submission order on any engine, "
     "and each sees the effects of the one before.",
     &OneStreamIsInOrder, DEVRT_CAP_PINNED_HOST},
    {"order.wait_orders_every_kind", "C29 C27",
     "wait: every kind of operation comes after the captured work that its "
     "stream waits for.",
     &WaitOrdersEveryKind, DEVRT_CAP_PINNED_HOST, kNeedsGate},
    {"order.waits_add_up", "C26 C29",
     "wait: an operation comes after every wait before it.", &WaitsAddUp, 0,
     kNeedsGate},
    {"order.newer_capture_of_one_stream", "C29",
     "wait: of two events of one stream both count.", &NewerCaptureOfOneStream,
     0, kNeedsGate},
    {"order.wait_for_itself", "C29",
     "wait: a wait for an event of the waiting stream itself ends.",
     &WaitForItself},
    {"order.host_joins", "C36 C37 C21",
     "synchronise, true query: the host comes after the work, and so do its "
     "later submissions.",
     &HostJoinsByEveryMeans, DEVRT_CAP_PINNED_HOST},
    {"order.blocking_copy_joins", "C48 C50",
     "blocking copy with a host side: the host comes after the copy, and so do "
     "its later submissions on any stream.",
     &BlockingCopyJoins},
    {"order.device_sync_covers_all_streams", "C5 C17",
     "device synchronise: the host comes after all streams of the device.",
     &DeviceSyncCoversAllStreams, DEVRT_CAP_PINNED_HOST},
    {"order.device_sync_covers_pending_waits", "C5 C26",
     "device synchronise: waits without work behind them count.",
     &DeviceSyncCoversPendingWaits, 0, kTwoDevices},
    {"order.events_outlive_their_stream", "C18",
     "Wait, query and synchronise keep their meaning when the event's stream "
     "is destroyed.",
     &EventsOutliveTheirStream, 0, kNeedsGate},
    {"order.events_outlive_an_empty_stream", "C18 C26",
     "An event recorded behind a bare wait keeps its meaning when its stream "
     "is destroyed.",
     &EventsOutliveAnEmptyStream, 0, kNeedsGate},
    {"order.new_stream_is_not_the_old_one", "C18",
     "An event says nothing of a stream that was made later.",
     &NewStreamIsNotTheOldOne, 0, kNeedsGate},
};

}  // namespace
}  // namespace order_tests

absl::Span<const TestCase> OrderTests() { return order_tests::kTests; }

}  // namespace devrt::cts
