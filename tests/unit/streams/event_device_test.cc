// SPDX-License-Identifier: Apache-2.0
//
// Events and devices, elapsed time, interprocess events (C31-C33, C35, C38),
// with and without blocking sync (C40).

#include <optional>

#include "tests/support/event_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using CrossDeviceRecord = EventTest;
using CrossDeviceWait = EventTest;
using CrossDeviceQuery = EventTest;
using ElapsedTime = EventTest;
using EventFlags = MtiaTest;

// C31
TEST_F(CrossDeviceRecord, RecordAcrossDevicesIsRefusedAndKeepsTheCapture) {
  ForEachForm([&] {
    Flag gate = NewFlag(dev(0));
    Stream s0 = NewStream(dev(0)), s1 = NewStream(dev(1)),
           reader = NewStream(dev(0));
    Cell x(dev(0)), y(dev(0));
    Event e = New(dev(0));
    ASSERT_OK(gate.WaitOn(s0));
    ASSERT_OK(Put(s0, x, 1));
    ASSERT_OK(e.Record(s0));
    const uint64_t id = e.id();
    EXPECT_THAT(e.Record(s1),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("mtia:0"), HasSubstr("mtia:1"))));
    // As before it.
    EXPECT_EQ(e.id(), id);
    EXPECT_EQ(e.device(), dev(0));
    EXPECT_THAT(e.Query(), IsOkAndHolds(false));
    EXPECT_THAT(s1.Query(), IsOkAndHolds(true));
    ASSERT_OK(reader.Wait(e));
    ASSERT_OK(Add(reader, y, x));
    ASSERT_OK(gate.Set());
    ASSERT_OK(e.Synchronize());
    ASSERT_OK(reader.Synchronize());
    EXPECT_EQ(y.Peek(), 1);
  });
}

// C31
TEST_F(CrossDeviceRecord, RefusedFirstRecordLeavesTheEventUnrecorded) {
  Event e = New(dev(0));
  Stream s1 = NewStream(dev(1));
  const absl::Status status = e.Record(s1);
  EXPECT_EQ(MessageOf(status),
            "an event of mtia:0 cannot be recorded on a stream of mtia:1: "
            "create the event on the stream's device; its former capture "
            "stays");
  EXPECT_EQ(e.id(), 0u);
  EXPECT_THAT(e.Native(), IsOkAndHolds(nullptr));
  EXPECT_THAT(e.Query(), IsOkAndHolds(true));
  EXPECT_EQ(Must(sim().Stats()).created_events, 0u);
}

// C31
TEST_F(CrossDeviceRecord, DefaultStreamOfAnotherDevice) {
  Event e = New(dev(1));
  EXPECT_THAT(e.Record(DefaultStream(dev(0))),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("mtia:0"), HasSubstr("mtia:1"))));
}

// C32
TEST_F(CrossDeviceWait, WaitAcrossDevicesOrders) {
  ForEachForm([&] {
    Stream producer = NewStream(dev(0)), consumer = NewStream(dev(1));
    Cell x(dev(0)), y(dev(1));
    Event e = New(dev(0));
    ASSERT_OK(Spin(producer, kLong));
    ASSERT_OK(Put(producer, x, 1));
    ASSERT_OK(e.Record(producer));
    ASSERT_OK(consumer.Wait(e));
    ASSERT_OK(CopyAsync(consumer, y.ptr(), x.ptr(), 8));
    ASSERT_OK(consumer.Synchronize());
    EXPECT_EQ(y.Peek(), 1);
    ASSERT_OK(producer.Synchronize());
  });
}

// C32
TEST_F(CrossDeviceWait, AroundAllDevices) {
  ForEachForm([&] {
    std::vector<Stream> streams;
    std::vector<Event> events;
    OpLog log;
    for (int i = 0; i < kDevices; ++i) {
      streams.push_back(NewStream(dev(i)));
      events.push_back(New(dev(i)));
      if (i > 0) {
        ASSERT_OK(streams.back().Wait(events[i - 1u]));
      }
      ASSERT_OK(Spin(streams.back(), kShort * (kDevices - i)));
      ASSERT_OK(log.Mark(streams.back(), static_cast<char>('a' + i)));
      ASSERT_OK(events.back().Record(streams.back()));
    }
    ASSERT_OK(events.back().Synchronize());
    EXPECT_EQ(log.text(), "abcd");
  });
}

// C32
TEST_F(CrossDeviceWait, BothOrdersWithoutTheWait) {
  ExpectOutcomes({0, 1}, [] {
    Stream producer = NewStream(dev(0)), consumer = NewStream(dev(1));
    Cell x(dev(0)), y(dev(1));
    Must(Put(producer, x, 1));
    Must(CopyAsync(consumer, y.ptr(), x.ptr(), 8));
    Must(dev(0).Synchronize());
    Must(dev(1).Synchronize());
    return y.Peek();
  });
}

