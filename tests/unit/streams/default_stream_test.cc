// SPDX-License-Identifier: Apache-2.0
//
// The legacy rule: what a device's default stream orders, and what it does not
// (C8, C9, C10, C11, C13, C21).

#include <functional>
#include <thread>

#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using LegacyStream = MtiaTest;
using BlockingStreams = MtiaTest;
using LegacyStreamSync = MtiaTest;

// Something slow, then a letter.
void SlowMark(OpLog* log, StreamRef stream, char letter) {
  ASSERT_OK(Spin(stream, kLong));
  ASSERT_OK(log->Mark(stream, letter));
}

// C8
TEST_F(LegacyStream, LegacyIsBetweenEarlierAndLaterBlockingWork) {
  InEverySchedule([] {
    OpLog log;
    Stream s = NewBlocking();
    SlowMark(&log, s, 'a');
    SlowMark(&log, DefaultStream(dev()), 'b');
    ASSERT_OK(log.Mark(s, 'c'));
    ASSERT_OK(dev().Synchronize());
    EXPECT_EQ(log.text(), "abc");
  });
}

// C8
TEST_F(LegacyStream, LegacyOrdersTwoBlockingStreams) {
  InEverySchedule([] {
    OpLog log;
    Stream s1 = NewBlocking(), s2 = NewBlocking();
    SlowMark(&log, s1, 'a');
    SlowMark(&log, DefaultStream(dev()), 'b');
    ASSERT_OK(log.Mark(s2, 'c'));
    SlowMark(&log, DefaultStream(dev()), 'd');
    ASSERT_OK(log.Mark(s1, 'e'));
    ASSERT_OK(dev().Synchronize());
    EXPECT_EQ(log.text(), "abcde");
  });
}

// The legacy stream follows an event that a blocking stream waits for, even if
// the blocking stream has no operation yet.
// C8
TEST_F(LegacyStream, LegacyFollowsPendingWaitsOfBlockingStreams) {
  InEverySchedule([] {
    OpLog log;
    Stream s = NewBlocking(), free = NewStream();
    Event e = NewEvent();
    SlowMark(&log, free, 'a');
    ASSERT_OK(e.Record(free));
    ASSERT_OK(s.Wait(e));
    ASSERT_OK(log.Mark(DefaultStream(dev()), 'b'));
    ASSERT_OK(dev().Synchronize());
    EXPECT_EQ(log.text(), "ab");
  });
}

// Each kind of operation, as the only one in the legacy stream, orders the
// second blocking stream after the first.
// C9
TEST_F(LegacyStream, EveryKindOfOperationIsABarrier) {
  struct Kind {
    const char* name;
    std::function<absl::Status(StreamRef legacy, char* scratch, EventRef e)> go;
  };
  const Kind kinds[] = {
      {"record", [](StreamRef s, char*, EventRef e) { return e.Record(s); }},
      {"wait", [](StreamRef s, char*, EventRef e) { return s.Wait(e); }},
      {"fill",
       [](StreamRef s, char* p, EventRef) { return FillAsync(s, p, 0, 8); }},
      {"copy", [](StreamRef s, char* p,
                  EventRef) { return CopyAsync(s, p, p + 8, 8); }},
      {"kernel", [](StreamRef s, char*, EventRef) { return Spin(s, 1); }},
      {"host function",
       [](StreamRef s, char*, EventRef) {
         return LaunchHostFunc(s, [](absl::Status) {});
       }},
  };
  for (const Kind& kind : kinds) {
    SCOPED_TRACE(kind.name);
    InEverySchedule([&] {
      Stream s1 = NewBlocking(), s2 = NewBlocking(), other = NewStream();
      Cell x(dev()), y(dev());
      Event e = NewEvent();
      void* scratch = Must(Allocate(dev(), 16));
      ASSERT_OK(FillAsync(other, scratch, 1, 16));
      ASSERT_OK(e.Record(other));
      ASSERT_OK(Spin(s1, kLong));
      ASSERT_OK(Put(s1, x, 1));
      ASSERT_OK(kind.go(DefaultStream(dev()), static_cast<char*>(scratch), e));
      ASSERT_OK(Add(s2, y, x));
      ASSERT_OK(s2.Synchronize());
      EXPECT_EQ(y.Peek(), 1);
      ASSERT_OK(dev().Synchronize());
      ASSERT_OK(Free(dev(), scratch));
    });
  }
}

// C10
TEST_F(LegacyStream, LegacyWorkPassesABusyNonBlockingStream) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream free = NewStream();
    Cell x(dev());
    ASSERT_OK(gate.WaitOn(free));
    ASSERT_OK(Put(DefaultStream(dev()), x, 1));
    ASSERT_OK(DefaultStream(dev()).Synchronize());
    EXPECT_EQ(x.Peek(), 1);
    EXPECT_THAT(free.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(free.Synchronize());
  });
}

