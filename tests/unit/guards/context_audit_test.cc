// SPDX-License-Identifier: Apache-2.0
//
// No context on a device that nobody named, and the current device survives
// errors inside every call (C103, F3, F12, F13).

#include <functional>
#include <optional>
#include <thread>

#include "tests/support/mtia_fixture.h"
#include "tests/support/spy_backend.h"

namespace devrt::testing {
namespace {

using Contexts = std::set<int>;

class AuditTest : public ::testing::Test {
 protected:
  void SetUp() override { spy().Reset(); }
  void TearDown() override {
    EXPECT_EQ(spy().bad_handles(), 0);
    SpyBackend::SetNativeCurrent(SpyBackend::kNoContext);
  }
  static SpyBackend& spy() { return SpyBackend::Get(); }
  static Device dev(int index) { return spy().device(index); }
};

using ContextAudit = AuditTest;

// C103
TEST_F(ContextAudit, LookingCreatesNone) {
  Device zero = dev(0), one = dev(1);
  EXPECT_OK(one.Properties());
  EXPECT_OK(zero.GetMemoryInfo());
  EXPECT_OK(CurrentDevice("spy"));
  EXPECT_OK(GetDevice("spy"));
  EXPECT_OK(Devices("spy"));
  CurrentStream(zero);
  EXPECT_EQ(DefaultStream(one).id(), 0u);
  Event e = Must(Event::Create(zero));
  EXPECT_OK(e.Query());
  EXPECT_OK(e.Synchronize());
  EXPECT_OK(e.Native());
  EXPECT_FALSE(ElapsedMilliseconds(e, e).ok());
  ThreadContext::Capture();
  EXPECT_EQ(spy().contexts(), Contexts());
}

// C103
TEST_F(ContextAudit, WorkOnADeviceMakesNoOtherContext) {
  std::thread([] {
    Device one = dev(1);
    EventOptions timing;
    timing.timing = true;
    Stream s = Must(Stream::Create(one));
    {
      StreamGuard guard(s);
      Event a = Must(Event::Create(one, timing));
      Event b = Must(Event::Create(one, timing));
      Must(a.Record(s));
      Must(b.Record(s));
      Must(DefaultStream(one).Wait(b));
      Must(s.Wait(DefaultStream(one)));
      Must(b.Synchronize());
      Must(ElapsedMilliseconds(a, b));
      Must(a.Query());
      Must(s.Query());
      Must(s.Synchronize());
      Must(one.Synchronize());
      void* block = Must(Allocate(one, 64));
      Must(FillAsync(s, block, 0, 64));
      Must(Free(one, block));
    }
    EXPECT_EQ(SpyBackend::NativeCurrent(), SpyBackend::kNoContext);
  }).join();
  EXPECT_EQ(spy().contexts(), Contexts({1}));
}

// C103
TEST_F(ContextAudit, RestoresCreateNone) {
  { DeviceGuard guard(dev(1)); }
  EXPECT_EQ(spy().contexts(), Contexts({1}));
  EXPECT_EQ(spy().Count("context_enter"), 1);
  EXPECT_EQ(spy().Count("context_exit"), 1);
}

// Making a default stream current is no work on its device.
// F12
TEST_F(ContextAudit, CurrentDefaultStreamsCreateNone) {
  EXPECT_OK(SetCurrentStream(DefaultStream(dev(0))));
  EXPECT_EQ(spy().contexts(), Contexts());
  {
    MultiStreamGuard guard({DefaultStream(dev(0)), DefaultStream(dev(1))});
    EXPECT_OK(guard.status());
  }
  EXPECT_EQ(spy().contexts(), Contexts());
}

// A context handed to a pool thread names the current device, not the others.
// F12
TEST_F(ContextAudit, ThreadContextNamesOnlyTheCurrentDevice) {
  std::optional<ThreadContext> context;
  {
    DeviceGuard guard(dev(1));
    context = ThreadContext::Capture();
  }
  spy().Reset();
  std::thread([&] {
    ThreadContextScope scope(*context);
    EXPECT_OK(scope.status());
    EXPECT_EQ(SpyBackend::NativeCurrent(), 1);
  }).join();
  EXPECT_EQ(spy().contexts(), Contexts({1}));
}

// F13
TEST_F(ContextAudit, EachRequestMakesASingleNativeObject) {
  Device one = dev(1);
  Stream s = Must(Stream::Create(one));
  EXPECT_LE(spy().Count("stream_create"), 1);
  EXPECT_EQ(spy().Count("stream_create", 0), 0);
  EXPECT_EQ(spy().Count("stream_legacy"), 0);
  EXPECT_EQ(spy().Count("event_create"), 0);
  Event e = Must(Event::Create(one));
  EXPECT_EQ(spy().Count("event_create"), 0);
  Must(e.Record(s));
  EXPECT_LE(spy().Count("event_create"), 1);
}

// One call of every kind on a device, with the slot that it uses.
struct FailingCalls {
  struct Case {
    const char* slot;
    std::function<absl::Status()> call;
  };

