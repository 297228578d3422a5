// SPDX-License-Identifier: Apache-2.0
//
// A host function may query and may not submit; and the end of objects inside a
// host function (C42).

#include <gtest/gtest.h>

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "tests/support/mtia_fixture.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

using HostFuncInside = MtiaTest;

using Refused = std::vector<std::pair<std::string, absl::Status>>;

void ExpectRefused(const Refused& refused) {
  for (const auto& [name, status] : refused) {
    EXPECT_STATUS(status, kFailedPrecondition, "host function") << name;
  }
}

// Runs `body` inside a host function of dev(0).
void Inside(std::function<void()> body) {
  Stream s = MtiaTest::NewStream();
  bool ran = false;
  ASSERT_OK(LaunchHostFunc(s, [&, body = std::move(body)](absl::Status) {
    body();
    ran = true;
  }));
  ASSERT_OK(s.Synchronize());
  EXPECT_TRUE(ran);
}

// C42
TEST_F(HostFuncInside, EveryCallThatActsIsRefusedInside) {
  InEverySchedule([] {
    LogCapture log;
    Cell x(dev());
    Stream other = NewStream();
    Event event = NewEvent();
    Flag flag = NewFlag();
    ASSERT_OK(event.Record(other));
    ASSERT_OK(other.Synchronize());
    Refused refused;
    Inside([&] {
      refused = {
          {"record", event.Record(other)},
          {"wait", other.Wait(event)},
          {"wait for a stream", other.Wait(DefaultStream(dev()))},
          {"stream sync", other.Synchronize()},
          {"event sync", event.Synchronize()},
          {"device sync", dev().Synchronize()},
          {"stream create", Stream::Create(dev()).status()},
          {"pool create", StreamPool::Create(dev(), 2).status()},
          {"event create", Event::Create(dev()).status()},
          {"adopt", Stream::FromNative(dev(), nullptr).status()},
          {"per thread", PerThreadDefaultStream(dev()).status()},
          {"fill", FillAsync(other, x.ptr(), 0, 8)},
          {"copy", CopyAsync(other, x.ptr(), x.ptr() + 1, 8)},
          {"blocking copy", Copy(other, x.ptr(), x.ptr() + 1, 8)},
          {"launch", Launch(other, {}, [](const LaunchContext&) {})},
          {"host function", LaunchHostFunc(other, [](absl::Status) {})},
          {"spin", Spin(other, 1)},
          {"fault", CommitFault(other, FaultForm::kTrap)},
          {"flag create", Flag::Create(dev()).status()},
          {"flag wait", flag.WaitOn(other)},
          {"flag set", flag.SetOn(other)},
      };
    });
    ASSERT_EQ(refused.size(), 21u);
    ExpectRefused(refused);
    EXPECT_EQ(log.Count(), 21);
    EXPECT_EQ(x.Peek(), 0);
    EXPECT_OK(dev().Health());
  });
}

// C42
TEST_F(HostFuncInside, MemoryPeersAndTheSimulatorAreRefusedInside) {
  InEverySchedule([] {
    LogCapture log;
    Cell x(dev());
    void* const pinned = Must(AllocateHost(dev(), 64));
    alignas(4096) static char ours[4096], theirs[4096];
    ASSERT_OK(RegisterHost(dev(), theirs, sizeof theirs));
    ASSERT_OK(EnablePeerAccess(dev(1), dev(0)));
    Refused refused;
    Inside([&] {
      refused = {
          {"allocate", Allocate(dev(), 8).status()},
          {"free", Free(dev(), x.ptr())},
          {"pinned", AllocateHost(dev(), 8).status()},
          {"free pinned", FreeHost(pinned)},
          {"register", RegisterHost(dev(), ours, sizeof ours)},
          {"unregister", UnregisterHost(dev(), theirs)},
          {"memory info", dev().GetMemoryInfo().status()},
          {"enable peer", EnablePeerAccess(dev(0), dev(1))},
          {"disable peer", DisablePeerAccess(dev(1), dev(0))},
          {"yield", sim().Yield()},
          {"reset", sim().Reset()},
          {"shutdown", Shutdown()},
      };
    });
    ASSERT_EQ(refused.size(), 12u);
    ExpectRefused(refused);
    // Nothing was done.
    EXPECT_OK(UnregisterHost(dev(), theirs));
    EXPECT_OK(DisablePeerAccess(dev(1), dev(0)));
    EXPECT_OK(FreeHost(pinned));
  });
}

