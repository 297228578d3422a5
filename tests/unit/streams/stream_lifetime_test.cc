// SPDX-License-Identifier: Apache-2.0
//
// Destroying busy streams, events that outlive their stream, and which native
// streams are used again (C17, C18, F13, F20).

#include <memory>
#include <optional>
#include <thread>
#include <unordered_map>

#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;

using StreamLifetime = MtiaTest;
using Recycler = MtiaTest;

// C17
TEST_F(StreamLifetime, DestroyedStreamCompletesItsWork) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Cell x(dev());
    Event e = NewEvent();
    {
      Stream s = NewStream();
      ASSERT_OK(gate.WaitOn(s));
      ASSERT_OK(Put(s, x, 1));
      ASSERT_OK(e.Record(s));
      ASSERT_OK(Put(s, x, 2));
    }  // returns, though the gate is closed
    EXPECT_THAT(e.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(e.Synchronize());
    ASSERT_OK(dev().Synchronize());  // covers destroyed streams
    EXPECT_EQ(x.Peek(), 2);
  });
}

// C17
TEST_F(StreamLifetime, CallsOnADestroyedStreamAreRefused) {
  std::optional<Stream> owner = NewStream();
  StreamRef s = *owner;
  const std::string name = "stream " + std::to_string(s.id()) + " of mtia:0";
  owner.reset();
  Event e = NewEvent();
  Stream other = NewStream();
  ASSERT_OK(e.Record(other));
  int64_t host = 0;
  const auto refused =
      StatusIs(absl::StatusCode::kInvalidArgument,
               ::testing::AllOf(HasSubstr(name), HasSubstr("destroyed")));
  EXPECT_THAT(s.Query(), refused);
  EXPECT_THAT(s.Synchronize(), refused);
  EXPECT_THAT(s.Wait(e), refused);
  EXPECT_THAT(s.Wait(other.ref()), refused);
  EXPECT_THAT(other.Wait(s), refused);
  EXPECT_THAT(s.Native(), refused);
  EXPECT_THAT(e.Record(s), refused);
  EXPECT_THAT(Spin(s, 1), refused);
  EXPECT_THAT(Copy(s, &host, &host, 8), refused);
  EXPECT_THAT(FillAsync(s, &host, 0, 8), refused);
  EXPECT_THAT(LaunchHostFunc(s, [](absl::Status) {}), refused);
  EXPECT_THAT(Launch(s, {}, [](const LaunchContext&) {}), refused);
  EXPECT_THAT(SetCurrentStream(s), refused);
  EXPECT_OK(e.Synchronize());  // of its former capture
}

// The native stream is handed out again; what named its former life is dead.
// C17
TEST_F(StreamLifetime, OldReferenceDoesNotReachTheNextOwner) {
  std::optional<Stream> owner = NewStream();
  StreamRef old = *owner;
  owner.reset();
  Stream next = NewStream();
  EXPECT_NE(old, next.ref());
  EXPECT_THAT(Spin(old, 1), StatusIs(absl::StatusCode::kInvalidArgument,
                                     HasSubstr("destroyed")));
  EXPECT_THAT(next.Query(), IsOkAndHolds(true));
}

// C18
TEST_F(StreamLifetime, EventsOutliveTheirStream) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Cell x(dev()), y(dev());
    Event e = NewEvent();
    {
      Stream s = NewStream();
      ASSERT_OK(gate.WaitOn(s));
      ASSERT_OK(Put(s, x, 1));
      ASSERT_OK(e.Record(s));
    }
    Stream reader = NewStream();
    ASSERT_OK(reader.Wait(e));
    ASSERT_OK(Add(reader, y, x));
    EXPECT_THAT(e.Query(), IsOkAndHolds(false));
    EXPECT_THAT(reader.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(e.Synchronize());
    EXPECT_THAT(e.Query(), IsOkAndHolds(true));
    ASSERT_OK(reader.Synchronize());
    EXPECT_EQ(y.Peek(), 1);
  });
}

// C18
TEST_F(StreamLifetime, AlsoBehindABareWait) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Cell x(dev()), y(dev());
    Stream writer = NewStream();
    Event first = NewEvent(), second = NewEvent();
    ASSERT_OK(gate.WaitOn(writer));
    ASSERT_OK(Put(writer, x, 1));
    ASSERT_OK(first.Record(writer));
    {
      Stream empty = NewStream();
      ASSERT_OK(empty.Wait(first));
      ASSERT_OK(second.Record(empty));
    }
    Stream reader = NewStream();
    ASSERT_OK(reader.Wait(second));
    ASSERT_OK(Add(reader, y, x));
    EXPECT_THAT(second.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(reader.Synchronize());
    EXPECT_EQ(y.Peek(), 1);
  });
}