  explicit FailingCalls(Device device) : one(device) {
    Must(a.Record(s));
    Must(b.Record(s));
    // Earlier tests leave streams and events that devrt would reuse. These
    // take them, so that the calls create new ones.
    for (int i = 0; i < 16; ++i) {
      streams.push_back(Must(Stream::Create(one)));
      events.push_back(Must(Event::Create(one)));
      Must(events.back().Record(s));
    }
  }

  std::vector<Case> cases() {
    return {
        {"event_record", [&] { return a.Record(s); }},
        {"stream_wait_event", [&] { return other.Wait(a); }},
        {"event_elapsed_ns",
         [&] { return ElapsedMilliseconds(a, b).status(); }},
        {"event_query", [&] { return a.Query().status(); }},
        {"event_sync", [&] { return a.Synchronize(); }},
        {"stream_query", [&] { return s.Query().status(); }},
        {"stream_sync", [&] { return s.Synchronize(); }},
        {"stream_native", [&] { return s.Native().status(); }},
        {"device_sync", [&] { return one.Synchronize(); }},
        {"host_func", [&] { return LaunchHostFunc(s, [](absl::Status) {}); }},
        {"stream_native",
         [&] { return Launch(s, {}, [](const LaunchContext&) {}); }},
        {"context_enter",
         [&] { return Launch(s, {}, [](const LaunchContext&) {}); }},
        {"event_create",
         [&] {
           events.push_back(Must(Event::Create(one)));
           return events.back().Record(s);
         }},
        {"stream_create",
         [&] {
           absl::StatusOr<Stream> made = Stream::Create(one);
           if (made.ok()) streams.push_back(*std::move(made));
           return made.status();
         }},
        {"stream_adopt",
         [&] { return Stream::FromNative(one, &one).status(); }},
    };
  }

  static EventOptions Timed() {
    EventOptions options;
    options.timing = true;
    return options;
  }

