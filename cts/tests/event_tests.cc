// SPDX-License-Identifier: Apache-2.0
//
// Events: what a record captures, and how queries, waits and synchronisation
// use the capture.  Destruction and devices: event_life_tests.cc.
#include "cts/catalog.h"
#include "cts/held_stream.h"
#include "cts/objects.h"

namespace devrt::cts {
namespace event_tests {
namespace {

constexpr uint64_t kSize = 4096;

// The bodies take the flags of the events, because all tests must also pass
// with DEVRT_EVENT_BLOCKING_SYNC (C40).

void NeverRecorded(Test& t, uint32_t flags) {
  for (const uint32_t device : t.devices()) {
    const RawEvent e(t, device, flags);
    t.Expect(e.Query(), "a query of an event that was never recorded is true");
    e.Sync();
    const RawStream s(t, device);
    s.Wait(e);
    t.Expect(t.Eventually([&] { return s.Query(); }),
             "a stream that waits for it gets idle");
  }
}

// ---- C25: what is captured

void RecordCoversEarlierWork(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const RawStream a(t, t.device());
    const RawEvent e(t, t.device(), flags);
    HeldStream held(t, a);
    e.Record(a);
    held.Blocks(e, "an event behind the only operation of a stream is pending");
    held.Open();
    e.Sync();
    t.Expect(e.Query(), "an event that was synchronised with is complete");
  });
}

// The capture covers the last of several operations.
void RecordCoversTheLastOperation(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device());
    const RawEvent e(t, t.device(), flags);
    for (int i = 0; i < 3; ++i) a.Fill(x.ptr(), 1, x.size());
    HeldStream held(t, a);
    e.Record(a);
    held.Blocks(e, "an event behind three fills and a held kernel is pending");
  });
}

void RecordCoversNoLaterWork(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    const RawEvent e(t, t.device(), flags);
    a.Fill(x.ptr(), 1, x.size());
    e.Record(a);
    HeldStream held(t, a);
    b.Wait(e);
    b.Fill(x.ptr(), 2, x.size());
    held.LetsPass(e, "an event does not wait for what was submitted later");
    held.LetsPass(b, "nor does a stream that waits for the event");
  });
}

// The event is still pending when the later work is submitted.
void PendingRecordCoversNoLaterWork(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const RawStream a(t, t.device());
    const RawEvent e(t, t.device(), flags);
    Gate first(t), second(t);
    first.Hold(a);
    e.Record(a);
    second.Hold(a);
    first.Open();
    t.Expect(t.Eventually([&] { return e.Query(); }),
             "an event is complete when the work before it is");
    t.Expect(!a.Query(), "it does not wait for the kernel behind it");
  });
}

// ---- C26: a record covers pending waits

void RecordCoversPendingWaits(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device()), c(t, t.device());
    const RawEvent e1(t, t.device(), flags), e2(t, t.device(), flags);
    HeldStream held(t, a);
    a.Fill(x.ptr(), 1, x.size());
    e1.Record(a);
    b.Wait(e1);
    e2.Record(b);
    c.Wait(e2);
    c.Fill(x.ptr(), 2, x.size());
    held.Blocks(e2, "an event covers a wait, even if its stream has no work");
    held.Blocks(c, "what waits for that event waits, too");
    held.Open();
    c.Sync();
    t.Expect(x.Holds(2), "order is transitive through a stream without work");
  });
}

// The capture covers both of two pending waits, in either order.
void RecordCoversEveryPendingWait(Test& t) {
  t.InEverySchedule([&] {
    for (const bool held_first : {true, false}) {
      const DeviceBlock x(t, t.device(), kSize), y(t, t.device(), kSize);
      const RawStream a(t, t.device()), b(t, t.device()), c(t, t.device());
      const RawEvent free(t, t.device()), held_one(t, t.device());
      const RawEvent e(t, t.device());
      HeldStream held(t, a);
      held_one.Record(a);
      c.Fill(x.ptr(), 1, x.size());
      free.Record(c);
      b.Fill(y.ptr(), 1, y.size());
      b.Wait(held_first ? held_one : free);
      b.Wait(held_first ? free : held_one);
      e.Record(b);
      held.Blocks(e, held_first ? "a record covers the first of two waits"
                                : "a record covers the second of two waits");
    }
  });
}

