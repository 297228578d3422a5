// SPDX-License-Identifier: Apache-2.0
//
// Timelines on the simulated device: what completes them, and what a stream is
// known to be ordered after (docs/reference/semantics.md 1.14, C8, C26, C27,
// C31, C100).

#include "streams/timelines/timeline.h"

#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "streams/objects/event_record.h"
#include "streams/objects/ordering.h"
#include "streams/objects/use_hooks.h"
#include "streams/timelines/native_handle.h"
#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using internal::OrderPoint;
using internal::Timeline;
using internal::TimelineOf;

// The work of `stream` up to here, which is to be remembered.
OrderPoint Here(StreamRef stream) {
  return {TimelineOf(stream), TimelineOf(stream)->Now()};
}

bool IsOver(const OrderPoint& p) { return p.timeline->IsComplete(p.epoch); }

bool IsAfter(StreamRef stream, const OrderPoint& p) {
  return TimelineOf(stream)->IsAfter(p);
}

class TimelineTest : public MtiaTest {
 protected:
  static void NoteNothing(StreamRef) {}
  // As memory/ does: from here on the ends of streams matter.
  void SetUp() override {
    MtiaTest::SetUp();
    internal::SetStreamEndHook(&NoteNothing);
  }
  void TearDown() override {
    internal::SetStreamEndHook(nullptr);
    MtiaTest::TearDown();
  }
};

TEST_F(TimelineTest, QueriesOfTheStreamCompleteItsWork) {
  InEverySchedule([] {
    for (const bool query : {true, false}) {
      Flag gate = NewFlag();
      Stream s = NewStream();
      ASSERT_OK(gate.WaitOn(s));
      const OrderPoint use = Here(s);
      EXPECT_THAT(s.Query(), IsOkAndHolds(false));
      EXPECT_FALSE(IsOver(use));
      EXPECT_TRUE(IsAfter(s, use)) << "its own stream";
      ASSERT_OK(gate.Set());
      EXPECT_FALSE(IsOver(use)) << "nobody has looked";
      if (query) {
        while (!Must(s.Query())) {
        }
      } else {
        ASSERT_OK(s.Synchronize());
      }
      EXPECT_TRUE(IsOver(use));
    }
  });
}

TEST_F(TimelineTest, EventsCompleteTheirCapturedWork) {
  InEverySchedule([] {
    for (const bool query : {true, false}) {
      Flag gate = NewFlag();
      Stream s = NewStream();
      Event e = NewEvent();
      ASSERT_OK(Spin(s, kShort));
      const OrderPoint before = Here(s);
      ASSERT_OK(e.Record(s));
      ASSERT_OK(gate.WaitOn(s));
      const OrderPoint behind = Here(s);
      if (query) {
        while (!Must(e.Query())) {
        }
      } else {
        ASSERT_OK(e.Synchronize());
      }
      EXPECT_TRUE(IsOver(before));
      EXPECT_FALSE(IsOver(behind)) << "submitted behind the record (C25)";
      ASSERT_OK(gate.Set());
      ASSERT_OK(s.Synchronize());
      EXPECT_TRUE(IsOver(behind));
    }
  });
}

// All streams of the device, ended ones too, and of no other.
TEST_F(TimelineTest, TheDeviceCompletesItsStreams) {
  InEverySchedule([] {
    std::vector<OrderPoint> uses;
    const auto use = [&](StreamRef s) {
      ASSERT_OK(Spin(s, kShort));
      uses.push_back(Here(s));
    };
    Stream s = NewStream(), blocking = NewBlocking(), other = NewStream(dev(1));
    use(s);
    use(blocking);
    use(DefaultStream(dev()));
    std::thread([&] { use(Must(PerThreadDefaultStream(dev()))); }).join();
    {
      Stream given_away = NewStream();
      Must(given_away.Native());
      use(given_away);
    }
    Stream adopted = Must(Stream::FromNative(dev(), Must(s.Native())));
    use(adopted);
    ASSERT_OK(Spin(other, kShort));
    const OrderPoint foreign = Here(other);
    ASSERT_OK(dev().Synchronize());
    for (const OrderPoint& p : uses) EXPECT_TRUE(IsOver(p));
    EXPECT_FALSE(IsOver(foreign));
    ASSERT_OK(other.Synchronize());
  });
}