// A host function cannot change the current device and stream of the backend's
// thread.
// C42
TEST_F(HostFuncInside, NothingIsMadeCurrentInside) {
  InEverySchedule([] {
    LogCapture log;
    Stream s = NewStream(dev(1));
    const ThreadContext context = ThreadContext::Capture();
    Refused refused;
    std::vector<bool> unchanged;
    Inside([&] {
      const Device device = Must(CurrentDevice("mtia"));
      const StreamRef stream = CurrentStream(dev(1));
      const auto add = [&](const char* name, absl::Status status) {
        refused.emplace_back(name, std::move(status));
        unchanged.push_back(Must(CurrentDevice("mtia")) == device &&
                            CurrentStream(dev(1)) == stream);
      };
      add("set device", SetCurrentDevice(dev(2)));
      add("set stream", SetCurrentStream(s));
      {
        DeviceGuard guard(dev(2));
        add("device guard", guard.status());
      }
      {
        StreamGuard guard(s);
        add("stream guard", guard.status());
      }
      {
        MultiStreamGuard guard({s});
        add("streams guard", guard.status());
      }
      {
        ThreadContextScope scope(context);
        add("scope", scope.status());
      }
      add("afterwards", SetCurrentDevice(dev(2)));
    });
    ASSERT_EQ(refused.size(), 7u);
    ExpectRefused(refused);
    EXPECT_EQ(unchanged, std::vector<bool>(7, true));
    EXPECT_EQ(log.Count(LogLevel::kError), 0);
    // The threads go on as before.
    DeviceGuard guard(dev(2));
    EXPECT_OK(guard.status());
    EXPECT_EQ(Must(CurrentDevice("mtia")), dev(2));
  });
}

// C42
TEST_F(HostFuncInside, LookingIsAllowedInside) {
  InEverySchedule([] {
    LogCapture log;
    Stream other = NewStream();
    Event event = NewEvent();
    Flag flag = NewFlag();
    ASSERT_OK(event.Record(other));
    ASSERT_OK(other.Synchronize());
    std::vector<absl::Status> allowed;
    Inside([&] {
      allowed = {
          other.Query().status(),
          event.Query().status(),
          other.Native().status(),
          event.Native().status(),
          dev().Properties().status(),
          dev().Health(),
          flag.Set(),
          flag.Clear(),
          CurrentDevice("mtia").status(),
      };
      EXPECT_NE(other.id(), 0u);
      EXPECT_NE(event.id(), 0u);
      EXPECT_EQ(CurrentStream(dev()), DefaultStream(dev()));
    });
    ASSERT_EQ(allowed.size(), 9u);
    for (const absl::Status& status : allowed) EXPECT_OK(status);
    EXPECT_EQ(log.Count(), 0);
  });
}

// A default stream that nobody has used is obtained at the first look, which
// is no call for a host function; devrt says so itself.
// C42
TEST_F(HostFuncInside, FirstLookAtADefaultStreamInside) {
  InEverySchedule([] {
    LogCapture log;
    Refused refused;
    Inside([&] {
      refused = {{"query", DefaultStream(dev(3)).Query().status()},
                 {"native", DefaultStream(dev(3)).Native().status()}};
    });
    ASSERT_EQ(refused.size(), 2u);
    for (const auto& [name, status] : refused) {
      EXPECT_STATUS(status, kFailedPrecondition, "the default stream of mtia:3")
          << name;
      EXPECT_STATUS(status, kFailedPrecondition, "inside a host function")
          << name;
    }
    EXPECT_EQ(log.Count(LogLevel::kError), 0);
    EXPECT_OK(DefaultStream(dev(3)).Query());
    absl::Status now;
    Inside([&] { now = DefaultStream(dev(3)).Query().status(); });
    EXPECT_OK(now);
  });
}

