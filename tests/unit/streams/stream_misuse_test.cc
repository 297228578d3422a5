// SPDX-License-Identifier: Apache-2.0
//
// Mistakes with streams, flags and host functions, and locks that must not be
// held over a call to a backend (R2, R4, R5, C6).

#include <chrono>
#include <future>
#include <optional>
#include <stdexcept>

#include "tests/support/mtia_fixture.h"
#include "tests/support/spy_backend.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using StreamMisuse = MtiaTest;
using ThrowingFunctions = MtiaTest;
using FlagMisuse = MtiaTest;

// An argument error changes nothing, on the other stream either.
TEST_F(StreamMisuse, WaitOnADestroyedStreamRecordsNothing) {
  Must(sim().EnableTimeline(true));
  std::optional<Stream> owner = NewStream();
  const StreamRef dead = *owner;
  owner.reset();
  Stream other = NewStream();
  EXPECT_FALSE(dead.Wait(other.ref()).ok());
  EXPECT_FALSE(other.Wait(dead).ok());
  EXPECT_TRUE(Must(sim().Timeline()).empty());
  EXPECT_EQ(Must(sim().Stats()).created_events, 0u);
}

TEST_F(StreamMisuse, EmptyHostFunctionIsRefused) {
  Stream s = NewStream();
  EXPECT_THAT(LaunchHostFunc(s, HostFunc()),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       AllOf(HasSubstr("mtia:0"), HasSubstr("empty"))));
  EXPECT_THAT(s.Query(), IsOkAndHolds(true));
}

// No exception leaves a thread of the backend's; the stream goes on.
TEST_F(ThrowingFunctions, ThrowingHostFunctionIsLogged) {
  InEverySchedule([] {
    LogCapture log;
    Stream s = NewStream();
    Cell x(dev());
    ASSERT_OK(LaunchHostFunc(
        s, [](absl::Status) { throw std::runtime_error("thrown inside"); }));
    ASSERT_OK(LaunchHostFunc(s, [](absl::Status) { throw 7; }));
    ASSERT_OK(Put(s, x, 1));
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(x.Peek(), 1);
    ASSERT_EQ(log.Count(LogLevel::kError), 2);
    EXPECT_THAT(log.lines()[0].text,
                AllOf(HasSubstr("mtia:0"), HasSubstr("thrown inside")));
  });
}

TEST_F(ThrowingFunctions, ThrowingKernelIsADeviceAssertion) {
  LogCapture log;
  Stream s = NewStream(dev(1));
  Must(Launch(s, {}, [](const LaunchContext&) {
    throw std::runtime_error("thrown in a kernel");
  }));
  EXPECT_THAT(s.Synchronize(), StatusIs(absl::StatusCode::kInternal,
                                        HasSubstr("thrown in a kernel")));
}

TEST_F(FlagMisuse, MovedFromFlag) {
  Stream s = NewStream();
  Flag a = NewFlag();
  Flag b = std::move(a);
  EXPECT_THAT(a.WaitOn(s),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("flag")));
  EXPECT_THAT(a.Set(),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("flag")));
  ASSERT_OK(b.WaitOn(s));
  ASSERT_OK(b.Set());
  EXPECT_OK(s.Synchronize());
}

// A wait that can never end is an error, not a hang.
TEST_F(FlagMisuse, WaitingForeverIsReported) {
  Flag gate = NewFlag();
  Stream s = NewStream();
  Event e = NewEvent();
  Must(gate.WaitOn(s));
  Must(e.Record(s));
  EXPECT_FALSE(s.Synchronize().ok());
  EXPECT_FALSE(e.Synchronize().ok());
  EXPECT_FALSE(dev().Synchronize().ok());
  EXPECT_THAT(Must(sim().DeadlockReport()), HasSubstr("flag"));
  ASSERT_OK(gate.Set());  // nothing is lost
  EXPECT_OK(s.Synchronize());
  EXPECT_THAT(e.Query(), IsOkAndHolds(true));
}

