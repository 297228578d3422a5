// SPDX-License-Identifier: Apache-2.0
//
// Guards that are used wrongly, and guards around a fault: reported, and
// everything that can be restored is (C96, semantics 2.5).

#include <memory>
#include <optional>
#include <thread>

#include "tests/support/mtia_fixture.h"
#include "tests/support/spy_backend.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using GuardMisuse = MtiaTest;
using GuardFault = MtiaTest;

Device Current() { return Must(CurrentDevice("mtia")); }

TEST_F(GuardMisuse, OutOfOrderIsReported) {
  LogCapture log;
  auto one = std::make_unique<DeviceGuard>(dev(1));
  auto two = std::make_unique<DeviceGuard>(dev(2));
  EXPECT_EQ(log.Count(), 0);
  one.reset();
  ASSERT_GE(log.Count(LogLevel::kError), 1);
  EXPECT_THAT(log.lines().front().text,
              AllOf(HasSubstr("DeviceGuard"), HasSubstr("reverse order")));
  two.reset();
  Must(SetCurrentDevice(dev(0)));
  // Correct guards afterwards are silent.
  const int before = log.Count();
  {
    DeviceGuard a(dev(1));
    StreamGuard b(DefaultStream(dev(2)));
  }
  EXPECT_EQ(log.Count(), before);
}

TEST_F(GuardMisuse, StreamGuardOutOfOrderIsReported) {
  LogCapture log;
  Stream s = NewStream(dev(1));
  auto one = std::make_unique<StreamGuard>(s);
  auto two = std::make_unique<DeviceGuard>(dev(2));
  one.reset();
  ASSERT_GE(log.Count(LogLevel::kError), 1);
  EXPECT_THAT(log.lines().front().text, HasSubstr("StreamGuard"));
  two.reset();
  Must(SetCurrentDevice(dev(0)));
}

TEST_F(GuardMisuse, AnotherThreadIsReported) {
  LogCapture log;
  auto guard = std::make_unique<DeviceGuard>(dev(1));
  std::thread([&] { guard.reset(); }).join();
  EXPECT_GE(log.Count(LogLevel::kError), 1);
  Must(SetCurrentDevice(dev(0)));
}

TEST_F(GuardMisuse, InOrderIsSilent) {
  LogCapture log;
  Stream s = NewStream(dev(1));
  for (int i = 0; i < 3; ++i) {
    DeviceGuard one(dev(1));
    StreamGuard two(s);
    MultiStreamGuard three({s, DefaultStream(dev(2))});
    ThreadContextScope four(ThreadContext::Capture());
    DeviceGuard five(dev(0));
  }
  EXPECT_EQ(log.Count(), 0);
}

// A backend whose context_enter fails: nothing changes, status() says why.
TEST_F(GuardMisuse, FailingEnterChangesNothingAndSaysWhy) {
  SpyBackend& spy = SpyBackend::Get();
  spy.Reset();
  LogCapture log;
  SpyBackend::SetNativeCurrent(SpyBackend::kForeign + 1);
  Stream s = Must(Stream::Create(spy.device(0)));
  {
    spy.Fail("context_enter", absl::StatusCode::kResourceExhausted);
    DeviceGuard guard(spy.device(0));
    EXPECT_THAT(guard.status(), StatusIs(absl::StatusCode::kResourceExhausted,
                                         HasSubstr("spy refuses")));
    EXPECT_EQ(SpyBackend::NativeCurrent(), SpyBackend::kForeign + 1);
  }
  {
    spy.Fail("context_enter", absl::StatusCode::kResourceExhausted);
    StreamGuard guard(s);
    EXPECT_THAT(guard.status(), StatusIs(absl::StatusCode::kResourceExhausted,
                                         HasSubstr("spy refuses")));
    EXPECT_EQ(SpyBackend::NativeCurrent(), SpyBackend::kForeign + 1);
    EXPECT_EQ(CurrentStream(spy.device(0)), DefaultStream(spy.device(0)));
  }
  EXPECT_EQ(SpyBackend::NativeCurrent(), SpyBackend::kForeign + 1);
  EXPECT_EQ(spy.Count("context_exit"), 0);  // of what was not entered
  SpyBackend::SetNativeCurrent(SpyBackend::kNoContext);
}

TEST_F(GuardMisuse, FailingExitIsLoggedAndTheStreamIsRestored) {
  SpyBackend& spy = SpyBackend::Get();
  spy.Reset();
  LogCapture log;
  Stream s = Must(Stream::Create(spy.device(1)));
  {
    StreamGuard guard(s);
    spy.Fail("context_exit", absl::StatusCode::kInternal);
  }
  EXPECT_EQ(CurrentStream(spy.device(1)), DefaultStream(spy.device(1)));
  EXPECT_GE(log.Count(LogLevel::kError), 1);
  {
    DeviceGuard guard(spy.device(1));
    spy.Fail("context_exit", absl::StatusCode::kInternal);
  }
  EXPECT_GE(log.Count(LogLevel::kError), 2);
  SpyBackend::SetNativeCurrent(SpyBackend::kNoContext);
}

