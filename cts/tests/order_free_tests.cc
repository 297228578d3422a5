// SPDX-License-Identifier: Apache-2.0
//
// Work that must stay unordered.  A simulator reaches both orders; with a gate,
// one of two streams passes the other one, which is held.
//
// Programs with data races run only on a simulator in virtual mode.  On other
// backends they would show nothing.
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "cts/catalog.h"
#include "cts/held_stream.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace order_free_tests {
namespace {

using Ops = devrt_ops_v0;
constexpr uint64_t kSize = 64;

// The last of two writers: "1", "2", or "mixed".
std::string Last(const DeviceBlock& x) {
  const std::vector<uint8_t> bytes = x.Read();
  for (const uint8_t b : bytes) {
    if (b != bytes[0]) return "mixed";
  }
  return absl::StrCat(bytes[0]);
}

// Writes x=1 by `first`, then x=2 by `second`; returns the last writer.
std::string Race(Test& t, const RawStream& first, const RawStream& second) {
  const DeviceBlock x(t, t.device(), kSize);
  first.Fill(x.ptr(), 1, x.size());
  second.Fill(x.ptr(), 2, x.size());
  first.Sync();
  second.Sync();
  return Last(x);
}

// ---- C7, C10, C11, C13: streams

void TwoNonBlockingStreams(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const RawStream a(t, t.device()), b(t, t.device());
    return Race(t, a, b);
  });
}

void NonBlockingPassesNonBlocking(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    const RawEvent e(t, t.device());
    HeldStream held(t, a);
    b.Fill(x.ptr(), 1, x.size());
    e.Record(b);
    held.LetsPass(b, "a non-blocking stream passes another");
    b.Sync();
    e.Sync();
    held.StillHolds("its synchronisation covers no other stream");
  });
}

void LegacyThenNonBlocking(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const RawStream legacy = Legacy(t), b(t, t.device());
    return Race(t, legacy, b);
  });
}

void NonBlockingThenLegacy(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const RawStream a(t, t.device()), legacy = Legacy(t);
    return Race(t, a, legacy);
  });
}

void LegacyPassesNonBlocking(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream legacy = Legacy(t), nb(t, t.device());
    const RawStream blocking = Blocking(t);
    const RawEvent e(t, t.device());
    {
      HeldStream held(t, nb);
      legacy.Fill(x.ptr(), 1, x.size());
      e.Record(legacy);
      blocking.Fill(x.ptr(), 2, x.size());
      held.LetsPass(e, "legacy work passes a non-blocking stream");
      held.LetsPass(blocking, "so does what comes after it");
    }
    {
      HeldStream held(t, legacy);
      nb.Fill(x.ptr(), 3, x.size());
      held.LetsPass(nb, "a non-blocking stream passes legacy work");
    }
    legacy.Sync();
  });
}

void TwoBlockingStreams(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const RawStream a = Blocking(t), b = Blocking(t);
    return Race(t, a, b);
  });
}

void BlockingPassesBlocking(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a = Blocking(t), b = Blocking(t), legacy = Legacy(t);
    legacy.Fill(x.ptr(), 1, x.size());
    HeldStream held(t, a);
    b.Fill(x.ptr(), 1, x.size());
    held.LetsPass(b, "a blocking stream passes another one");
  });
}

// A legacy operation does not order later work of two blocking streams.
void BlockingStreamsAfterLegacy(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const RawStream a = Blocking(t), b = Blocking(t), legacy = Legacy(t);
    const RawEvent e(t, t.device());
    e.Record(legacy);
    return Race(t, a, b);
  });
}

// Each device writes to one host block.
void DefaultStreamsOfTwoDevices(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const DeviceBlock one(t, t.device(0), kSize), two(t, t.device(1), kSize);
    const HostBlock h(t, t.device(0), kSize);
    const RawStream l0 = Legacy(t, t.device(0)), l1 = Legacy(t, t.device(1));
    l0.Fill(one.ptr(), 1, kSize);
    l1.Fill(two.ptr(), 2, kSize);
    l0.Copy(h.ptr(), one.ptr(), kSize, DEVRT_COPY_D2H);
    l1.Copy(h.ptr(), two.ptr(), kSize, DEVRT_COPY_D2H);
    l0.Sync();
    l1.Sync();
    return h.Holds(1) ? "1" : h.Holds(2) ? "2" : "mixed";
  });
}