// C33
TEST_F(CrossDeviceQuery, QueryAndSynchroniseFromAnyCurrentDevice) {
  ForEachForm([&] {
    Stream s = NewStream(dev(1));
    Flag gate = NewFlag(dev(1));
    Event e = New(dev(1));
    ASSERT_OK(gate.WaitOn(s));
    ASSERT_OK(e.Record(s));
    InThreads(1, [&](int) {
      EXPECT_EQ(Must(CurrentDevice("mtia")), dev(0));
      EXPECT_THAT(e.Query(), IsOkAndHolds(false));
      DeviceGuard on_3(dev(3));
      EXPECT_THAT(e.Query(), IsOkAndHolds(false));
      Must(gate.Set());
      EXPECT_OK(e.Synchronize());
      EXPECT_THAT(e.Query(), IsOkAndHolds(true));
      EXPECT_EQ(Must(CurrentDevice("mtia")), dev(3));
    });
  });
}

// Each error has the others below it planted, so that the order shows.
// C35
TEST_F(ElapsedTime, ErrorsInTheirOrder) {
  ForEachVirtualForm([&] {
    Flag gate = NewFlag(dev(1));
    Stream s0 = NewStream(dev(0)), s1 = NewStream(dev(1));
    Event untimed = New(dev(1)), unrecorded = New(dev(0), Timing());
    Event here = New(dev(0), Timing()), there = New(dev(1), Timing());
    EXPECT_THAT(ElapsedMilliseconds(untimed, unrecorded),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("Both events must be created with argument "
                                   "'enable_timing=True'")));
    EXPECT_THAT(
        ElapsedMilliseconds(unrecorded, there),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 HasSubstr("Both events must be recorded before calculating "
                           "elapsed time")));
    ASSERT_OK(here.Record(s0));
    ASSERT_OK(gate.WaitOn(s1));
    ASSERT_OK(there.Record(s1));
    EXPECT_THAT(ElapsedMilliseconds(here, there),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr("mtia:0"), HasSubstr("mtia:1"))));
    EXPECT_THAT(
        ElapsedMilliseconds(there, there),
        StatusIs(absl::StatusCode::kFailedPrecondition,
                 HasSubstr("Both events must be completed before calculating "
                           "elapsed time")));
    ASSERT_OK(gate.Set());
    ASSERT_OK(there.Synchronize());
    EXPECT_THAT(ElapsedMilliseconds(there, there), IsOkAndHolds(0.0));
    ASSERT_OK(s0.Synchronize());
  });
}

// C35
TEST_F(ElapsedTime, ReversedIsNegativeAndPartsAddUp) {
  ForEachForm([&] {
    constexpr int kParts = 6;
    Stream s = NewStream();
    std::vector<Event> events;
    for (int i = 0; i <= kParts; ++i) {
      events.push_back(New(dev(), Timing()));
      ASSERT_OK(events.back().Record(s));
      ASSERT_OK(Spin(s, kShort * static_cast<uint64_t>(i + 1)));
    }
    ASSERT_OK(s.Synchronize());
    double sum = 0;
    for (size_t i = 0; i < kParts; ++i) {
      const double part = Must(ElapsedMilliseconds(events[i], events[i + 1]));
      EXPECT_GT(part, 0) << i;  // every operation takes more than 0
      EXPECT_DOUBLE_EQ(Must(ElapsedMilliseconds(events[i + 1], events[i])),
                       -part);
      sum += part;
    }
    const double whole = Must(ElapsedMilliseconds(events[0], events[kParts]));
    const double resolution =
        Must(dev().Properties()).elapsed_resolution_ns / 1e6;
    EXPECT_NEAR(sum, whole, kParts * resolution);
  });
}

// C35
TEST_F(ElapsedTime, MillisecondsOfTheVirtualClock) {
  ForEachVirtualForm([&] {
    Stream s = NewStream();
    Event a = New(dev(), Timing()), b = New(dev(), Timing());
    ASSERT_OK(a.Record(s));
    ASSERT_OK(Spin(s, 5'000'000));
    ASSERT_OK(b.Record(s));
    ASSERT_OK(b.Synchronize());
    const double elapsed = Must(ElapsedMilliseconds(a, b));
    EXPECT_GE(elapsed, 5.0);
    EXPECT_LT(elapsed, 5.1);
  });
}

// The capture that counts is the newest.
// C35
TEST_F(ElapsedTime, AfterARerecord) {
  ForEachVirtualForm([&] {
    Stream s = NewStream();
    Event a = New(dev(), Timing()), b = New(dev(), Timing());
    ASSERT_OK(b.Record(s));
    ASSERT_OK(a.Record(s));
    ASSERT_OK(Spin(s, 1'000'000));
    ASSERT_OK(b.Record(s));
    ASSERT_OK(b.Synchronize());
    EXPECT_GE(Must(ElapsedMilliseconds(a, b)), 1.0);
  });
}

// C38
TEST_F(EventFlags, FlagCombinations) {
  EventOptions both;
  both.timing = both.interprocess = true;
  EXPECT_THAT(
      Event::Create(dev(), both),
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("interprocess")));
  EventOptions ipc;
  ipc.interprocess = true;
  const absl::StatusOr<Event> e = Event::Create(dev(), ipc);
  if (dev().backend().Has(DEVRT_CAP_EVENT_IPC)) {
    EXPECT_OK(e);
  } else {
    EXPECT_THAT(e, StatusIs(absl::StatusCode::kUnimplemented,
                            AllOf(HasSubstr("mtia"), HasSubstr("EVENT_IPC"))));
  }
}

}  // namespace
}  // namespace devrt::testing