  Device one;
  Stream s = Must(Stream::Create(one));
  Stream other = Must(Stream::Create(one));
  Event a = Must(Event::Create(one, Timed()));
  Event b = Must(Event::Create(one, Timed()));
  std::vector<Stream> streams;
  std::vector<Event> events;
};

// A call that fails keeps the current context and returns its own error, and
// the next call works.
// F3
TEST_F(ContextAudit, FailingCallsKeepTheCurrentDevice) {
  FailingCalls calls(dev(1));
  for (int found : {SpyBackend::kNoContext, 0, SpyBackend::kForeign}) {
    for (const FailingCalls::Case& c : calls.cases()) {
      SCOPED_TRACE(c.slot);
      SpyBackend::SetNativeCurrent(found);
      spy().Fail(c.slot, absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(c.call(), StatusIs(absl::StatusCode::kResourceExhausted,
                                     ::testing::HasSubstr("spy refuses")));
      EXPECT_EQ(SpyBackend::NativeCurrent(), found);
      EXPECT_OK(c.call());
      EXPECT_EQ(SpyBackend::NativeCurrent(), found);
    }
  }
}

// The body of a native launch runs with its device current, and what was
// current is restored, also when it fails or throws (C15).
// F3
TEST_F(ContextAudit, NativeLaunchRestores) {
  Stream s = Must(Stream::Create(dev(1)));
  for (int found : {SpyBackend::kNoContext, 0, SpyBackend::kForeign}) {
    SpyBackend::SetNativeCurrent(found);
    EXPECT_OK(Launch(s, {}, [&](const LaunchContext& k) {
      EXPECT_EQ(SpyBackend::NativeCurrent(), 1);
      EXPECT_FALSE(k.on_host());
      EXPECT_NE(k.native_stream(), nullptr);
    }));
    EXPECT_EQ(SpyBackend::NativeCurrent(), found);
    EXPECT_THAT(
        Launch(s, {},
               [](const LaunchContext&) { return absl::AbortedError("mine"); }),
        StatusIs(absl::StatusCode::kAborted, "mine"));
    EXPECT_EQ(SpyBackend::NativeCurrent(), found);
    EXPECT_THROW(
        Launch(s, {}, [](const LaunchContext&) { throw 1; }).IgnoreError(),
        int);
    EXPECT_EQ(SpyBackend::NativeCurrent(), found);
  }
}

// Destruction touches neither the current device nor a context.
// F3
TEST_F(ContextAudit, DestructionKeepsTheCurrentDevice) {
  std::optional<Stream> s = Must(Stream::Create(dev(1)));
  EventOptions ipc;
  ipc.interprocess = true;
  std::optional<Event> e = Must(Event::Create(dev(1))),
                       shared = Must(Event::Create(dev(1), ipc));
  Must(e->Record(*s));
  Must(shared->Record(*s));
  spy().Reset();
  SpyBackend::SetNativeCurrent(SpyBackend::kForeign);
  spy().Fail("event_destroy", absl::StatusCode::kInternal);
  LogCapture log;
  shared.reset();
  e.reset();
  s.reset();
  EXPECT_EQ(SpyBackend::NativeCurrent(), SpyBackend::kForeign);
  EXPECT_EQ(spy().contexts(), Contexts());
}

// F3
TEST_F(ContextAudit, InterprocessAndTimingExclude) {
  EventOptions both;
  both.timing = both.interprocess = true;
  EXPECT_EQ(Event::Create(dev(0), both).status().code(),
            absl::StatusCode::kInvalidArgument);
  EventOptions ipc;
  ipc.interprocess = true;
  EXPECT_OK(Event::Create(dev(0), ipc));
}

// A handle of a destroyed object never reaches the backend (C17).
// C17
TEST_F(ContextAudit, DestroyedHandlesAreNotPassedOn) {
  std::optional<Stream> owner = Must(Stream::Create(dev(0)));
  const StreamRef s = *owner;
  std::optional<Event> event = Must(Event::Create(dev(0)));
  Must(event->Record(s));
  const EventRef e = *event;
  Stream foreign = Must(Stream::Create(dev(0)));
  std::optional<Stream> adopted =
      Must(Stream::FromNative(dev(0), Must(foreign.Native())));
  const StreamRef external = *adopted;
  owner.reset();
  event.reset();
  adopted.reset();
  Stream other = Must(Stream::Create(dev(0)));
  for (StreamRef dead : {s, external}) {
    EXPECT_FALSE(dead.Query().ok());
    EXPECT_FALSE(dead.Synchronize().ok());
    EXPECT_FALSE(dead.Wait(other.ref()).ok());
    EXPECT_FALSE(other.Wait(dead).ok());
    EXPECT_FALSE(dead.Native().ok());
  }
  EXPECT_FALSE(e.Query().ok());
  EXPECT_FALSE(other.Wait(e).ok());
  EXPECT_EQ(spy().bad_handles(), 0);
  EXPECT_EQ(spy().Count("stream_sync"), 0);
}

}  // namespace
}  // namespace devrt::testing