void RecordCoversPendingWaitsAcrossDevices(Test& t) {
  t.InEverySchedule([&] {
    const RawStream a(t, t.device(0)), b(t, t.device(1)), c(t, t.device(0));
    const RawEvent e1(t, t.device(0)), e2(t, t.device(1));
    HeldStream held(t, a);
    e1.Record(a);
    b.Wait(e1);
    e2.Record(b);
    c.Wait(e2);
    held.Blocks(e2, "an event covers a wait for another device's event");
    held.Blocks(c, "order passes through an idle stream of another device");
  });
}

// ---- C27: recording again

void WaitKeepsItsCapture(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device()), c(t, t.device());
    const RawEvent e(t, t.device(), flags);
    a.Fill(x.ptr(), 1, x.size());
    e.Record(a);
    b.Wait(e);
    b.Fill(x.ptr(), 2, kSize / 2);
    c.Wait(e);
    HeldStream held(t, a);
    e.Record(a);
    c.Fill(x.ptr() + kSize / 2, 2, kSize / 2);
    held.Blocks(e, "the newest record counts for a query");
    held.LetsPass(b, "a wait that was issued does not get a newer capture");
    held.LetsPass(c, "nor if the work behind it is submitted later");
    held.Open();
    a.Sync();
    t.Expect(x.Holds(2), "the wait orders behind the first record's work");
  });
}

// The stream reaches the wait after the event was recorded again.
void QueuedWaitKeepsItsCapture(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device()), c(t, t.device());
    const RawEvent e(t, t.device(), flags);
    Gate start(t);
    start.Hold(b);
    b.Fill(x.ptr(), 1, x.size());
    e.Record(a);
    b.Wait(e);
    b.Fill(x.ptr(), 2, x.size());
    HeldStream held(t, c);
    e.Record(c);
    start.Open();
    held.LetsPass(b, "a wait has the capture of its call, not of its turn");
  });
}

// A newer capture that completes earlier does not release an older wait.
void WaitKeepsAPendingCapture(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device()), c(t, t.device());
    const RawEvent e(t, t.device(), flags);
    HeldStream held(t, a);
    a.Fill(x.ptr(), 1, x.size());
    e.Record(a);
    b.Wait(e);
    b.Fill(x.ptr(), 2, x.size());
    e.Record(c);
    held.LetsPass(e, "a query asks for the newest capture");
    e.Sync();
    held.StillHolds("a synchronisation waits for the newest capture only");
    held.Blocks(b, "a wait that was issued keeps its pending capture");
    held.Open();
    b.Sync();
    t.Expect(x.Holds(2), "the wait orders behind the first record's work");
  });
}

// The older record completes while the newer one is pending.
void OldRecordDoesNotComplete(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const RawStream a(t, t.device()), b(t, t.device()), c(t, t.device());
    const RawEvent e(t, t.device(), flags);
    Gate older(t);
    older.Hold(a);
    e.Record(a);
    HeldStream newer(t, b);
    e.Record(b);
    c.Wait(e);
    older.Open();
    a.Sync();
    newer.Blocks(e, "the end of an older record does not complete the event");
    newer.Blocks(c, "a wait after the second record waits for that one");
  });
}

// record(e, s1); wait(s2, e); record(e, s2).
void ThreeCallSequence(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const RawStream a(t, t.device()), b(t, t.device());
    const RawEvent e(t, t.device(), flags);
    HeldStream held(t, a);
    e.Record(a);
    b.Wait(e);
    e.Record(b);
    held.Blocks(e, "the second record covers the wait for the first");
    held.Open();
    t.Expect(t.Eventually([&] { return e.Query() && b.Query(); }),
             "a stream does not wait for its own later record");
  });
}

// ---- C28, C29: waits

void WaitBeforeTheRecord(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize), y(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    const RawEvent fresh(t, t.device(), flags), done(t, t.device(), flags);
    a.Fill(x.ptr(), 1, x.size());
    done.Record(a);
    done.Sync();
    b.Wait(fresh);
    b.Wait(done);
    HeldStream held(t, a);
    fresh.Record(a);
    done.Record(a);
    b.Fill(y.ptr(), 1, y.size());
    held.LetsPass(b, "a wait takes the capture of its call, not a later one");
  });
}

