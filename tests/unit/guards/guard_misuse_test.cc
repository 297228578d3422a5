// SPDX-License-Identifier: Apache-2.0
//
// Guards that are used wrongly, and guards around a fault: reported, and
// everything that can be restored is (C96, docs/reference/semantics.md 2.5).

#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "tests/support/mtia_fixture.h"
#include "tests/support/spy_backend.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using GuardMisuse = MtiaTest;
using GuardFault = MtiaTest;

// One line per guard that is destroyed in the wrong place, none for others.
void ExpectErrors(const LogCapture& log,
                  const std::vector<std::string>& kinds) {
  std::vector<std::string> texts;
  for (const LogCapture::Line& line : log.lines()) {
    if (line.level >= LogLevel::kError) texts.push_back(line.text);
  }
  ASSERT_EQ(texts.size(), kinds.size()) << ::testing::PrintToString(texts);
  for (size_t i = 0; i < kinds.size(); ++i) {
    EXPECT_THAT(texts[i], AllOf(::testing::StartsWith(kinds[i] + " "),
                                HasSubstr("reverse order of construction")));
  }
}

// Correct guards are silent, whatever happened before.
void ExpectSilentGuards(const LogCapture& log) {
  const int before = log.Count();
  {
    DeviceGuard a(MtiaTest::dev(1));
    StreamGuard b(DefaultStream(MtiaTest::dev(2)));
    MultiStreamGuard c({DefaultStream(MtiaTest::dev(1))});
    ThreadContextScope d(ThreadContext::Capture());
  }
  EXPECT_EQ(log.Count(), before);
}

TEST_F(GuardMisuse, OutOfOrderIsReported) {
  LogCapture log;
  auto one = std::make_unique<DeviceGuard>(dev(1));
  auto two = std::make_unique<DeviceGuard>(dev(2));
  EXPECT_EQ(log.Count(), 0);
  one.reset();
  ExpectErrors(log, {"DeviceGuard"});
  two.reset();
  ExpectErrors(log, {"DeviceGuard"});
  Must(SetCurrentDevice(dev(0)));
  ExpectSilentGuards(log);
}

TEST_F(GuardMisuse, StreamGuardOutOfOrderIsReported) {
  LogCapture log;
  Stream s = NewStream(dev(1));
  auto one = std::make_unique<StreamGuard>(s);
  auto two = std::make_unique<DeviceGuard>(dev(2));
  one.reset();
  two.reset();
  ExpectErrors(log, {"StreamGuard"});
  Must(SetCurrentDevice(dev(0)));
  ExpectSilentGuards(log);
}

TEST_F(GuardMisuse, MultiStreamGuardOutOfOrderIsReported) {
  LogCapture log;
  Stream s1 = NewStream(), s2 = NewStream();
  auto one = std::make_unique<MultiStreamGuard>(std::vector<StreamRef>{s1});
  auto two = std::make_unique<MultiStreamGuard>(std::vector<StreamRef>{s2});
  one.reset();
  two.reset();
  ExpectErrors(log, {"MultiStreamGuard"});
  Must(SetCurrentStream(DefaultStream(dev())));
  ExpectSilentGuards(log);
}

TEST_F(GuardMisuse, ThreadContextScopeOutOfOrderIsReported) {
  LogCapture log;
  const ThreadContext context = ThreadContext::Capture();
  auto one = std::make_unique<ThreadContextScope>(context);
  auto two = std::make_unique<ThreadContextScope>(context);
  auto three = std::make_unique<DeviceGuard>(dev(1));
  two.reset();
  ExpectErrors(log, {"ThreadContextScope"});
  one.reset();
  ExpectErrors(log, {"ThreadContextScope", "ThreadContextScope"});
  three.reset();
  ExpectErrors(log, {"ThreadContextScope", "ThreadContextScope"});
  Must(SetCurrentDevice(dev(0)));
  ExpectSilentGuards(log);
}

// The guards around and inside a misplaced guard are not reported.
TEST_F(GuardMisuse, OnlyTheMisplacedGuardIsReported) {
  LogCapture log;
  {
    DeviceGuard around(dev(3));
    auto early = std::make_unique<DeviceGuard>(dev(1));
    {
      StreamGuard inner(DefaultStream(dev(2)));
      early.reset();
      DeviceGuard innermost(dev(1));
    }
    auto last = std::make_unique<DeviceGuard>(dev(2));
    auto foreign = std::make_unique<DeviceGuard>(dev(1));
    std::thread([&] { foreign.reset(); }).join();
  }
  ExpectErrors(log, {"DeviceGuard", "DeviceGuard"});
  Must(SetCurrentDevice(dev(0)));
  ExpectSilentGuards(log);
}

