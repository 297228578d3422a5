// SPDX-License-Identifier: Apache-2.0
//
// Shutdown with live streams and events, and what streams, events and guards
// answer afterwards (C98).  One test: there is no way back.

#include <memory>
#include <optional>
#include <thread>

#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

Device dev(int index = 0) { return MtiaTest::dev(index); }

// C98
TEST(StreamShutdown, ShutdownWaitsForLiveObjectsAndEndsEverything) {
  setenv("DEVRT_MTIA", "devices=4", 1);
  std::optional<Stream> s = Must(Stream::Create(dev(1)));
  std::optional<Event> e = Must(Event::Create(dev(2)));
  std::optional<Flag> gate = Must(Flag::Create(dev(1)));
  Must(Spin(*s, 1));
  Must(Spin(Must(PerThreadDefaultStream(dev(0))), 1));

  const auto refused = [](const char* a, const char* b) {
    return StatusIs(absl::StatusCode::kFailedPrecondition,
                    AllOf(HasSubstr(a), HasSubstr(b)));
  };
  EXPECT_THAT(Shutdown(), refused("mtia:1 has 1 stream", "mtia:2 has 1 event"));
  // Nothing was lost by the refusal.
  EXPECT_OK(Spin(*s, 1));
  EXPECT_OK(s->Synchronize());
  Stream other = Must(Stream::Create(dev(2)));
  EXPECT_OK(e->Record(other));
  EXPECT_OK(e->Synchronize());
  const StreamRef stream_ref = *s;
  const EventRef event_ref = *e;
  s.reset();
  EXPECT_THAT(Shutdown(), refused("mtia:2", "1 event"));
  e.reset();
  EXPECT_THAT(Shutdown(), refused("mtia:2", "1 stream"));
  { Stream last = std::move(other); }
  gate.reset();
  // Flags are no reason to refuse.
  std::optional<Flag> left = Must(Flag::Create(dev(1)));
  const StreamRef own = Must(PerThreadDefaultStream(dev(0)));
  // A host function's, which the program cannot destroy.
  auto owned = std::make_shared<Stream>(Must(Stream::Create(dev(3))));
  EXPECT_OK(LaunchHostFunc(DefaultStream(dev(3)), [owned](absl::Status) {}));
  owned.reset();
  while (Must(MtiaTest::sim().Stats()).pending_ops != 0) {
    ASSERT_OK(MtiaTest::sim().Yield());
  }

  // A guard that is open over the end, and a thread that ends after it.
  Device one = dev(1);
  auto guard = std::make_unique<DeviceGuard>(one);
  ASSERT_OK(Shutdown());
  LogCapture log;
  guard.reset();

  const auto closed =
      StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("shut down"));
  EXPECT_THAT(GetDevice("mtia:1"), closed);
  EXPECT_THAT(CurrentDevice("mtia"), closed);
  EXPECT_THAT(SetCurrentDevice(one), closed);
  EXPECT_THAT(one.Synchronize(), closed);
  EXPECT_THAT(Stream::Create(one), closed);
  EXPECT_THAT(Stream::FromNative(one, nullptr), closed);
  EXPECT_THAT(PerThreadDefaultStream(one), closed);
  EXPECT_THAT(Event::Create(one), closed);
  EXPECT_THAT(Flag::Create(one), closed);
  EXPECT_THAT(left->Set(), closed);
  left.reset();
  EXPECT_THAT(StreamPool::Create(one, 2), closed);
  EXPECT_THAT(DefaultStream(one).Query(), closed);
  EXPECT_THAT(DefaultStream(one).Synchronize(), closed);
  EXPECT_THAT(SetCurrentStream(DefaultStream(one)), closed);
  EXPECT_THAT(Spin(DefaultStream(one), 1), closed);
  EXPECT_EQ(CurrentStream(one), DefaultStream(one));
  EXPECT_THAT(stream_ref.Query(), closed);
  EXPECT_THAT(event_ref.Query(), closed);
  EXPECT_THAT(own.Query(), closed);
  EXPECT_THAT(own.Synchronize(), closed);
  EXPECT_THAT(SetCurrentStream(own), closed);
  EXPECT_THAT(DeviceGuard(one).status(), closed);
  EXPECT_THAT(StreamGuard(DefaultStream(one)).status(), closed);
  EXPECT_THAT(MultiStreamGuard({DefaultStream(one)}).status(), closed);
  const ThreadContext context = ThreadContext::Capture();
  EXPECT_TRUE(context.devices().empty());
  EXPECT_OK(ThreadContextScope(context).status());
  std::thread([&] {
    EXPECT_THAT(PerThreadDefaultStream(one), closed);
    EXPECT_EQ(CurrentStream(one), DefaultStream(one));
  }).join();
  EXPECT_THAT(Shutdown(), ::testing::_);  // again: no crash
  EXPECT_EQ(log.Count(LogLevel::kError), 0);
}

}  // namespace
}  // namespace devrt::testing