// C10
TEST_F(LegacyStream, NonBlockingWorkPassesABusyLegacyStream) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream free = NewStream();
    Cell x(dev());
    ASSERT_OK(gate.WaitOn(DefaultStream(dev())));
    ASSERT_OK(Put(free, x, 1));
    ASSERT_OK(free.Synchronize());
    EXPECT_EQ(x.Peek(), 1);
    EXPECT_THAT(DefaultStream(dev()).Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(DefaultStream(dev()).Synchronize());
  });
}

// C10
TEST_F(LegacyStream, BothOrdersOfLegacyAndNonBlocking) {
  ExpectOutcomes({1, 2}, [] {
    Stream free = NewStream();
    Cell x(dev());
    Must(Put(DefaultStream(dev()), x, 1));
    Must(Put(free, x, 2));
    Must(dev().Synchronize());
    return x.Peek();
  });
}

// C11
TEST_F(BlockingStreams, BothOrdersOfTwoBlockingStreams) {
  ExpectOutcomes({1, 2}, [] {
    Stream s1 = NewBlocking(), s2 = NewBlocking();
    Cell x(dev());
    Must(Put(s1, x, 1));
    Must(Put(s2, x, 2));
    Must(dev().Synchronize());
    return x.Peek();
  });
}

// C11
TEST_F(BlockingStreams, LegacyOperationOrdersBlockingStreams) {
  InEverySchedule([] {
    Stream s1 = NewBlocking(), s2 = NewBlocking();
    Cell x(dev());
    Event e = NewEvent();
    ASSERT_OK(Spin(s1, kLong));
    ASSERT_OK(Put(s1, x, 1));
    ASSERT_OK(e.Record(DefaultStream(dev())));
    ASSERT_OK(Put(s2, x, 2));
    ASSERT_OK(dev().Synchronize());
    EXPECT_EQ(x.Peek(), 2);
  });
}

// C13
TEST_F(LegacyStream, LegacyStreamsOfTwoDevicesAreIndependent) {
  InEverySchedule([] {
    Flag gate = NewFlag(dev(0));
    Cell x(dev(1));
    ASSERT_OK(gate.WaitOn(DefaultStream(dev(0))));
    ASSERT_OK(Put(DefaultStream(dev(1)), x, 1));
    ASSERT_OK(DefaultStream(dev(1)).Synchronize());
    EXPECT_EQ(x.Peek(), 1);
    EXPECT_THAT(DefaultStream(dev(0)).Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(DefaultStream(dev(0)).Synchronize());
  });
}

// C13
TEST_F(LegacyStream, BothOrdersOfTwoDevices) {
  ExpectOutcomes({'a', 'b'}, [] {
    OpLog log;
    Must(log.Mark(DefaultStream(dev(0)), 'a'));
    Must(log.Mark(DefaultStream(dev(1)), 'b'));
    Must(dev(0).Synchronize());
    Must(dev(1).Synchronize());
    return log.text()[0];
  });
}

// C21
TEST_F(LegacyStreamSync, SynchroniseCoversBlockingStreams) {
  InEverySchedule([] {
    Stream s = NewBlocking();
    Cell x(dev());
    ASSERT_OK(Spin(s, kLong));
    ASSERT_OK(Put(s, x, 1));
    ASSERT_OK(DefaultStream(dev()).Synchronize());
    EXPECT_EQ(x.Peek(), 1);
    EXPECT_THAT(s.Query(), IsOkAndHolds(true));
  });
}

// C21
TEST_F(LegacyStreamSync, CoversPerThreadStreamsOfAllThreads) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Cell x(dev());
    std::thread([&] {
      StreamRef own = Must(PerThreadDefaultStream(dev()));
      Must(gate.WaitOn(own));
      Must(Put(own, x, 1));
    }).join();
    EXPECT_THAT(DefaultStream(dev()).Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(DefaultStream(dev()).Synchronize());
    EXPECT_EQ(x.Peek(), 1);
    EXPECT_THAT(DefaultStream(dev()).Query(), IsOkAndHolds(true));
  });
}

// C21
TEST_F(LegacyStreamSync, QueryCoversBlockingStreams) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream s = NewBlocking();
    ASSERT_OK(gate.WaitOn(s));
    EXPECT_THAT(DefaultStream(dev()).Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(s.Synchronize());
    EXPECT_THAT(DefaultStream(dev()).Query(), IsOkAndHolds(true));
  });
}

// C21
TEST_F(LegacyStreamSync, DoesNotCoverNonBlockingStreams) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream free = NewStream();
    ASSERT_OK(gate.WaitOn(free));
    EXPECT_THAT(DefaultStream(dev()).Query(), IsOkAndHolds(true));
    ASSERT_OK(DefaultStream(dev()).Synchronize());  // returns
    EXPECT_THAT(free.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(free.Synchronize());
  });
}

}  // namespace
}  // namespace devrt::testing