void WaitOrders(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    const RawEvent e(t, t.device(), flags);
    HeldStream held(t, a);
    a.Fill(x.ptr(), 1, x.size());
    e.Record(a);
    b.Wait(e);
    held.Blocks(b, "a stream whose only submission is a wait is not idle");
    b.Fill(x.ptr(), 2, x.size());
    held.Blocks(b, "work behind a wait waits");
    held.Open();
    b.Sync();
    t.Expect(x.Holds(2), "work behind a wait comes after what was captured");
  });
}

// The earlier work of the stream is still pending at the wait.
void WaitDelaysNoEarlierWork(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device()), b(t, t.device());
    const RawEvent e(t, t.device(), flags), before(t, t.device(), flags);
    Gate start(t);
    start.Hold(b);
    b.Fill(x.ptr(), 1, x.size());
    before.Record(b);
    HeldStream held(t, a);
    e.Record(a);
    b.Wait(e);
    b.Fill(x.ptr(), 2, x.size());
    start.Open();
    held.LetsPass(before, "a wait does not delay what its stream had before");
    held.Blocks(b, "it delays what comes later");
  });
}

// ---- C36, C37: synchronisation and visibility

void SyncDoesNotWaitForLaterWork(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const RawStream a(t, t.device());
    const RawEvent e(t, t.device(), flags);
    a.Delay(100'000);
    a.Fill(x.ptr(), 1, x.size());
    e.Record(a);
    HeldStream held(t, a);
    e.Sync();
    held.StillHolds("a synchronisation does not wait for later work");
    t.Expect(e.Query(), "the event is complete");
  });
}

void SyncWaitsForItsWork(Test& t, uint32_t flags) {
  t.InEverySchedule([&] {
    const DeviceBlock x(t, t.device(), kSize);
    const HostBlock out(t, t.device(), kSize);
    const RawStream a(t, t.device());
    const RawEvent e(t, t.device(), flags);
    a.Delay(1'000'000);
    a.Fill(x.ptr(), 1, x.size());
    a.Copy(out.ptr(), x.ptr(), out.size(), DEVRT_COPY_D2H);
    e.Record(a);
    e.Sync();
    t.Expect(out.Holds(1), "what was captured has happened when it returns");
    t.Expect(e.Query(), "the event is complete when it returns");
  });
}