// C26: order passes through streams that hold nothing but a wait, and over
// devices; what is submitted behind the record is not in it.
TEST_F(TimelineTest, WaitsHandOrderOn) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream s1 = NewStream(), s2 = NewStream(dev(1)), s3 = NewStream();
    ASSERT_OK(gate.WaitOn(s1));
    const OrderPoint use = Here(s1);
    Event e1 = NewEvent(), e2 = NewEvent(dev(1));
    ASSERT_OK(e1.Record(s1));
    ASSERT_OK(Spin(s1, kShort));
    const OrderPoint behind = Here(s1);
    EXPECT_FALSE(IsAfter(s2, use));
    ASSERT_OK(s2.Wait(e1));
    EXPECT_TRUE(IsAfter(s2, use));
    EXPECT_FALSE(IsAfter(s2, behind));
    ASSERT_OK(e2.Record(s2));
    EXPECT_FALSE(IsAfter(s3, use));
    ASSERT_OK(s3.Wait(e2));
    EXPECT_TRUE(IsAfter(s3, use));
    EXPECT_FALSE(IsAfter(s3, behind));
    EXPECT_FALSE(IsOver(use));
    ASSERT_OK(gate.Set());
    ASSERT_OK(e2.Synchronize());
    EXPECT_TRUE(IsOver(use)) << "what the event's stream had waited for";
    EXPECT_FALSE(IsOver(behind));
    for (StreamRef s : {s1.ref(), s2.ref(), s3.ref()}) {
      ASSERT_OK(s.Synchronize());
    }
  });
}

TEST_F(TimelineTest, WaitForAStreamIsOrder) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream s1 = NewStream(), s2 = NewStream();
    ASSERT_OK(gate.WaitOn(s1));
    const OrderPoint use = Here(s1);
    ASSERT_OK(s2.Wait(s1));
    EXPECT_TRUE(IsAfter(s2, use));
    EXPECT_FALSE(IsAfter(s1, Here(s2))) << "not the other way";
    ASSERT_OK(gate.Set());
    ASSERT_OK(s2.Synchronize());
    ASSERT_OK(s1.Synchronize());
  });
}

TEST_F(TimelineTest, WaitForAStreamIsOrderAfterItsWaitsToo) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream first = NewStream(), second = NewStream(), third = NewStream();
    ASSERT_OK(gate.WaitOn(first));
    const OrderPoint use = Here(first);
    ASSERT_OK(second.Wait(first));
    const OrderPoint before = Here(second);
    ASSERT_OK(third.Wait(second));
    EXPECT_TRUE(IsAfter(third, use)) << "second had waited for it";
    EXPECT_TRUE(IsAfter(third, before));
    EXPECT_FALSE(IsAfter(third, Here(first))) << "work that came later";
    EXPECT_THAT(third.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(third.Synchronize());
    EXPECT_THAT(first.Query(), IsOkAndHolds(true)) << "it is over by then";
  });
}

// Streams that wait for each other in turns know each other alone, until one of
// them waits for a third.
// C26
TEST_F(TimelineTest, WaitsInTurnsHandOnTheOrderOfAThird) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream first = NewStream(), second = NewStream(), third = NewStream();
    for (StreamRef s : {first.ref(), second.ref(), third.ref()}) {
      ASSERT_OK(gate.WaitOn(s));
    }
    for (int turn = 0; turn < 3; ++turn) {
      ASSERT_OK(second.Wait(first));
      ASSERT_OK(first.Wait(second));
    }
    const OrderPoint use = Here(third), behind = Here(second);
    ASSERT_OK(second.Wait(third));
    EXPECT_FALSE(IsAfter(first, use));
    ASSERT_OK(first.Wait(second));
    EXPECT_TRUE(IsAfter(first, use));
    EXPECT_TRUE(IsAfter(first, behind));
    ASSERT_OK(third.Wait(first));
    EXPECT_TRUE(IsAfter(third, behind));
    ASSERT_OK(gate.Set());
    ASSERT_OK(dev().Synchronize());
  });
}

// C24, C27, C28, C31: a wait has the newest capture at its call.
TEST_F(TimelineTest, WaitsKeepTheCaptureOfTheirCall) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream s1 = NewStream(), s2 = NewStream(), s3 = NewStream();
    Stream foreign = NewStream(dev(1));
    Event e = NewEvent();
    ASSERT_OK(gate.WaitOn(s1));
    const OrderPoint first = Here(s1);
    ASSERT_OK(s2.Wait(e));
    EXPECT_FALSE(IsAfter(s2, first)) << "never recorded (C24, C28)";
    ASSERT_OK(e.Record(s1));
    EXPECT_FALSE(e.Record(foreign).ok());
    ASSERT_OK(s2.Wait(e));
    EXPECT_TRUE(IsAfter(s2, first)) << "the former capture stays (C31)";
    ASSERT_OK(e.Record(s3));
    EXPECT_TRUE(IsAfter(s2, first)) << "a wait keeps its capture (C27)";
    Stream s4 = NewStream();
    ASSERT_OK(s4.Wait(e));
    EXPECT_FALSE(IsAfter(s4, first)) << "the newest one is of s3";
    while (!Must(e.Query())) {
    }
    EXPECT_FALSE(IsOver(first)) << "the newest one is of s3";
    ASSERT_OK(gate.Set());
    ASSERT_OK(s1.Synchronize());
    ASSERT_OK(s2.Synchronize());
  });
}