// Destroyed on another thread: nothing is restored there, whose own guards go
// on undisturbed.
TEST_F(GuardMisuse, AnotherThreadIsReported) {
  LogCapture log;
  Stream s1 = NewStream(), s2 = NewStream();
  auto device = std::make_unique<DeviceGuard>(dev(1));
  auto stream = std::make_unique<StreamGuard>(s1);
  auto streams = std::make_unique<MultiStreamGuard>(std::vector<StreamRef>{s1});
  auto scope = std::make_unique<ThreadContextScope>(ThreadContext::Capture());
  std::thread([&] {
    DeviceGuard one(dev(2));
    StreamGuard two(s2);
    DeviceGuard three(dev(3));
    device.reset();
    stream.reset();
    streams.reset();
    scope.reset();
    EXPECT_EQ(Current(), dev(3));
    EXPECT_EQ(CurrentStream(dev()), s2.ref());
  }).join();
  ExpectErrors(log, {"DeviceGuard", "StreamGuard", "MultiStreamGuard",
                     "ThreadContextScope"});
  Must(SetCurrentDevice(dev(0)));
  Must(SetCurrentStream(DefaultStream(dev())));
  ExpectSilentGuards(log);
  std::thread([&] { ExpectSilentGuards(log); }).join();
}

// Guards are numbered within ranges, one range per thread. A guard in the range
// next to this thread's own belongs to another thread, whether or not a guard
// is open here.
TEST_F(GuardMisuse, AGuardOfTheNextThreadIsReported) {
  LogCapture log;
  std::thread([&] {
    { DeviceGuard first(dev(1)); }  // gives this thread its range
    std::unique_ptr<DeviceGuard> outer, inner;
    std::thread([&] {
      outer = std::make_unique<DeviceGuard>(dev(1));
      inner = std::make_unique<DeviceGuard>(dev(1));
    }).join();
    Must(SetCurrentDevice(dev(2)));
    inner.reset();
    EXPECT_EQ(Current(), dev(2));
    DeviceGuard open(dev(3));
    outer.reset();
    EXPECT_EQ(Current(), dev(3));
  }).join();
  ExpectErrors(log, {"DeviceGuard", "DeviceGuard"});
  for (const LogCapture::Line& line : log.lines()) {
    EXPECT_THAT(line.text, HasSubstr("on another thread"));
  }
}

// A guard that a host function destroys: reported, and nothing happens there.
TEST_F(GuardMisuse, InsideAHostFunctionIsReported) {
  InEverySchedule([] {
    LogCapture log;
    Stream s = NewStream();
    auto guard = std::make_unique<DeviceGuard>(dev(1));
    ASSERT_OK(LaunchHostFunc(s, [&](absl::Status) { guard.reset(); }));
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(guard, nullptr);
    ExpectErrors(log, {"DeviceGuard"});
    EXPECT_EQ(Current(), dev(1));
    Must(SetCurrentDevice(dev(0)));
    ExpectSilentGuards(log);
  });
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
TEST_F(GuardMisuse, FailedEnterChangesNothingAndReturnsTheError) {
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

// A thread's context says so, too, and enters the others.
TEST_F(GuardMisuse, ThreadContextReportsTheDeviceItCannotEnter) {
  SpyBackend& spy = SpyBackend::Get();
  spy.Reset();
  ThreadContext context;
  {
    const DeviceGuard on_spy(spy.device(1));
    const DeviceGuard on_mtia(dev(2));
    context = ThreadContext::Capture();
  }
  LogCapture log;
  spy.Fail("context_enter", absl::StatusCode::kResourceExhausted);
  {
    const ThreadContextScope scope(context);
    EXPECT_THAT(scope.status(), StatusIs(absl::StatusCode::kResourceExhausted,
                                         HasSubstr("spy refuses")));
    EXPECT_EQ(Must(CurrentDevice("mtia")), dev(2));
  }
  EXPECT_EQ(log.Count(), 1) << "a failure to enter is logged";
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