void OtherDevicesPass(Test& t) {
  t.InEverySchedule([&] {
    const DeviceBlock y(t, t.device(1), kSize);
    const RawStream l0 = Legacy(t, t.device(0)), l1 = Legacy(t, t.device(1)),
                    b(t, t.device(1));
    const RawStream blocking(t, t.device(1), DEVRT_STREAM_BLOCKING);
    HeldStream held(t, l0);
    l1.Fill(y.ptr(), 1, y.size());
    b.Fill(y.ptr(), 1, y.size());
    blocking.Fill(y.ptr(), 1, y.size());
    held.LetsPass(l1, "another device's legacy stream passes");
    held.LetsPass(blocking, "another device's blocking stream passes");
    held.LetsPass(b, "another device's non-blocking stream passes");
    t.Require(t.machine().Call<&Ops::device_sync>(t.device(1)), "device sync");
    held.StillHolds("synchronising device 1 does not wait for device 0");
  });
}

// ---- C23: priorities

std::pair<int32_t, int32_t> Priorities(Test& t) {
  const auto& props = t.machine().props(t.device());
  return {props.priority_least, props.priority_greatest};
}

void PriorityIsNoOrder(Test& t) {
  const auto [least, greatest] = Priorities(t);
  for (const bool urgent_first : {true, false}) {
    t.Reaches({"1", "2"}, [&, low = least, high = greatest] {
      const RawStream a(t, t.device(), 0, urgent_first ? high : low);
      const RawStream b(t, t.device(), 0, urgent_first ? low : high);
      return Race(t, a, b);
    });
  }
}

// Priorities do not make a correct program wrong.
void PriorityBreaksNoOrder(Test& t) {
  const auto [least, greatest] = Priorities(t);
  const auto program = [&, low = least, high = greatest] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device(), 0, low), b(t, t.device(), 0, high);
    const RawEvent e(t, t.device()), f(t, t.device());
    for (uint8_t i = 0; i < 10; ++i) {
      a.Fill(x.ptr(), static_cast<uint8_t>(2 * i + 1), x.size());
      e.Record(a);
      b.Wait(e);
      b.Fill(x.ptr(), static_cast<uint8_t>(2 * i + 2), x.size());
      f.Record(b);
      a.Wait(f);
    }
    a.Sync();
    t.Expect(x.Holds(20),
             "an urgent stream does not overtake what it waits "
             "for");
  };
  t.InEverySchedule(program);
  if (!t.machine().IsVirtual()) return;
  t.Require(t.machine().Reset("invert_priorities=yes"), "reset");
  program();
  t.Require(t.machine().Reset(""), "reset");
}

// ---- C25, C27, C28, C29: events

// x=2 behind the record races with a stream that waits for the record.
void WorkBehindTheRecord(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    const RawEvent e(t, t.device());
    e.Record(a);
    a.Fill(x.ptr(), 1, x.size());
    b.Wait(e);
    b.Fill(x.ptr(), 2, x.size());
    a.Sync();
    b.Sync();
    return Last(x);
  });
}

void WaitBeforeTheRecord(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    const RawEvent e(t, t.device());
    b.Wait(e);
    a.Fill(x.ptr(), 1, x.size());
    e.Record(a);
    b.Fill(x.ptr(), 2, x.size());
    a.Sync();
    b.Sync();
    return Last(x);
  });
}

// The earlier work of the waiting stream races with the work of the event.
void WorkBeforeTheWait(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    const RawEvent e(t, t.device());
    a.Fill(x.ptr(), 1, x.size());
    e.Record(a);
    b.Fill(x.ptr(), 2, x.size());
    b.Wait(e);
    a.Sync();
    b.Sync();
    return Last(x);
  });
}