// The destructors of a host function's objects may need calls that a host
// function may not make.
// C42
TEST_F(HostFuncInside, OwnedObjectsAreReleasedOutside) {
  InEverySchedule([] {
    auto owned = std::make_shared<Cell>(dev());
    std::weak_ptr<Cell> watch = owned;
    Stream s = NewStream();
    ASSERT_OK(LaunchHostFunc(s, [owned](absl::Status) {}));
    owned.reset();
    ASSERT_OK(s.Synchronize());
    ASSERT_OK(s.Synchronize());  // whoever calls next cleans up
    EXPECT_TRUE(watch.expired());
    EXPECT_EQ(sim().Stats()->live_blocks, 0u);
  });
}

// By whatever call comes next, if it only looks or waits.
// C42
TEST_F(HostFuncInside, WaitsAndQueriesReleaseOwnedObjects) {
  InEverySchedule([] {
    Stream s = NewStream();
    Event e = NewEvent();
    const std::function<bool()> ways[] = {
        [&] { return dev(1).Synchronize().ok(); },
        [&] { return *s.Query(); },
        [&] { return *e.Query(); },
        [&] { return e.Synchronize().ok(); },
        [&] { return s.Synchronize().ok(); },
        [&] { return Stream::Create(dev(1)).ok(); },
        [&] { return Event::Create(dev(1)).ok(); },
    };
    for (size_t i = 0; i < std::size(ways); ++i) {
      auto owned = std::make_shared<Stream>(NewStream(dev(2)));
      std::weak_ptr<Stream> watch = owned;
      const uint64_t before = sim().Stats()->host_funcs_run;
      ASSERT_OK(e.Record(s));
      ASSERT_OK(LaunchHostFunc(s, [owned](absl::Status) {}));
      owned.reset();
      while (sim().Stats()->pending_ops != 0) ASSERT_OK(sim().Yield());
      EXPECT_EQ(sim().Stats()->host_funcs_run, before + 1);
      EXPECT_FALSE(watch.expired()) << i;
      EXPECT_TRUE(ways[i]()) << i;
      EXPECT_TRUE(watch.expired()) << i;
    }
  });
}

// The user could destroy nothing that stands in the way.
// C42
TEST_F(HostFuncInside, OwnedObjectsDoNotPreventAReset) {
  InEverySchedule([] {
    {
      auto owned = std::make_shared<Stream>(NewStream(dev(2)));
      ASSERT_OK(LaunchHostFunc(DefaultStream(dev()), [owned](absl::Status) {}));
    }
    while (sim().Stats()->pending_ops != 0) ASSERT_OK(sim().Yield());
    ASSERT_OK(sim().Reset("devices=4"));
  });
}

// The destruction of objects inside a host function takes effect after it.
// C42
TEST_F(HostFuncInside, DestructionInsideIsDeferred) {
  struct Held {
    std::vector<Stream> streams;
    std::vector<Event> events;
    std::optional<Flag> flag;
    std::optional<Stream> adopted;
  };
  InEverySchedule([] {
    LogCapture log;
    Stream foreign = NewStream();
    EventOptions interprocess;
    interprocess.interprocess = true;
    auto held = std::make_unique<Held>();
    for (int i = 0; i < 400; ++i) {
      held->streams.push_back(NewStream());
      if (i % 2 == 0) {
        ASSERT_OK(Spin(held->streams.back(), 1));
      }
      if (i % 3 == 0) {
        ASSERT_OK(held->streams.back().Native());
      }
    }
    held->adopted = Must(Stream::FromNative(dev(), Must(foreign.Native())));
    held->flag = NewFlag();
    if (dev().backend().Has(DEVRT_CAP_EVENT_IPC)) {
      held->events.push_back(NewEvent(dev(), interprocess));
      ASSERT_OK(held->events.back().Record(foreign));
    }
    ASSERT_OK(dev().Synchronize());
    const uint64_t events = Must(sim().Stats()).live_events;
    const size_t ipc = held->events.size();
    Inside([&] { held.reset(); });
    EXPECT_EQ(held, nullptr);
    ASSERT_OK(dev().Synchronize());
    EXPECT_EQ(log.Count(), 0);
    EXPECT_LE(Must(sim().Stats()).live_streams, 256u + 4);
    EXPECT_EQ(Must(sim().Stats()).live_events, events - ipc);
    EXPECT_OK(Spin(foreign, 1));
  });
}

}  // namespace
}  // namespace devrt::testing
