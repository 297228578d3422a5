// SPDX-License-Identifier: Apache-2.0
//
// Events: V1-V7 of simulator-rules.md, C24-C40 of semantics.md.
#include <set>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

using ::testing::HasSubstr;

class Events : public EngineTest {
 protected:
  static Result Elapsed(devrt_event a, devrt_event b, int64_t* ns) {
    return Take(ops().event_elapsed_ns(self(), a, b, ns));
  }
  static void EventSync(devrt_event e) { OK(ops().event_sync(self(), e)); }
};

// V1, C24, F31.
TEST_F(Events, NeverRecorded) {
  devrt_event e = NewEvent();
  devrt_stream s = NewStream();
  EXPECT_TRUE(EventDone(e));
  EventSync(e);
  Wait(s, e);
  EXPECT_TRUE(Done(s));
  void* native = this;
  OK(ops().event_native(self(), e, &native));
  EXPECT_EQ(native, nullptr);
}

// C25, C36: work behind the record is not covered.
TEST_F(Events, RecordCapturesAtTheCall) {
  for (const std::string config : {"", "strategy=alap", "mode=threaded"}) {
    Reset(config);
    devrt_stream s = NewStream();
    devrt_flag flag = NewFlag();
    int64_t* const x = NewCell();
    Put(s, x, 1);
    devrt_event e = Mark(s);
    Hold(s, flag);
    EventSync(e);
    EXPECT_EQ(Peek(x), 1);
    EXPECT_TRUE(EventDone(e));
    EXPECT_FALSE(Done(s));
    Set(flag);
    Sync(s);
  }
}

// C26: order passes through a stream without work, on another device too.
TEST_F(Events, RecordCoversPendingWaits) {
  for (const std::string strategy : kStrategies) {
    Reset("strategy=" + strategy);
    devrt_stream s1 = NewStream(0), s2 = NewStream(1), s3 = NewStream(0);
    devrt_flag flag = NewFlag();
    int64_t* const x = NewCell(0, 1);
    Hold(s1, flag);
    MulAdd(s1, x, 3, 0);
    Wait(s2, Mark(s1));
    devrt_event e2 = Mark(s2, 1);
    Wait(s3, e2);
    MulAdd(s3, x, 1, 1);
    EXPECT_FALSE(EventDone(e2));
    Set(flag);
    Sync(s3);
    EXPECT_EQ(Peek(x), 4);
  }
}

// C27, F29: the three calls that deadlock an engine with one flag per event.
TEST_F(Events, RerecordBehindAWaitCompletes) {
  for (const std::string config : {"", "strategy=alap", "strategy=lifo",
                                   "strategy=asap", "mode=threaded"}) {
    Reset(config);
    devrt_stream s1 = NewStream(), s2 = NewStream();
    devrt_event e = Mark(s1);
    Wait(s2, e);
    Record(e, s2);
    EventSync(e);
    Sync(s2);
  }
}

TEST_F(Events, TwoRecordsInFlightCompleteApart) {
  devrt_stream s1 = NewStream(), s2 = NewStream(), s3 = NewStream();
  devrt_flag first = NewFlag(), second = NewFlag();
  int64_t* const x = NewCell(0, 1);
  devrt_event e = NewEvent();
  Hold(s1, first);
  MulAdd(s1, x, 3, 0);
  Record(e, s1);
  Wait(s3, e);
  MulAdd(s3, x, 1, 1);
  Hold(s2, second);
  Record(e, s2);
  EXPECT_FALSE(EventDone(e));
  Set(first);
  Sync(s3);  // the older capture
  EXPECT_EQ(Peek(x), 4);
  EXPECT_FALSE(EventDone(e));
  Set(second);
  EventSync(e);
}

// C28, F32: a wait before the record does not order.
TEST_F(Events, WaitBeforeRecord) {
  devrt_stream s1 = NewStream(), s2 = NewStream();
  devrt_flag flag = NewFlag();
  devrt_event e = NewEvent();
  Wait(s2, e);
  Hold(s1, flag);
  Record(e, s1);
  int64_t* const x = NewCell();
  Put(s2, x, 1);
  Sync(s2);
  EXPECT_EQ(Peek(x), 1);
  Set(flag);
  Sync(s1);
}

// C29.
TEST_F(Events, WaitOrdersLaterWorkOnly) {
  devrt_stream s1 = NewStream(), s2 = NewStream();
  devrt_flag flag = NewFlag();
  Hold(s1, flag);
  int64_t* const x = NewCell();
  int64_t* const y = NewCell();
  Put(s2, x, 1);
  devrt_event before = Mark(s2);
  Wait(s2, Mark(s1));
  Put(s2, y, 1);
  EventSync(before);
  EXPECT_EQ(Peek(x), 1);
  EXPECT_EQ(Peek(y), 0);
  Set(flag);
  Sync(s2);
  EXPECT_EQ(Peek(y), 1);
}

// C31: the former capture stays.
TEST_F(Events, RecordAcrossDevices) {
  devrt_stream s0 = NewStream(0), s1 = NewStream(1);
  devrt_flag flag = NewFlag();
  Hold(s0, flag);
  devrt_event e = Mark(s0);
  const Result error = Take(ops().event_record(self(), e, s1));
  EXPECT_EQ(error.code, DEVRT_INVALID_ARGUMENT);
  EXPECT_THAT(error.text, HasSubstr("mtia:0"));
  EXPECT_THAT(error.text, HasSubstr("mtia:1"));
  EXPECT_FALSE(EventDone(e));
  Set(flag);
  EventSync(e);
}