// A wait orders in one direction: the stream of the event does not wait.
void WaitIsOneWay(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    const RawEvent e(t, t.device());
    e.Record(a);
    b.Wait(e);
    b.Fill(x.ptr(), 1, x.size());
    a.Fill(x.ptr(), 2, x.size());
    a.Sync();
    b.Sync();
    return Last(x);
  });
}

// The work of the newer record races with a stream that waits for the older
// one.
void NewerRecordIsNoEdge(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device()), c(t, t.device());
    const RawEvent e(t, t.device());
    e.Record(a);
    b.Wait(e);
    c.Fill(x.ptr(), 1, x.size());
    e.Record(c);
    b.Fill(x.ptr(), 2, x.size());
    b.Sync();
    c.Sync();
    return Last(x);
  });
}

// The work of the older record races with a stream that waits for the newer
// one.
void OlderRecordIsNoEdge(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device()), c(t, t.device());
    const RawEvent e(t, t.device());
    a.Fill(x.ptr(), 1, x.size());
    e.Record(a);
    e.Record(c);
    b.Wait(e);
    b.Fill(x.ptr(), 2, x.size());
    a.Sync();
    b.Sync();
    return Last(x);
  });
}

// Two streams that wait for one event are unordered.
void WaitersAreUnordered(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    const RawStream a(t, t.device()), b(t, t.device()), c(t, t.device());
    const RawEvent e(t, t.device());
    e.Record(c);
    a.Wait(e);
    b.Wait(e);
    return Race(t, a, b);
  });
}

// ---- C60: engines

