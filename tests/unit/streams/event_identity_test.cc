// SPDX-License-Identifier: Apache-2.0
//
// Ids and handles of events, moved and destroyed events (C99, F11).

#include <optional>

#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using EventId = MtiaTest;
using Moved = MtiaTest;
using Destroyed = MtiaTest;

// C99
TEST_F(EventId, ZeroBeforeTheFirstRecord) {
  Event e = NewEvent();
  EXPECT_EQ(e.id(), 0u);
  EXPECT_THAT(e.Native(), IsOkAndHolds(nullptr));
  EXPECT_EQ(Must(sim().Stats()).created_events, 0u);
  Stream s = NewStream();
  Must(e.Record(s));
  EXPECT_NE(e.id(), 0u);
  EXPECT_NE(Must(e.Native()), nullptr);
}

// C99
TEST_F(EventId, StableAcrossRerecords) {
  InEverySchedule([] {
    Stream s1 = NewStream(), s2 = NewStream();
    Event e = NewEvent();
    ASSERT_OK(Spin(s1, kLong));
    ASSERT_OK(e.Record(s1));
    const uint64_t id = e.id();
    void* const native = Must(e.Native());
    for (int i = 0; i < 5; ++i) {
      ASSERT_OK(Spin(s2, kShort));
      ASSERT_OK(e.Record(i % 2 == 0 ? s2 : s1));  // the former is in flight
      EXPECT_EQ(e.id(), id);
      EXPECT_EQ(Must(e.Native()), native);
    }
    ASSERT_OK(dev().Synchronize());
  });
}