// The next owner's work does not become part of the event.
// C18
TEST_F(StreamLifetime, CaptureIsNotExtendedByTheNextOwner) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Event e = NewEvent();
    std::optional<Stream> first = NewStream();
    ASSERT_OK(Spin(*first, kShort));
    ASSERT_OK(e.Record(*first));
    ASSERT_OK(first->Synchronize());
    first.reset();
    Stream next = NewStream();
    ASSERT_OK(gate.WaitOn(next));
    EXPECT_THAT(e.Query(), IsOkAndHolds(true));
    ASSERT_OK(e.Synchronize());
    ASSERT_OK(gate.Set());
    ASSERT_OK(next.Synchronize());
  });
}

// A busy stream is not handed out: its work would delay the new owner.
TEST_F(Recycler, BusyStreamsAreNotHandedOut) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    std::optional<Stream> busy = NewStream();
    ASSERT_OK(gate.WaitOn(*busy));
    busy.reset();
    std::vector<Stream> fresh;
    for (int i = 0; i < 20; ++i) {
      fresh.push_back(NewStream());
      ASSERT_OK(Spin(fresh.back(), 1));
      ASSERT_OK(fresh.back().Synchronize());  // not behind the gate
    }
    ASSERT_OK(gate.Set());
    ASSERT_OK(dev().Synchronize());
  });
}

// A stream that waits for an event and holds no operation is not reused.
TEST_F(Recycler, StreamsWithAPendingWaitAreNotHandedOut) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream writer = NewStream();
    Event e = NewEvent();
    ASSERT_OK(gate.WaitOn(writer));
    ASSERT_OK(e.Record(writer));
    std::optional<Stream> waiting = NewStream();
    ASSERT_OK(waiting->Wait(e));
    waiting.reset();
    Stream fresh = NewStream();
    ASSERT_OK(Spin(fresh, 1));
    ASSERT_OK(fresh.Synchronize());
    ASSERT_OK(gate.Set());
    ASSERT_OK(dev().Synchronize());
  });
}

TEST_F(Recycler, BusyStreamsComeBackWhenIdle) {
  InEverySchedule([] {
    for (int i = 0; i < 50; ++i) {
      Stream s = NewStream();
      ASSERT_OK(Spin(s, kShort));
      ASSERT_OK(s.Synchronize());
    }
    EXPECT_LE(Must(sim().Stats()).created_streams, 2u);
    for (int i = 0; i < 50; ++i) {
      {
        Stream s = NewStream();
        ASSERT_OK(Spin(s, kShort));
      }
      ASSERT_OK(dev().Synchronize());
    }
    EXPECT_LE(Must(sim().Stats()).created_streams, 4u);
  });
}