// A copies h to x, and B copies x to h.  If one runs after the other, both
// blocks become equal.  If both read before they write, the values are swapped.
void EnginesMayOverlap(Test& t) {
  t.Reaches({"A then B", "B then A", "overlap"}, [&]() -> std::string {
    const DeviceBlock x(t, t.device(), kSize);
    const HostBlock h(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    std::fill_n(h.ptr(), h.size(), uint8_t{1});
    x.Write(std::vector<uint8_t>(kSize, 2));
    a.Copy(x.ptr(), h.ptr(), kSize, DEVRT_COPY_H2D);
    b.Copy(h.ptr(), x.ptr(), kSize, DEVRT_COPY_D2H);
    a.Sync();
    b.Sync();
    if (h.Holds(1) && x.Holds(1)) return "A then B";
    if (h.Holds(2) && x.Holds(2)) return "B then A";
    for (const uint8_t byte : x.Read()) {
      if (byte != 1 && byte != 2) return "neither";
    }
    return "overlap";
  });
}

// ---- C73: hidden synchronisation is no edge

void AllocationIsNoEdge(Test& t) {
  t.Reaches({"1", "2"}, [&] {
    Machine& m = t.machine();
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    a.Fill(x.ptr(), 1, x.size());
    void* block = nullptr;
    t.Require(
        m.Call<&Ops::alloc>(t.device(), uint64_t{4096}, uint64_t{0}, &block),
        "allocation");
    RawEvent(t, t.device()).Record(b);
    Blocking(t).Sync();
    b.Fill(x.ptr(), 2, x.size());
    a.Sync();
    b.Sync();
    t.Require(m.Call<&Ops::dealloc>(t.device(), block, uint64_t{4096}),
              "deallocation");
    return Last(x);
  });
}

// A raw free that does not synchronise waits for nothing.
void FreeIsNoEdge(Test& t) {
  Machine& m = t.machine();
  if (m.props(t.device()).raw_free_syncs != 0) {
    t.Skip("raw_free_syncs=yes: a free may wait for the device");
  }
  t.Reaches({"1", "2"}, [&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    void* block = nullptr;
    t.Require(
        m.Call<&Ops::alloc>(t.device(), uint64_t{4096}, uint64_t{0}, &block),
        "allocation");
    a.Fill(x.ptr(), 1, x.size());
    t.Require(m.Call<&Ops::dealloc>(t.device(), block, uint64_t{4096}),
              "deallocation");
    b.Fill(x.ptr(), 2, x.size());
    a.Sync();
    b.Sync();
    return Last(x);
  });
}

constexpr TestCase kTests[] = {
    {"order.two_non_blocking_streams", "C7",
     "No order may be assumed between non-blocking streams.",
     &TwoNonBlockingStreams, 0, kNeedsSim},
    {"order.non_blocking_passes_non_blocking", "C7",
     "No order is created between non-blocking streams.",
     &NonBlockingPassesNonBlocking, 0, kNeedsGate},
    {"order.legacy_then_non_blocking", "C10",
     "Non-blocking streams are not ordered after the legacy stream.",
     &LegacyThenNonBlocking, 0, kNeedsSim},
    {"order.non_blocking_then_legacy", "C10",
     "The legacy stream is not ordered after non-blocking streams.",
     &NonBlockingThenLegacy, 0, kNeedsSim},
    {"order.legacy_passes_non_blocking", "C10",
     "Non-blocking streams ignore the legacy stream, in either direction.",
     &LegacyPassesNonBlocking, 0, kNeedsGate},
    {"order.two_blocking_streams", "C11",
     "Two blocking streams are mutually unordered.", &TwoBlockingStreams, 0,
     kNeedsSim},
    {"order.blocking_passes_blocking", "C11",
     "A blocking stream does not wait for another one.",
     &BlockingPassesBlocking, 0, kNeedsGate},
    {"order.blocking_streams_after_legacy", "C11",
     "A legacy operation does not order later work of two blocking streams.",
     &BlockingStreamsAfterLegacy, 0, kNeedsSim},
    {"order.default_streams_of_two_devices", "C13",
     "Default streams of different devices are unordered.",
     &DefaultStreamsOfTwoDevices, DEVRT_CAP_PINNED_HOST,
     kTwoDevices | kNeedsSim},
    {"order.other_devices_pass", "C13 C5",
     "No stream of one device waits for another device by itself.",
     &OtherDevicesPass, 0, kNeedsGate | kTwoDevices},
    {"order.priority_is_no_order", "C23",
     "Priorities order nothing: both orders remain.", &PriorityIsNoOrder, 0,
     kNeedsSim},
    {"order.priority_breaks_no_order", "C23",
     "Priorities break no order, inverted ones neither.",
     &PriorityBreaksNoOrder},
    {"order.work_behind_the_record", "C25",
     "A wait does not order work that was submitted after the record.",
     &WorkBehindTheRecord, 0, kNeedsSim},
    {"order.wait_before_the_record", "C28",
     "A wait before the record does not order.", &WaitBeforeTheRecord, 0,
     kNeedsSim},
    {"order.work_before_the_wait", "C29",
     "A wait does not order the earlier work of its stream.",
     &WorkBeforeTheWait, 0, kNeedsSim},
    {"order.wait_is_one_way", "C29",
     "A wait does not order the event's stream.", &WaitIsOneWay, 0, kNeedsSim},
    {"order.newer_record_is_no_edge", "C27",
     "A wait that was issued is not ordered behind a newer record.",
     &NewerRecordIsNoEdge, 0, kNeedsSim},
    {"order.older_record_is_no_edge", "C27",
     "A wait is not ordered behind a record that was replaced before it.",
     &OlderRecordIsNoEdge, 0, kNeedsSim},
    {"order.waiters_are_unordered", "C29",
     "Streams that wait for one event are unordered.", &WaitersAreUnordered, 0,
     kNeedsSim},
    {"order.engines_may_overlap", "C60",
     "Copies of different engines may overlap, and need not.",
     &EnginesMayOverlap, DEVRT_CAP_PINNED_HOST, kNeedsSim},
    {"order.allocation_is_no_edge", "C73",
     "A raw allocation, or the creation of objects, is no happens-before edge.",
     &AllocationIsNoEdge, 0, kNeedsSim},
    {"order.free_is_no_edge", "C73 C64",
     "A raw free is no happens-before edge.", &FreeIsNoEdge, 0, kNeedsSim},
};

}  // namespace
}  // namespace order_free_tests

absl::Span<const TestCase> OrderFreeTests() { return order_free_tests::kTests; }

}  // namespace devrt::cts