TEST_F(FlagMisuse, TimeoutOfTheDevicesClock) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream s = NewStream();
    ASSERT_OK(gate.WaitOn(s, kLong));
    ASSERT_OK(s.Synchronize());
  });
}

TEST_F(FlagMisuse, SetByAnotherStream) {
  InEverySchedule([] {
    Flag gate = NewFlag();
    Stream waits = NewStream(), sets = NewStream();
    OpLog log;
    ASSERT_OK(gate.WaitOn(waits));
    ASSERT_OK(log.Mark(waits, 'b'));
    ASSERT_OK(Spin(sets, kLong));
    ASSERT_OK(log.Mark(sets, 'a'));
    ASSERT_OK(gate.SetOn(sets));
    ASSERT_OK(waits.Synchronize());
    EXPECT_EQ(log.text(), "ab");
    ASSERT_OK(sets.Synchronize());
  });
}

// ---- locks
// --------------------------------------------------------------------

class LockMisuse : public ::testing::Test {
 protected:
  void SetUp() override { spy().Reset(); }
  static SpyBackend& spy() { return SpyBackend::Get(); }
  static Device dev() { return spy().device(0); }

  // While the next call of `slot` is inside the backend, another thread makes
  // streams and events.  What was found goes to `done`.
  void OthersGoOnDuring(const char* slot, bool* done) {
    spy().OnNext(slot, [done] {
      auto others = std::async(std::launch::async, [] {
        Stream s = Must(Stream::Create(dev()));
        EventOptions timing;
        timing.timing = true;
        Event e = Must(Event::Create(dev(), timing));
        Must(e.Record(s));
        Must(s.Synchronize());
      });
      // Only a failure waits that long.
      *done = others.wait_for(std::chrono::seconds(10)) ==
              std::future_status::ready;
      if (!*done) std::abort();  // the future would wait for ever
    });
  }
};

TEST_F(LockMisuse, NoLockOverTheQueryOfABusyStream) {
  std::optional<Stream> busy = Must(Stream::Create(dev()));
  Event e = Must(Event::Create(dev()));
  Must(e.Record(*busy));
  std::vector<Stream> idle;  // used up, so that the busy one is looked at
  for (int i = 0; i < 300; ++i) idle.push_back(Must(Stream::Create(dev())));
  spy().SetBusy(true);
  busy.reset();
  bool done = false;
  OthersGoOnDuring("stream_query", &done);
  Stream s = Must(Stream::Create(dev()));
  EXPECT_TRUE(done);
}

TEST_F(LockMisuse, NoLockOverTheFirstRecord) {
  Stream s = Must(Stream::Create(dev()));
  std::vector<Event> used;  // used up
  for (int i = 0; i < 40; ++i) {
    used.push_back(Must(Event::Create(dev())));
    Must(used.back().Record(s));
  }
  bool done = false;
  OthersGoOnDuring("event_create", &done);
  Event e = Must(Event::Create(dev()));
  Must(e.Record(s));
  EXPECT_TRUE(done);
}

TEST_F(LockMisuse, NoLockOverTheCreationOfAStream) {
  std::vector<Stream> idle;
  for (int i = 0; i < 300; ++i) idle.push_back(Must(Stream::Create(dev())));
  bool done = false;
  OthersGoOnDuring("stream_create", &done);
  Stream s = Must(Stream::Create(dev()));
  EXPECT_TRUE(done);
}

// Two threads make the native event of one event: one is given back.
TEST_F(LockMisuse, FirstRecordsOfTwoThreads) {
  Stream s = Must(Stream::Create(dev()));
  EventOptions options;
  options.blocking_sync = true;
  Event e = Must(Event::Create(dev(), options));
  spy().OnNext("event_create", [&] {
    std::async(std::launch::async, [&] { Must(e.Record(s)); }).get();
  });
  Must(e.Record(s));
  EXPECT_EQ(spy().Count("event_create"), 2);
  EXPECT_EQ(spy().Count("event_destroy"), 1);
  EXPECT_EQ(spy().bad_handles(), 0);
  EXPECT_NE(e.id(), 0u);
}

}  // namespace
}  // namespace devrt::testing