// An event in its next life knows nothing of the one before.
TEST_F(TimelineTest, EventsForgetAtTheirEnd) {
  Flag gate = NewFlag();
  Stream s1 = NewStream(), s2 = NewStream();
  ASSERT_OK(gate.WaitOn(s1));
  const OrderPoint use = Here(s1);
  const internal::EventRecord* former = nullptr;
  {
    Event e = NewEvent();
    ASSERT_OK(e.Record(s1));
    former = e.ref().record();
  }
  Event e = NewEvent();
  ASSERT_EQ(e.ref().record(), former);
  ASSERT_OK(s2.Wait(e));
  EXPECT_FALSE(IsAfter(s2, use));
  EXPECT_THAT(e.Query(), IsOkAndHolds(true));
  EXPECT_FALSE(IsOver(use));
  ASSERT_OK(gate.Set());
  ASSERT_OK(s1.Synchronize());
}

TEST_F(TimelineTest, RuleOfTheDefaultStream) {
  InEverySchedule([] {
    Flag gate = NewFlag(), gate1 = NewFlag(dev(1));
    Stream a = NewBlocking(), b = NewBlocking(), free = NewStream();
    Stream foreign = NewBlocking(dev(1));
    ASSERT_OK(gate.WaitOn(a));
    ASSERT_OK(gate1.WaitOn(foreign));
    const OrderPoint use = Here(a), far = Here(foreign);
    const StreamRef legacy = DefaultStream(dev());
    EXPECT_TRUE(IsAfter(legacy, use));
    EXPECT_TRUE(IsAfter(DefaultStream(dev(1)), far));
    EXPECT_FALSE(IsAfter(legacy, far)) << "another device";
    EXPECT_FALSE(IsAfter(b, use)) << "two blocking streams";
    EXPECT_FALSE(IsAfter(free, use));
    ASSERT_OK(gate.WaitOn(free));
    EXPECT_FALSE(IsAfter(legacy, Here(free))) << "a stream of no rule";
    ASSERT_OK(Spin(legacy, kShort));
    EXPECT_TRUE(IsAfter(b, Here(legacy)));
    EXPECT_FALSE(IsAfter(free, Here(legacy)));
    ASSERT_OK(gate.Set());
    ASSERT_OK(gate1.Set());
    ASSERT_OK(dev().Synchronize());
    ASSERT_OK(dev(1).Synchronize());
  });
}

// C100: one native stream, one timeline, whoever holds it.
TEST_F(TimelineTest, RecycledStreamsKeepTheirs) {
  Stream first = NewStream();
  Timeline* const timeline = TimelineOf(first);
  ASSERT_OK(Spin(first, kShort));
  const OrderPoint use = Here(first);
  const uint64_t id = first.id();
  ASSERT_OK(first.Synchronize());
  first = NewStream();
  Stream again = NewStream();
  EXPECT_NE(again.id(), id);
  EXPECT_EQ(TimelineOf(again), timeline);
  EXPECT_TRUE(IsAfter(again, use));
}

// A busy one is not handed out, and its points end with its work.
TEST_F(TimelineTest, EndedStreamsCompleteByTheirLastCheckpoint) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    std::optional<Stream> s = NewStream();
    Must(s->Native());  // so that its native stream is destroyed
    ASSERT_OK(gate.WaitOn(*s));
    const OrderPoint use = Here(*s);
    s.reset();
    const OrderPoint late{use.timeline, use.timeline->Now()};
    EXPECT_FALSE(use.timeline->Poll(true));
    EXPECT_FALSE(IsOver(use));
    Stream next = NewStream();
    EXPECT_NE(TimelineOf(next), use.timeline);
    ASSERT_OK(gate.Set());
    while (!use.timeline->Poll(true)) {
    }
    EXPECT_TRUE(IsOver(use));
    EXPECT_TRUE(IsOver(late)) << "noted after the end, of before it";
    // Spent, it serves again, and what was noted stays complete.
    bool served = false;
    std::vector<Stream> made;
    for (int i = 0; i < 8 && !served; ++i) {
      made.push_back(NewStream());
      served = TimelineOf(made.back()) == use.timeline;
    }
    EXPECT_TRUE(served);
    EXPECT_TRUE(IsOver(late));
    EXPECT_FALSE(IsOver(Here(made.back())));
  });
}

