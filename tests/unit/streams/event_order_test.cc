// SPDX-License-Identifier: Apache-2.0
//
// Captures of records, orders of waits, and versions of events (C24-C30, C34,
// C36).  Every test runs with and without the blocking-sync flag, which changes
// only how the host waits (C40).

#include <optional>
#include <thread>

#include "tests/support/event_fixture.h"

namespace devrt::testing {
namespace {

using EventRecord = EventTest;

// One stream waits for an event that was recorded behind a held write.
class IssuedWait : public EventTest {
 protected:
  // Expects that the stream still waits for the write after `then(&event)`.
  template <typename Then>
  void HoldsAfter(Then then) {
    Flag gate = NewFlag();
    Stream writer = NewStream(), waiter = NewStream();
    Cell x(dev()), y(dev());
    std::optional<Event> e = New();
    ASSERT_OK(gate.WaitOn(writer));
    ASSERT_OK(Put(writer, x, 1));
    ASSERT_OK(e->Record(writer));
    ASSERT_OK(waiter.Wait(*e));
    then(&e);
    ASSERT_OK(Add(waiter, y, x));
    EXPECT_THAT(waiter.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(waiter.Synchronize());
    EXPECT_EQ(y.Peek(), 1);
  }
};

using EventRerecord = IssuedWait;
using EventWait = IssuedWait;
using EventSynchronize = EventTest;
using BlockingSync = EventTest;

// C24
TEST_F(EventRecord, NeverRecordedIsComplete) {
  ForEachForm([&] {
    Stream s = NewStream();
    Event e = New();
    EXPECT_THAT(e.Query(), IsOkAndHolds(true));
    ASSERT_OK(e.Synchronize());
    ASSERT_OK(s.Wait(e));
    EXPECT_THAT(s.Query(), IsOkAndHolds(true));
    ASSERT_OK(Spin(s, 1));
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(e.id(), 0u);
  });
}

// A used event starts anew in its next life.
// C24
TEST_F(EventRecord, RecycledEventIsNeverRecorded) {
  ForEachForm([&] {
    Flag gate = NewFlag();
    Stream busy = NewStream(), s = NewStream();
    ASSERT_OK(gate.WaitOn(busy));
    {
      Event former = New();
      ASSERT_OK(former.Record(busy));
    }
    Event e = New();
    EXPECT_EQ(e.id(), 0u);
    EXPECT_THAT(e.Query(), IsOkAndHolds(true));
    ASSERT_OK(e.Synchronize());
    ASSERT_OK(s.Wait(e));
    ASSERT_OK(Spin(s, 1));
    ASSERT_OK(s.Synchronize());
    ASSERT_OK(gate.Set());
    ASSERT_OK(busy.Synchronize());
  });
}

// C25
TEST_F(EventRecord, LaterWorkIsNotCovered) {
  ForEachForm([&] {
    Flag gate = NewFlag();
    Stream s = NewStream();
    Cell x(dev());
    Event e = New();
    ASSERT_OK(Put(s, x, 1));
    ASSERT_OK(e.Record(s));
    ASSERT_OK(gate.WaitOn(s));
    ASSERT_OK(e.Synchronize());  // returns before the gate opens
    EXPECT_EQ(x.Peek(), 1);
    EXPECT_THAT(e.Query(), IsOkAndHolds(true));
    EXPECT_THAT(s.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(s.Synchronize());
  });
}

// C26
TEST_F(EventRecord, RecordCoversPendingWaits) {
  ForEachForm([&] {
    Flag gate = NewFlag();
    Stream s1 = NewStream(), s2 = NewStream(), s3 = NewStream();
    Cell x(dev()), y(dev());
    Event e1 = New(), e2 = New();
    ASSERT_OK(gate.WaitOn(s1));
    ASSERT_OK(Put(s1, x, 1));
    ASSERT_OK(e1.Record(s1));
    ASSERT_OK(s2.Wait(e1));
    ASSERT_OK(e2.Record(s2));  // s2 holds nothing else
    ASSERT_OK(s3.Wait(e2));
    ASSERT_OK(Add(s3, y, x));
    EXPECT_THAT(e2.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(s3.Synchronize());
    EXPECT_EQ(y.Peek(), 1);
  });
}

// C26
TEST_F(EventRecord, ThroughAnotherDevice) {
  ForEachForm([&] {
    Stream s1 = NewStream(dev(0)), s2 = NewStream(dev(1)),
           s3 = NewStream(dev(0));
    Cell x(dev(0)), y(dev(0));
    Event e1 = New(dev(0)), e2 = New(dev(1));
    ASSERT_OK(Spin(s1, kLong));
    ASSERT_OK(Put(s1, x, 1));
    ASSERT_OK(e1.Record(s1));
    ASSERT_OK(s2.Wait(e1));
    ASSERT_OK(e2.Record(s2));
    ASSERT_OK(s3.Wait(e2));
    ASSERT_OK(Add(s3, y, x));
    ASSERT_OK(s3.Synchronize());
    EXPECT_EQ(y.Peek(), 1);
  });
}

// C27
TEST_F(EventRerecord, ThreeCallSequenceCompletes) {
  ForEachForm([&] {
    Stream s1 = NewStream(), s2 = NewStream();
    Event e = New();
    ASSERT_OK(Spin(s1, kShort));
    ASSERT_OK(e.Record(s1));
    ASSERT_OK(s2.Wait(e));
    ASSERT_OK(e.Record(s2));  // of its own wait: no deadlock
    ASSERT_OK(e.Synchronize());
    ASSERT_OK(s2.Synchronize());
  });
}

// C27
TEST_F(EventRerecord, LeavesIssuedWaits) {
  ForEachForm([&] {
    Flag gate = NewFlag();
    Stream s1 = NewStream(), s2 = NewStream(), idle = NewStream();
    Cell x(dev()), y(dev());
    Event e = New();
    ASSERT_OK(gate.WaitOn(s1));
    ASSERT_OK(Put(s1, x, 1));
    ASSERT_OK(e.Record(s1));
    ASSERT_OK(s2.Wait(e));
    ASSERT_OK(Add(s2, y, x));
    ASSERT_OK(e.Record(idle));
    // Query and synchronise use the newest capture ...
    ASSERT_OK(e.Synchronize());
    EXPECT_THAT(e.Query(), IsOkAndHolds(true));
    // ... the wait keeps the older.
    EXPECT_THAT(s2.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(s2.Synchronize());
    EXPECT_EQ(y.Peek(), 1);
  });
}

// The wait has no operation behind it yet when the event is recorded anew.
// C27
TEST_F(EventRerecord, LeavesBareWaits) {
  ForEachForm([&] {
    HoldsAfter([&](std::optional<Event>* e) {
      Stream idle = NewStream();
      ASSERT_OK((*e)->Record(idle));
      ASSERT_OK((*e)->Synchronize());
    });
  });
}

// C27
TEST_F(EventRerecord, TwoRecordsInFlight) {
  ForEachForm([&] {
    Flag first = NewFlag(), second = NewFlag();
    Stream s1 = NewStream(), s2 = NewStream(), w1 = NewStream(),
           w2 = NewStream();
    Event e = New();
    ASSERT_OK(first.WaitOn(s1));
    ASSERT_OK(e.Record(s1));
    ASSERT_OK(w1.Wait(e));
    ASSERT_OK(second.WaitOn(s2));
    ASSERT_OK(e.Record(s2));
    ASSERT_OK(w2.Wait(e));
    ASSERT_OK(first.Set());
    ASSERT_OK(w1.Synchronize());
    EXPECT_THAT(e.Query(), IsOkAndHolds(false));
    EXPECT_THAT(w2.Query(), IsOkAndHolds(false));
    ASSERT_OK(second.Set());
    ASSERT_OK(w2.Synchronize());
    EXPECT_THAT(e.Query(), IsOkAndHolds(true));
  });
}

// C28
TEST_F(EventWait, WaitBeforeRecordDoesNotOrder) {
  ForEachForm([&] {
    Flag gate = NewFlag();
    Stream s1 = NewStream(), s2 = NewStream();
    Event e = New();
    ASSERT_OK(s2.Wait(e));
    ASSERT_OK(gate.WaitOn(s1));
    ASSERT_OK(e.Record(s1));
    ASSERT_OK(Spin(s2, 1));
    ASSERT_OK(s2.Synchronize());  // free, though the gate is closed
    ASSERT_OK(gate.Set());
    ASSERT_OK(s1.Synchronize());
  });
}

// C28
TEST_F(EventWait, WaitUsesTheNewestCaptureAtTheCall) {
  ForEachForm([&] {
    Flag older = NewFlag(), newer = NewFlag();
    Stream s1 = NewStream(), s2 = NewStream(), s3 = NewStream();
    Event e = New();
    ASSERT_OK(older.WaitOn(s1));
    ASSERT_OK(e.Record(s1));
    ASSERT_OK(newer.WaitOn(s2));
    ASSERT_OK(e.Record(s2));
    ASSERT_OK(s3.Wait(e));
    ASSERT_OK(Spin(s3, 1));
    ASSERT_OK(newer.Set());
    ASSERT_OK(s3.Synchronize());  // not behind the older gate
    EXPECT_THAT(s1.Query(), IsOkAndHolds(false));
    ASSERT_OK(older.Set());
    ASSERT_OK(s1.Synchronize());
  });
}

// C28
TEST_F(EventWait, BothOrdersWithoutAWait) {
  ExpectOutcomes({1, 2}, [&] {
    Stream s1 = NewStream(), s2 = NewStream();
    Cell x(dev());
    Event e = New();
    Must(s2.Wait(e));  // too early
    Must(Put(s1, x, 1));
    Must(e.Record(s1));
    Must(Put(s2, x, 2));
    Must(dev().Synchronize());
    return x.Peek();
  });
}

// C29
TEST_F(EventWait, EarlierWorkIsNotDelayed) {
  ForEachForm([&] {
    Flag gate = NewFlag();
    Stream s1 = NewStream(), s2 = NewStream();
    Cell a(dev()), b(dev());
    Event e = New(), after_a = New();
    ASSERT_OK(gate.WaitOn(s1));
    ASSERT_OK(e.Record(s1));
    ASSERT_OK(Put(s2, a, 1));
    ASSERT_OK(after_a.Record(s2));
    ASSERT_OK(s2.Wait(e));
    ASSERT_OK(Put(s2, b, 1));
    ASSERT_OK(after_a.Synchronize());
    EXPECT_EQ(a.Peek(), 1);
    EXPECT_EQ(b.Peek(), 0);
    ASSERT_OK(gate.Set());
    ASSERT_OK(s2.Synchronize());
    EXPECT_EQ(b.Peek(), 1);
  });
}

// C30
TEST_F(EventRecord, LegacyRecordCapturesBlockingStreams) {
  ForEachForm([&] {
    Flag gate = NewFlag();
    Stream blocking = NewBlocking(), reader = NewStream();
    Cell x(dev()), y(dev());
    Event e = New();
    ASSERT_OK(gate.WaitOn(blocking));
    ASSERT_OK(Put(blocking, x, 1));
    ASSERT_OK(e.Record(DefaultStream(dev())));  // which has no work
    ASSERT_OK(reader.Wait(e));
    ASSERT_OK(Add(reader, y, x));
    EXPECT_THAT(e.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(reader.Synchronize());
    EXPECT_EQ(y.Peek(), 1);
  });
}

// C30
TEST_F(EventRecord, LegacyRecordCapturesPerThreadStreams) {
  ForEachForm([&] {
    Flag gate = NewFlag();
    Event e = New();
    std::thread([&] {
      Must(gate.WaitOn(Must(PerThreadDefaultStream(dev()))));
    }).join();
    ASSERT_OK(e.Record(DefaultStream(dev())));
    EXPECT_THAT(e.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(e.Synchronize());
  });
}

// C30
TEST_F(EventRecord, LegacyRecordLeavesNonBlockingStreamsOut) {
  ForEachForm([&] {
    Flag gate = NewFlag();
    Stream free = NewStream();
    Event e = New();
    ASSERT_OK(gate.WaitOn(free));
    ASSERT_OK(e.Record(DefaultStream(dev())));
    ASSERT_OK(e.Synchronize());
    EXPECT_THAT(free.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(free.Synchronize());
  });
}

// C34
TEST_F(EventWait, IssuedWaitsHoldAfterTheEventIsDestroyed) {
  ForEachForm([&] {
    HoldsAfter([&](std::optional<Event>* e) {
      Stream idle = NewStream();
      e->reset();          // returns at once
      Event next = New();  // may be the same native event
      ASSERT_OK(next.Record(idle));
      ASSERT_OK(next.Synchronize());
    });
  });
}

// C36
TEST_F(EventSynchronize, SynchroniseDoesNotWaitForLaterWork) {
  ForEachForm([&] {
    Flag gate = NewFlag();
    Stream s = NewStream();
    Event e = New();
    ASSERT_OK(Spin(s, kShort));
    ASSERT_OK(e.Record(s));
    ASSERT_OK(gate.WaitOn(s));
    ASSERT_OK(e.Synchronize());
    EXPECT_THAT(s.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(s.Synchronize());
  });
}

// C40
TEST_F(BlockingSync, FlagIsKeptAndChangesNothingElse) {
  EventOptions options;
  options.blocking_sync = true;
  options.timing = true;
  InEverySchedule([&] {
    Stream s = NewStream();
    Event a = NewEvent(dev(), options), b = NewEvent(dev(), options);
    EXPECT_TRUE(a.options().blocking_sync);
    EXPECT_TRUE(a.options().timing);
    ASSERT_OK(a.Record(s));
    ASSERT_OK(Spin(s, kShort));
    ASSERT_OK(b.Record(s));
    ASSERT_OK(b.Synchronize());
    EXPECT_GT(Must(ElapsedMilliseconds(a, b)), 0);
  });
}

}  // namespace
}  // namespace devrt::testing