// Streams that were used count like others: no more than 256 idle native
// streams of a sort are kept.
TEST_F(Recycler, UsedStreamsAreNotKeptWithoutBound) {
  for (const bool idle_first : {true, false}) {
    for (const char* mode : {"mode=virtual", "mode=threaded"}) {
      SCOPED_TRACE(mode);
      Reset(mode);
      Flag gate = NewFlag();
      Event open = NewEvent();
      Stream holder = NewStream();
      ASSERT_OK(gate.WaitOn(holder));
      ASSERT_OK(open.Record(holder));
      std::vector<Stream> streams;
      for (int i = 0; i < 1'000; ++i) {
        streams.push_back(NewStream());
        ASSERT_OK(streams.back().Wait(open));
        ASSERT_OK(Spin(streams.back(), 1));
      }
      if (idle_first) {
        ASSERT_OK(gate.Set());
        ASSERT_OK(dev().Synchronize());
      }
      streams.clear();
      if (!idle_first) {
        EXPECT_GE(Must(sim().Stats()).live_streams, 1'000u);  // all busy
        ASSERT_OK(gate.Set());
      }
      ASSERT_OK(dev().Synchronize());
      EXPECT_LE(Must(sim().Stats()).live_streams, 256u + 1);
      for (int i = 0; i < 100; ++i) NewStream();
      EXPECT_LE(Must(sim().Stats()).live_streams, 256u + 1);
    }
  }
}

// Also in a program that never waits for the whole device.
TEST_F(Recycler, UsedStreamsGoAsOthersComeBack) {
  std::vector<Stream> streams;
  for (int i = 0; i < 1'000; ++i) {
    streams.push_back(NewStream());
    ASSERT_OK(Spin(streams.back(), 1));
    ASSERT_OK(NewStream().Synchronize());
  }
  Stream last = NewStream();
  for (Stream& s : streams) {
    ASSERT_OK(last.Wait(s.ref()));
  }
  ASSERT_OK(last.Synchronize());
  streams.clear();
  EXPECT_LE(Must(sim().Stats()).live_streams, 256u + 8);
}

// Priorities and the blocking flag are not mixed up.
TEST_F(Recycler, ReusesStreamsOfEqualOptionsOnly) {
  StreamOptions urgent;
  urgent.priority = -5;
  Must(Stream::Create(dev(), urgent));
  Must(Stream::Create(dev()));
  NewBlocking();
  EXPECT_EQ(NewStream(dev(), urgent).priority(), -5);
  EXPECT_EQ(NewStream().priority(), 0);
  InEverySchedule([] {
    { Stream s = NewStream(); }
    Stream blocking = NewBlocking();
    Flag gate = NewFlag();
    Cell x(dev());
    ASSERT_OK(gate.WaitOn(DefaultStream(dev())));
    ASSERT_OK(Put(blocking, x, 1));
    EXPECT_THAT(blocking.Query(), IsOkAndHolds(false));
    ASSERT_OK(gate.Set());
    ASSERT_OK(blocking.Synchronize());
  });
}

// F13
TEST_F(StreamLifetime, EachRequestMakesASingleNativeStream) {
  Reset("");
  EXPECT_EQ(Must(sim().Stats()).created_streams, 0u);
  Stream one = NewStream();
  EXPECT_EQ(Must(sim().Stats()).created_streams, 1u);
  Stream two = NewStream();
  EXPECT_EQ(Must(sim().Stats()).created_streams, 2u);
  EXPECT_EQ(Must(sim().Stats()).created_events, 0u);
  Event e = NewEvent();
  EXPECT_EQ(Must(sim().Stats()).created_events, 0u);  // at the first record
  Must(e.Record(one));
  EXPECT_EQ(Must(sim().Stats()).created_events, 1u);
}

// F13
TEST_F(StreamLifetime, LookingAtStreamsCreatesNone) {
  Reset("");
  DefaultStream(dev(1)).id();
  CurrentStream(dev(2));
  EXPECT_EQ(Must(sim().Stats()).created_streams, 0u);
  EXPECT_EQ(Must(sim().Stats()).pending_ops, 0u);
}

// Native handles repeat, ids do not: a cache keyed on ids cannot hand what
// belongs to a dead stream to a living one.
// F20
TEST_F(StreamLifetime, ReusedNativeHandleHasANewId) {
  std::unordered_map<const void*, uint64_t> blocks;  // handle, id of owner
  bool repeated = false;
  Must(sim().EnableTimeline(true));
  for (int i = 0; i < 1'000 && !repeated; ++i) {
    Stream s = NewStream();
    Must(Spin(s, 1));
    Must(s.Synchronize());
    const void* native = Must(sim().Timeline()).back().native_stream;
    ASSERT_NE(native, nullptr);
    const auto [it, is_new] = blocks.emplace(native, s.id());
    if (is_new) continue;
    repeated = true;
    EXPECT_NE(it->second, s.id());
  }
  EXPECT_TRUE(repeated) << "no native handle was used again";
}

// devrt keeps a bounded number of unused streams and destroys the others.
TEST_F(Recycler, UnusedStreamsAreNotKeptWithoutBound) {
  std::vector<Stream> streams;
  for (int i = 0; i < 300; ++i) streams.push_back(NewStream());
  EXPECT_EQ(Must(sim().Stats()).live_streams, 300u);
  streams.clear();
  EXPECT_EQ(Must(sim().Stats()).live_streams, 256u);
  for (int i = 0; i < 256; ++i) streams.push_back(NewStream());
  EXPECT_EQ(Must(sim().Stats()).live_streams, 256u);
  EXPECT_EQ(Must(sim().Stats()).created_streams, 300u);
}

}  // namespace
}  // namespace devrt::testing