// A stream that is adopted without its owner may be gone: it is not touched at
// its end, and the device's synchronisation tells (F22).
TEST_F(TimelineTest, AdoptedStreamsEndByTheirOwner) {
  InEverySchedule([] {
    for (const bool owned : {true, false}) {
      Flag gate = NewFlag();
      auto native = std::make_shared<Stream>(NewStream());
      Stream adopted =
          Must(Stream::FromNative(dev(), Must(native->Native()),
                                  owned ? native : std::shared_ptr<Stream>()));
      ASSERT_OK(gate.WaitOn(adopted));
      const OrderPoint use = Here(adopted);
      adopted = NewStream();
      ASSERT_OK(gate.Set());
      if (owned) {
        while (!use.timeline->Poll(true)) {
        }
        EXPECT_TRUE(IsOver(use));
      } else {
        EXPECT_FALSE(use.timeline->Poll(true));
        EXPECT_FALSE(IsOver(use));
      }
      ASSERT_OK(dev().Synchronize());
      EXPECT_TRUE(IsOver(use));
    }
  });
}

// Orders hold the newest streams; the oldest is forgotten, never made up.
TEST_F(TimelineTest, OrdersForgetTheOldest) {
  Flag gate = NewFlag();
  Stream taker = NewStream();
  std::vector<Stream> streams;
  std::vector<OrderPoint> uses;
  for (size_t i = 0; i <= internal::Order::kKept; ++i) {
    streams.push_back(NewStream());
    ASSERT_OK(gate.WaitOn(streams.back()));
    uses.push_back(Here(streams.back()));
    ASSERT_OK(taker.Wait(streams.back()));
    EXPECT_TRUE(IsAfter(taker, uses.back()));
  }
  EXPECT_FALSE(IsAfter(taker, uses.front()));
  for (size_t i = 1; i < uses.size(); ++i) EXPECT_TRUE(IsAfter(taker, uses[i]));
  ASSERT_OK(gate.Set());
  ASSERT_OK(dev().Synchronize());
}

// Whatever threads do to one event (C39), what is said is true: a point is
// complete only when its work is over.
TEST_F(TimelineTest, ThreadsSharingAnEventCompleteOnlyFinishedWork) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Event e = NewEvent();
    std::vector<Stream> streams;
    for (int i = 0; i < 4; ++i) streams.push_back(NewStream());
    ASSERT_OK(gate.WaitOn(streams[0]));
    const OrderPoint stuck = Here(streams[0]);
    InThreads(4, [&](int i) {
      const Stream& s = streams[static_cast<size_t>(i)];
      for (int round = 0; round < 8; ++round) {
        Must(Spin(s, kShort));
        Must(e.Record(s));
        Must(e.Query());
        if (i == 3) Must(streams[3].Wait(e));
      }
    });
    EXPECT_FALSE(IsOver(stuck));
    ASSERT_OK(gate.Set());
    ASSERT_OK(dev().Synchronize());
    EXPECT_TRUE(IsOver(stuck));
  });
}

// The handle of a per-thread stream means another stream on another thread.
TEST_F(TimelineTest, APerThreadHandleIsForItsThreadAlone) {
  const internal::ExtensionOf<devrt_capture_v0> no_captures;
  internal::NativeHandle handle(dev().record(), &no_captures);
  int native = 0;
  handle.Attach(reinterpret_cast<devrt_stream>(&native), &internal::t_state,
                /*may_be_destroyed=*/false, /*exposed=*/false);
  EXPECT_TRUE(handle.IsValidOnThisThread());
  EXPECT_TRUE(handle.IsReachable());
  EXPECT_TRUE(handle.IsForPresentCallOnly());
  std::thread([&] {
    EXPECT_FALSE(handle.IsValidOnThisThread());
    EXPECT_FALSE(handle.IsReachable());
  }).join();
  handle.Forget();
  EXPECT_FALSE(handle.IsReachable());
}

// A host thread that has waited for a stream knows the end of all work that the
// stream had waited for, without a question to the other stream.
TEST_F(TimelineTest, HostWaitCompletesWorkThatTheStreamWaitedFor) {
  Stream a = NewStream(), b = NewStream();
  Event event = NewEvent();
  ASSERT_OK(Spin(a, kShort));
  const OrderPoint before = Here(a);
  ASSERT_OK(event.Record(a));
  ASSERT_OK(b.Wait(event));
  ASSERT_OK(Spin(b, kShort));
  const OrderPoint after = Here(b);
  EXPECT_FALSE(IsOver(before));
  EXPECT_OK(internal::WaitOnHost(after, CallSite()));
  EXPECT_TRUE(IsOver(after));
  EXPECT_TRUE(IsOver(before));
}

}  // namespace
}  // namespace devrt::testing