// C99
TEST_F(EventId, DistinctAmongLiveEvents) {
  Stream s0 = NewStream(dev(0)), s1 = NewStream(dev(1));
  std::vector<Event> events;
  std::set<uint64_t> ids;
  std::set<void*> natives;
  for (int i = 0; i < 1'000; ++i) {
    const int index = i % 2;
    EventOptions options;
    options.timing = i % 3 == 0;
    events.push_back(NewEvent(dev(index), options));
    Must(events.back().Record(index == 0 ? s0 : s1));
    ids.insert(events.back().id());
    natives.insert(Must(events.back().Native()));
  }
  EXPECT_EQ(ids.size(), 1'000u);
  EXPECT_EQ(natives.size(), 1'000u);
  EXPECT_EQ(ids.count(0), 0u);
}

// C99
TEST_F(EventId, UsedNativeEventShowsNothingInItsNextLife) {
  Stream s = NewStream();
  for (int i = 0; i < 10; ++i) {
    Event e = NewEvent();
    EXPECT_EQ(e.id(), 0u);
    EXPECT_THAT(e.Native(), IsOkAndHolds(nullptr));
    Must(e.Record(s));
    EXPECT_NE(e.id(), 0u);
  }
  EXPECT_EQ(Must(sim().Stats()).created_events, 1u);  // one at a time
}

// C99
TEST_F(EventId, EventsAreUnequalUnlessTheSame) {
  Event a = NewEvent(), b = NewEvent();
  EventRef ref = a;
  EXPECT_EQ(ref, a.ref());
  EXPECT_NE(a.ref(), b.ref());
}

// A failed creation of the native event leaves the event unrecorded.
// C99
TEST_F(EventId, FailedFirstRecordLeavesTheEventUnrecorded) {
  Stream s = NewStream();
  for (const char* slot : {"event_create", "event_record"}) {
    SCOPED_TRACE(slot);
    SimulatedFault fault;
    fault.kind = SimulatedFault::Kind::kApi;
    fault.native_code = 2;
    fault.where = slot;
    Must(sim().InjectFault(fault));
    Event e = NewEvent();
    EXPECT_THAT(e.Record(s), StatusIs(absl::StatusCode::kResourceExhausted,
                                      HasSubstr(slot)));
    EXPECT_EQ(e.id(), 0u);
    EXPECT_THAT(e.Query(), IsOkAndHolds(true));
    EXPECT_OK(e.Synchronize());
    EXPECT_OK(e.Record(s));
    EXPECT_NE(e.id(), 0u);
  }
}

// F11
TEST_F(Moved, MovedEventKeepsEveryAttribute) {
  EventOptions options;
  options.timing = options.blocking_sync = true;
  Stream s = NewStream(dev(1));
  Event a = NewEvent(dev(1), options);
  Must(a.Record(s));
  EventRef ref = a;
  const uint64_t id = a.id();
  void* const native = Must(a.Native());
  const auto check = [&](const Event& e) {
    EXPECT_EQ(e.ref(), ref);
    EXPECT_EQ(e.id(), id);
    EXPECT_EQ(Must(e.Native()), native);
    EXPECT_EQ(e.device(), dev(1));
    EXPECT_TRUE(e.options().timing);
    EXPECT_TRUE(e.options().blocking_sync);
    EXPECT_FALSE(e.options().interprocess);
  };
  Event b = std::move(a);
  check(b);
  Event c = NewEvent(dev(0));
  c = std::move(b);
  check(c);
  std::vector<Event> many;
  many.push_back(std::move(c));
  many.push_back(NewEvent());
  many.push_back(NewEvent());
  check(many.front());
  EXPECT_OK(many.front().Record(s));
  EXPECT_OK(many.front().Synchronize());
}

TEST_F(Moved, AMoveToItselfChangesNothing) {
  Stream stream = NewStream();
  Event event = NewEvent();
  Flag flag = NewFlag();
  const StreamRef before = stream;
  const EventRef event_before = event;
  Stream* const same_stream = &stream;  // hides the move from the compiler
  Event* const same_event = &event;
  Flag* const same_flag = &flag;
  stream = std::move(*same_stream);
  event = std::move(*same_event);
  flag = std::move(*same_flag);
  EXPECT_EQ(stream.ref(), before);
  EXPECT_EQ(event.ref(), event_before);
  EXPECT_OK(flag.WaitOn(stream));
  EXPECT_OK(event.Record(stream));
  EXPECT_OK(flag.Set());
  EXPECT_OK(event.Synchronize());
}

// Of a stream too: one that is borrowed stays so.
// F11
TEST_F(Moved, MovedExternalStreamIsNotDestroyed) {
  Stream owner = NewStream();
  {
    Stream a = Must(Stream::FromNative(dev(), Must(owner.Native())));
    Stream b = std::move(a);
    Stream c = NewStream();
    c = std::move(b);
    EXPECT_EQ(c.ref().kind(), StreamKind::kExternal);
  }
  EXPECT_OK(Spin(owner, 1));
  EXPECT_OK(owner.Synchronize());
}

TEST_F(Destroyed, CallsOnADestroyedEventAreRefused) {
  Stream s = NewStream();
  EventOptions timing;
  timing.timing = true;
  std::optional<Event> owner = NewEvent(dev(), timing);
  Event other = NewEvent(dev(), timing);
  Must(owner->Record(s));
  EventRef e = *owner;
  owner.reset();
  const auto refused =
      StatusIs(absl::StatusCode::kInvalidArgument,
               AllOf(HasSubstr("mtia:0"), HasSubstr("destroyed")));
  EXPECT_THAT(e.Record(s), refused);
  EXPECT_THAT(e.Query(), refused);
  EXPECT_THAT(e.Synchronize(), refused);
  EXPECT_THAT(e.Native(), refused);
  EXPECT_THAT(s.Wait(e), refused);
  EXPECT_THAT(ElapsedMilliseconds(e, other), refused);
  EXPECT_THAT(ElapsedMilliseconds(other, e), refused);
  // The calls do not reach the new owner of the native event.
  Event next = NewEvent(dev(), timing);
  Must(next.Record(s));
  EXPECT_THAT(e.Query(), refused);
  EXPECT_NE(e, next.ref());
}

TEST_F(Destroyed, CallsOnAMovedFromEventAreRefused) {
  Stream s = NewStream();
  Event a = NewEvent();
  Event b = std::move(a);
  const auto refused =
      StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("moved from"));
  EXPECT_THAT(a.Record(s), refused);
  EXPECT_THAT(a.Query(), refused);
  EXPECT_THAT(a.Synchronize(), refused);
  EXPECT_THAT(a.Native(), refused);
  EXPECT_THAT(s.Wait(a.ref()), refused);
  EXPECT_THAT(a.Export(), refused);
  EXPECT_THAT(ElapsedMilliseconds(a, b), refused);
  EXPECT_THAT(ElapsedMilliseconds(b, a), refused);
  EXPECT_EQ(a.device(), dev());
  EXPECT_EQ(a.id(), 0u);
  EXPECT_FALSE(a.options().timing);
  EXPECT_NE(a.ref(), b.ref());
  Event c = std::move(a);
  EXPECT_THAT(c.Query(), refused);
  c = NewEvent();
  EXPECT_OK(c.Record(s));
}

}  // namespace
}  // namespace devrt::testing