// The device is lost inside the guards: what was current before is again.
TEST_F(GuardFault, ExactRestorationAfterAFault) {
  InEverySchedule([] {
    LogCapture log;
    Stream keep = NewStream(dev(0)), bad = NewStream(dev(1)),
           other = NewStream(dev(2));
    Must(SetCurrentStream(keep));
    {
      DeviceGuard one(dev(2));
      MultiStreamGuard two({other, bad});
      StreamGuard three(bad);
      ASSERT_OK(CommitFault(bad, FaultForm::kTrap));
      EXPECT_FALSE(bad.Synchronize().ok());
      EXPECT_FALSE(dev(1).Health().ok());
      EXPECT_EQ(Current(), dev(1));  // answered from what is known
      EXPECT_EQ(CurrentStream(dev(1)), bad.ref());
    }
    EXPECT_EQ(Current(), dev(0));
    EXPECT_EQ(CurrentStream(dev(0)), keep.ref());
    EXPECT_EQ(CurrentStream(dev(1)), DefaultStream(dev(1)));
    EXPECT_EQ(CurrentStream(dev(2)), DefaultStream(dev(2)));
    Must(SetCurrentStream(DefaultStream(dev(0))));
  });
}

TEST_F(GuardFault, GuardsOnALostDeviceChangeNothing) {
  LogCapture log;
  Stream bad = NewStream(dev(1)), good = NewStream(dev(0));
  Must(CommitFault(bad, FaultForm::kNullWrite));
  EXPECT_FALSE(bad.Synchronize().ok());
  const auto quarantined = StatusIs(
      absl::StatusCode::kInternal, HasSubstr("device mtia:1 is quarantined: "));
  {
    DeviceGuard guard(dev(1));
    EXPECT_THAT(guard.status(), quarantined);
    EXPECT_EQ(Current(), dev(0));
  }
  {
    StreamGuard guard(bad);
    EXPECT_THAT(guard.status(), quarantined);
    EXPECT_EQ(Current(), dev(0));
    EXPECT_EQ(CurrentStream(dev(1)), DefaultStream(dev(1)));
  }
  {
    MultiStreamGuard guard({good, bad});
    EXPECT_THAT(guard.status(), quarantined);
    EXPECT_EQ(CurrentStream(dev(0)), DefaultStream(dev(0)));
  }
  EXPECT_THAT(SetCurrentDevice(dev(1)), quarantined);
  EXPECT_THAT(SetCurrentStream(bad), quarantined);
  EXPECT_EQ(Current(), dev(0));
  {
    DeviceGuard guard(dev(0));  // others go on
    EXPECT_OK(guard.status());
  }
}

TEST_F(GuardFault, ObjectsOfALostDeviceAreDestroyedInSilence) {
  LogCapture log;
  {
    Stream bad = NewStream(dev(1)), busy = NewStream(dev(1));
    Event e = NewEvent(dev(1));
    Flag gate = NewFlag(dev(1));
    Must(e.Record(bad));
    Must(gate.WaitOn(busy));
    Must(CommitFault(bad, FaultForm::kAssert));
    EXPECT_FALSE(bad.Synchronize().ok());
  }
  EXPECT_EQ(log.Count(LogLevel::kError), 1);  // the fault
  Reset("");
  EXPECT_OK(dev(1).Health());
  Stream s = NewStream(dev(1));
  EXPECT_OK(Spin(s, 1));
  EXPECT_OK(s.Synchronize());
}

// A healthy device's stream that waited for the lost one: it reports the
// origin, and is neither handed out again nor complained about for ever.
TEST_F(GuardFault, PoisonedStreamOfAHealthyDevice) {
  LogCapture log;
  {
    Stream bad = NewStream(dev(1)), waiting = NewStream(dev(0));
    Event e = NewEvent(dev(1));
    Must(Spin(bad, kShort));
    Must(CommitFault(bad, FaultForm::kTrap));
    Must(e.Record(bad));
    Must(waiting.Wait(e));
    Must(Spin(waiting, 1));
    EXPECT_THAT(waiting.Synchronize(),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("mtia:1")));
    EXPECT_OK(dev(0).Health());
    EXPECT_FALSE(dev(1).Health().ok());
  }
  const int before = log.Count();
  for (int i = 0; i < 20; ++i) {
    Stream fresh = NewStream(dev(0));
    EXPECT_OK(Spin(fresh, 1));
    EXPECT_OK(fresh.Synchronize());
  }
  EXPECT_LE(log.Count(), before + 1);  // logged once, if at all
}

}  // namespace
}  // namespace devrt::testing
