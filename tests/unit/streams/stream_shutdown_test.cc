// SPDX-License-Identifier: Apache-2.0
//
// Shutdown with live streams and events, and the errors of streams, events and
// guards after it (C98).  One test: there is no way back.

#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Device dev(int index = 0) { return MtiaTest::dev(index); }

// Shutdown refuses while streams and events live, and leaves them usable.
// Returns references to a stream and an event that were destroyed since.
std::pair<StreamRef, EventRef> ExpectRefusedForLiveObjects() {
  std::optional<Stream> s = Must(Stream::Create(dev(1)));
  std::optional<Event> e = Must(Event::Create(dev(2)));
  const std::optional<Flag> gate = Must(Flag::Create(dev(1)));
  Must(Spin(*s, 1));
  Must(Spin(Must(PerThreadDefaultStream(dev(0))), 1));

  const auto refused = [](const char* a, const char* b) {
    return StatusIs(absl::StatusCode::kFailedPrecondition,
                    AllOf(HasSubstr(a), HasSubstr(b)));
  };
  EXPECT_THAT(Shutdown(), refused("mtia:1 has 1 stream", "mtia:2 has 1 event"));
  EXPECT_OK(Spin(*s, 1));
  EXPECT_OK(s->Synchronize());
  const Stream other = Must(Stream::Create(dev(2)));
  EXPECT_OK(e->Record(other));
  EXPECT_OK(e->Synchronize());
  const std::pair<StreamRef, EventRef> destroyed(*s, *e);
  s.reset();
  EXPECT_THAT(Shutdown(), refused("mtia:2", "1 event"));
  e.reset();
  EXPECT_THAT(Shutdown(), refused("mtia:2", "1 stream"));
  return destroyed;
}

// The program cannot destroy this stream: a host function that has run owns it.
void LeaveStreamToHostFunction() {
  auto owned = std::make_shared<Stream>(Must(Stream::Create(dev(3))));
  EXPECT_OK(LaunchHostFunc(DefaultStream(dev(3)), [owned](absl::Status) {}));
  owned.reset();
  while (Must(MtiaTest::sim().Stats()).pending_ops != 0) {
    ASSERT_OK(MtiaTest::sim().Yield());
  }
}

auto IsClosed() {
  return StatusIs(absl::StatusCode::kFailedPrecondition,
                  HasSubstr("shut down"));
}

void ExpectCallsOnDeviceFail(Device one) {
  EXPECT_THAT(GetDevice("mtia:1"), IsClosed());
  EXPECT_THAT(CurrentDevice("mtia"), IsClosed());
  EXPECT_THAT(SetCurrentDevice(one), IsClosed());
  EXPECT_THAT(one.Synchronize(), IsClosed());
  EXPECT_THAT(Stream::Create(one), IsClosed());
  EXPECT_THAT(Stream::FromNative(one, nullptr), IsClosed());
  EXPECT_THAT(PerThreadDefaultStream(one), IsClosed());
  EXPECT_THAT(Event::Create(one), IsClosed());
  EXPECT_THAT(Flag::Create(one), IsClosed());
  EXPECT_THAT(StreamPool::Create(one, 2), IsClosed());
  EXPECT_THAT(DefaultStream(one).Query(), IsClosed());
  EXPECT_THAT(DefaultStream(one).Synchronize(), IsClosed());
  EXPECT_THAT(SetCurrentStream(DefaultStream(one)), IsClosed());
  EXPECT_THAT(Spin(DefaultStream(one), 1), IsClosed());
  EXPECT_EQ(CurrentStream(one), DefaultStream(one));
  EXPECT_THAT(DeviceGuard(one).status(), IsClosed());
  EXPECT_THAT(StreamGuard(DefaultStream(one)).status(), IsClosed());
  EXPECT_THAT(MultiStreamGuard({DefaultStream(one)}).status(), IsClosed());
}

// C98
TEST(StreamShutdown, WaitsForLiveObjectsAndClosesAllCalls) {
  setenv("DEVRT_MTIA", "devices=4", 1);
  const auto [stream_ref, event_ref] = ExpectRefusedForLiveObjects();
  // A live flag does not make Shutdown refuse.
  std::optional<Flag> left = Must(Flag::Create(dev(1)));
  const StreamRef own = Must(PerThreadDefaultStream(dev(0)));
  LeaveStreamToHostFunction();

  // Shutdown happens inside this guard.
  Device one = dev(1);
  auto guard = std::make_unique<DeviceGuard>(one);
  ASSERT_OK(Shutdown());
  LogCapture log;
  guard.reset();

  ExpectCallsOnDeviceFail(one);
  EXPECT_THAT(left->Set(), IsClosed());
  left.reset();
  EXPECT_THAT(stream_ref.Query(), IsClosed());
  EXPECT_THAT(event_ref.Query(), IsClosed());
  EXPECT_THAT(own.Query(), IsClosed());
  EXPECT_THAT(own.Synchronize(), IsClosed());
  EXPECT_THAT(SetCurrentStream(own), IsClosed());
  const ThreadContext context = ThreadContext::Capture();
  EXPECT_TRUE(context.devices().empty());
  EXPECT_OK(ThreadContextScope(context).status());
  std::thread([&] {
    EXPECT_THAT(PerThreadDefaultStream(one), IsClosed());
    EXPECT_EQ(CurrentStream(one), DefaultStream(one));
  }).join();
  EXPECT_THAT(Shutdown(), ::testing::_);  // again: no crash
  EXPECT_EQ(log.Count(LogLevel::kError), 0);
}

}  // namespace
}  // namespace devrt::testing