// C18, C34, S6.
TEST_F(Events, DestroyedStreamsAndEventsKeepTheirMeaning) {
  for (const std::string strategy : kStrategies) {
    Reset("strategy=" + strategy);
    devrt_stream s1 = NewStream(), s2 = NewStream();
    devrt_flag flag = NewFlag();
    int64_t* const x = NewCell(0, 1);
    Hold(s1, flag);
    MulAdd(s1, x, 3, 0);
    devrt_event e = Mark(s1);
    OK(ops().stream_destroy(self(), s1));
    EXPECT_FALSE(EventDone(e));
    Wait(s2, e);
    OK(ops().event_destroy(self(), e));
    MulAdd(s2, x, 1, 1);
    // A new stream and event reuse what is free; the wait must not notice.
    devrt_stream s3 = NewStream();
    Mark(s3);
    Sync(s3);
    EXPECT_FALSE(Done(s2));
    Set(flag);
    Sync(s2);
    EXPECT_EQ(Peek(x), 4);
  }
}

// C35: literally, in this order.
TEST_F(Events, ElapsedErrors) {
  devrt_event plain = NewEvent(0, 0);
  devrt_event timed = NewEvent();
  devrt_event other = NewEvent(1);
  devrt_stream s = NewStream(), s1 = NewStream(1);
  devrt_flag flag = NewFlag();
  int64_t ns = 0;
  EXPECT_EQ(Elapsed(plain, timed, &ns).text,
            "Both events must be created with argument 'enable_timing=True'");
  Result error = Elapsed(timed, other, &ns);
  EXPECT_EQ(error.text,
            "Both events must be recorded before calculating elapsed time");
  EXPECT_EQ(error.code, DEVRT_INVALID_ARGUMENT);
  Hold(s, flag);
  Record(timed, s);
  Record(other, s1);
  error = Elapsed(timed, other, &ns);
  EXPECT_THAT(error.text, HasSubstr("mtia:0"));
  EXPECT_THAT(error.text, HasSubstr("mtia:1"));
  error = Elapsed(timed, timed, &ns);
  EXPECT_EQ(error.text,
            "Both events must be completed before calculating elapsed time");
  EXPECT_EQ(error.code, DEVRT_FAILED_PRECONDITION);
  Set(flag);
  Sync(s);
  EXPECT_EQ(Elapsed(timed, timed, &ns).code, DEVRT_OK);
  EXPECT_EQ(ns, 0);
}

TEST_F(Events, ElapsedMeasuresTheVirtualClock) {
  devrt_stream s = NewStream();
  devrt_event a = Mark(s);
  OK(probe().spin(self(), s, 5'000'000));
  devrt_event b = Mark(s);
  OK(probe().spin(self(), s, 1'000'000));
  devrt_event c = Mark(s);
  Sync(s);
  int64_t ab = 0, bc = 0, ac = 0, ca = 0;
  Elapsed(a, b, &ab);
  Elapsed(b, c, &bc);
  Elapsed(a, c, &ac);
  Elapsed(c, a, &ca);
  EXPECT_GE(ab, 5'000'000);
  EXPECT_LT(ab, 5'100'000);
  EXPECT_EQ(ab + bc, ac);
  EXPECT_EQ(ca, -ac);
}

TEST_F(Events, FlagsAndNativeHandles) {
  devrt_event e = nullptr;
  ExpectCode(
      ops().event_create(self(), 0, DEVRT_EVENT_IPC | DEVRT_EVENT_TIMING, &e),
      DEVRT_INVALID_ARGUMENT);
  ExpectCode(ops().event_create(self(), 0, DEVRT_EVENT_IPC, &e),
             DEVRT_UNIMPLEMENTED);
  devrt_stream s = NewStream();
  std::set<void*> natives;
  for (int i = 0; i < 50; ++i) {
    e = NewEvent(0, DEVRT_EVENT_BLOCKING_SYNC);
    Record(e, s);
    void* native = nullptr;
    OK(ops().event_native(self(), e, &native));
    EXPECT_NE(native, nullptr);
    natives.insert(native);
  }
  EXPECT_EQ(natives.size(), 50u);
}

// Q1-Q3: a polling loop ends under every strategy.
TEST_F(Events, PollingLoopsEnd) {
  for (const std::string strategy : kStrategies) {
    Reset("strategy=" + strategy);
    devrt_stream s = NewStream();
    for (int i = 0; i < 10; ++i) OK(probe().spin(self(), s, 1'000'000'000));
    devrt_event e = Mark(s);
    int polls = 0;
    while (!EventDone(e)) ++polls;
    EXPECT_LT(polls, 100);
  }
}

// A wait for a complete event leaves nothing behind.
TEST_F(Events, WaitsForCompleteEventsCostNothing) {
  devrt_stream s1 = NewStream(), s2 = NewStream();
  devrt_event e = Mark(s1);
  Sync(s1);
  for (int i = 0; i < 1000; ++i) Wait(s2, e);
  EXPECT_TRUE(Done(s2));
  EXPECT_EQ(Stats().pending_ops, 0u);
}

}  // namespace
}  // namespace devrt::test
