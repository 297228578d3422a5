// SPDX-License-Identifier: Apache-2.0
//
// The order of one stream, the absence of an order between two, and that the
// stream's device governs (C6, C7, C13, C15, C16).

#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::Eq;

using StreamOrder = MtiaTest;

// C6
TEST_F(StreamOrder, ThousandDependentIncrements) {
  InEverySchedule([] {
    Stream s = NewStream();
    Cell x(dev());
    for (int i = 0; i < 1'000; ++i) ASSERT_OK(Add(s, x, x, 1));
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(x.Peek(), 1'000);
  });
}

// C6
TEST_F(StreamOrder, EachOperationSeesTheFormer) {
  InEverySchedule([] {
    Stream s = NewStream();
    Cell a(dev()), b(dev()), c(dev());
    ASSERT_OK(Put(s, a, 5));
    ASSERT_OK(CopyAsync(s, b.ptr(), a.ptr(), 8));
    ASSERT_OK(FillAsync(s, a.ptr(), 0, 8));
    ASSERT_OK(Add(s, c, b, 2));
    ASSERT_OK(Add(s, c, c, 30));
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(a.Peek(), 0);
    EXPECT_EQ(b.Peek(), 5);
    EXPECT_EQ(c.Peek(), 37);
  });
}

// C6
TEST_F(StreamOrder, FullQueueBlocksOnlyItsCaller) {
  for (const char* mode : {"mode=virtual", "mode=threaded"}) {
    SCOPED_TRACE(mode);
    Reset(std::string(mode) + ",queue_depth=1000");
    Flag gate = NewFlag();
    Stream full = NewStream(), other = NewStream();
    Cell x(dev()), y(dev());
    Must(gate.WaitOn(full));
    for (int i = 0; i < 990; ++i) Must(Add(full, x, x, 1));
    InThreads(2, [&](int thread) {
      if (thread == 0) {
        // Beyond the depth: waits until the gate is open.
        for (int i = 0; i < 200; ++i) Must(Add(full, x, x, 1));
        return;
      }
      // Records, waits and other streams go on.
      Event e = NewEvent();
      Must(e.Record(full));
      Must(other.Wait(full));
      Stream free = NewStream();
      Must(Put(free, y, 7));
      Must(free.Synchronize());
      EXPECT_EQ(y.Peek(), 7);
      Must(gate.Set());
    });
    ASSERT_OK(full.Synchronize());
    EXPECT_EQ(x.Peek(), 1'190);
    ASSERT_OK(other.Synchronize());
  }
}

// C7
TEST_F(StreamOrder, BothOrdersOfTwoStreams) {
  ExpectOutcomes({1, 2}, [] {
    Stream s1 = NewStream(), s2 = NewStream();
    Cell x(dev());
    Must(Put(s1, x, 1));
    Must(Put(s2, x, 2));
    Must(s1.Synchronize());
    Must(s2.Synchronize());
    return x.Peek();
  });
}

// C7
TEST_F(StreamOrder, AllOrdersOfThreeStreams) {
  const auto number = [](const std::string& text) {
    return text[0] * 10'000 + text[1] * 100 + text[2];
  };
  std::set<int64_t> all;
  for (const char* order : {"abc", "acb", "bac", "bca", "cab", "cba"}) {
    all.insert(number(order));
  }
  ExpectOutcomes(all, [&]() -> int64_t {
    OpLog log;
    std::vector<Stream> streams;
    for (char letter : {'a', 'b', 'c'}) {
      streams.push_back(NewStream());
      Must(log.Mark(streams.back(), letter));
    }
    Must(dev().Synchronize());
    return number(log.text());
  });
}

// Two kernels that read, then write: on hardware both may read first.
// C7
TEST_F(StreamOrder, ReadsInterleave) {
  ExpectOutcomes({1, 2}, [] {
    Stream s1 = NewStream(), s2 = NewStream();
    Cell x(dev());
    Must(Add(s1, x, x, 1));
    Must(Add(s2, x, x, 1));
    Must(dev().Synchronize());
    return x.Peek();
  });
}

// C7
TEST_F(StreamOrder, NoHiddenOrderBehindABusyStream) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream busy = NewStream(), free = NewStream();
    Cell x(dev());
    ASSERT_OK(gate.WaitOn(busy));
    ASSERT_OK(Put(free, x, 1));
    ASSERT_OK(free.Synchronize());
    EXPECT_EQ(x.Peek(), 1);
    EXPECT_THAT(busy.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(busy.Synchronize());
  });
}

// C15
TEST_F(StreamOrder, LaunchRunsOnTheStreamsDevice) {
  InEverySchedule([] {
    Stream s = NewStream(dev(1));
    Cell x(dev(1));
    int index = -1;
    ASSERT_OK(Launch(
        s, {}, [&](const LaunchContext& k) { index = k.device().index(); }));
    ASSERT_OK(Put(s, x, 3));
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(index, 1);
    EXPECT_EQ(x.Peek(), 3);
    EXPECT_THAT(CurrentDevice("mtia"), IsOkAndHolds(Eq(dev(0))));
  });
}

// C16
TEST_F(StreamOrder, EveryOperationRunsOnTheStreamsDevice) {
  InEverySchedule([] {
    Stream s = NewStream(dev(1)), other = NewStream(dev(2));
    Cell x(dev(1)), y(dev(1));
    Event e = NewEvent(dev(1));
    std::atomic<int> calls{0};
    int64_t host = 0;
    ASSERT_OK(FillAsync(s, x.ptr(), 1, 8));
    ASSERT_OK(CopyAsync(s, y.ptr(), x.ptr(), 8));
    ASSERT_OK(e.Record(s));
    ASSERT_OK(other.Wait(e));
    ASSERT_OK(LaunchHostFunc(s, [&](absl::Status) { ++calls; }));
    ASSERT_OK(Copy(s, &host, y.ptr(), 8));
    ASSERT_OK(s.Synchronize());
    ASSERT_OK(other.Synchronize());
    EXPECT_THAT(s.Query(), IsOkAndHolds(true));
    EXPECT_EQ(host, 0x0101010101010101);
    EXPECT_EQ(calls, 1);
    EXPECT_THAT(CurrentDevice("mtia"), IsOkAndHolds(Eq(dev(0))));
  });
}

}  // namespace
}  // namespace devrt::testing