void TrueQueryIsAnAcquire(Test& t) {
  constexpr int kRounds = 40;
  const DeviceBlock x(t, t.device(), kSize);
  const HostBlock out(t, t.device(), kSize);
  const RawStream a(t, t.device());
  const RawEvent e(t, t.device());
  for (int i = 1; i <= kRounds; ++i) {
    const auto value = static_cast<uint8_t>(i);
    const bool by_event = i % 2 == 0;
    a.Delay(20'000);
    a.Fill(x.ptr(), value, x.size());
    a.Copy(out.ptr(), x.ptr(), out.size(), DEVRT_COPY_D2H);
    if (by_event) e.Record(a);
    t.Require(t.Eventually([&] { return by_event ? e.Query() : a.Query(); }),
              "a query gets true when the work is done");
    t.Require(out.Holds(value),
              by_event ? "a true query of an event makes its writes visible"
                       : "a true query of a stream makes its writes visible");
  }
  a.Sync();
}

// ---- C40

using Body = void (*)(Test&, uint32_t);
template <Body kBody>
void Plain(Test& t) {
  kBody(t, 0);
}

void BlockingSyncChangesNothing(Test& t) {
  for (const Body body :
       {&NeverRecorded, &RecordCoversEarlierWork, &RecordCoversNoLaterWork,
        &RecordCoversPendingWaits, &WaitKeepsItsCapture,
        &WaitKeepsAPendingCapture, &WaitBeforeTheRecord, &WaitOrders,
        &SyncDoesNotWaitForLaterWork, &SyncWaitsForItsWork}) {
    body(t, DEVRT_EVENT_BLOCKING_SYNC);
  }
  if (t.machine().probe() == nullptr) return;  // as kTwoGates
  for (const Body body : {&OldRecordDoesNotComplete, &WaitDelaysNoEarlierWork,
                          &QueuedWaitKeepsItsCapture}) {
    body(t, DEVRT_EVENT_BLOCKING_SYNC);
  }
}

// Two streams are held at once.  Without a probe gates are host functions,
// which may run one by one (C44).
constexpr uint32_t kTwoGates = kNeedsGate | kNeedsProbe;

constexpr TestCase kTests[] = {
    {"event.never_recorded_is_complete", "C24",
     "An event that was never recorded is an empty set of work.",
     &Plain<&NeverRecorded>},
    {"event.record_covers_earlier_work", "C25",
     "A record captures the earlier work of its stream.",
     &Plain<&RecordCoversEarlierWork>, 0, kNeedsGate},
    {"event.record_covers_the_last_operation", "C25",
     "A record captures all earlier operations, the running one included.",
     &Plain<&RecordCoversTheLastOperation>, 0, kNeedsGate},
    {"event.record_covers_no_later_work", "C25",
     "Later work on the stream is not covered by a record.",
     &Plain<&RecordCoversNoLaterWork>, 0, kNeedsGate},
    {"event.pending_record_covers_no_later_work", "C25",
     "A record captures at the call, not when it is executed.",
     &Plain<&PendingRecordCoversNoLaterWork>, 0, kNeedsGate},
    {"event.record_covers_pending_waits", "C26",
     "A record captures a wait that was enqueued earlier, even if the stream "
     "has nothing else.",
     &Plain<&RecordCoversPendingWaits>, 0, kNeedsGate},
    {"event.record_covers_every_pending_wait", "C26",
     "A record captures all waits that were enqueued earlier.",
     &RecordCoversEveryPendingWait, 0, kNeedsGate},
    {"event.record_covers_pending_waits_across_devices", "C26 C32",
     "A record captures a wait that was enqueued earlier for an event of "
     "another device.",
     &RecordCoversPendingWaitsAcrossDevices, 0, kNeedsGate | kTwoDevices},
    {"event.wait_keeps_its_capture", "C27",
     "Recording an event again leaves waits that were issued as they are.",
     &Plain<&WaitKeepsItsCapture>, 0, kNeedsGate},
    {"event.queued_wait_keeps_its_capture", "C27 C28",
     "A wait uses the event's capture at the call, however late the stream "
     "reaches the wait.",
     &Plain<&QueuedWaitKeepsItsCapture>, 0, kTwoGates},
    {"event.wait_keeps_a_pending_capture", "C27",
     "Query and synchronise use the newest capture, waits already issued keep "
     "the older one.",
     &Plain<&WaitKeepsAPendingCapture>, 0, kNeedsGate},
    {"event.old_record_does_not_complete", "C27",
     "Events are versioned: the end of an older record says nothing of the "
     "newest.",
     &Plain<&OldRecordDoesNotComplete>, 0, kTwoGates},
    {"event.three_call_sequence", "C27 C26",
     "record(e, s1), wait(s2, e), record(e, s2) completes.",
     &Plain<&ThreeCallSequence>, 0, kNeedsGate},
    {"event.wait_before_the_record", "C28",
     "A wait uses the newest capture at the call; a later record does not "
     "order it.",
     &Plain<&WaitBeforeTheRecord>, 0, kNeedsGate},
    {"event.wait_orders_later_work", "C29",
     "Operations behind a wait come after the work that the event captured.",
     &Plain<&WaitOrders>, 0, kNeedsGate},
    {"event.wait_delays_no_earlier_work", "C29",
     "Operations submitted to the stream before the wait are not delayed.",
     &Plain<&WaitDelaysNoEarlierWork>, 0, kTwoGates},
    {"event.sync_does_not_wait_for_later_work", "C36",
     "Event synchronise does not wait for work submitted after the record.",
     &Plain<&SyncDoesNotWaitForLaterWork>, 0, kNeedsGate},
    {"event.sync_waits_for_its_work", "C36 C37",
     "Event synchronise returns when the captured work is complete.",
     &Plain<&SyncWaitsForItsWork>, DEVRT_CAP_PINNED_HOST},
    {"event.true_query_is_an_acquire", "C37",
     "Captured writes to pinned memory are visible to the host after a true "
     "query, for events and streams alike.",
     &TrueQueryIsAnAcquire, DEVRT_CAP_PINNED_HOST},
    {"event.blocking_sync_changes_nothing", "C40",
     "The blocking-sync flag changes only how the host waits.",
     &BlockingSyncChangesNothing, 0, kNeedsGate},
};

}  // namespace
}  // namespace event_tests

absl::Span<const TestCase> EventTests() { return event_tests::kTests; }

}  // namespace devrt::cts
