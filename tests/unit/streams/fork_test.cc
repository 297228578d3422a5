// SPDX-License-Identifier: Apache-2.0
//
// Streams, events, copies, launches, host functions, guards and simulator
// calls in a forked child of a process that uses mtia: each answers
// FAILED_PRECONDITION, nothing waits, and destructors are silent (C105, F33).

#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "tests/support/mtia_fixture.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;

// Objects of the parent, which the child destroys too.
struct Made {
  Stream stream = MtiaTest::NewStream();
  Stream adopted =
      Must(Stream::FromNative(stream.device(), Must(stream.Native())));
  Event event = MtiaTest::NewEvent(stream.device(), Timing());
  Event end = MtiaTest::NewEvent(stream.device(), Timing());
  Flag flag = MtiaTest::NewFlag();
  StreamPool pool = Must(StreamPool::Create(stream.device(), 2));
  StreamRef own = Must(PerThreadDefaultStream(stream.device()));
  ThreadContext context = ThreadContext::Capture();
  void* block = Must(Allocate(stream.device(), 64));

  static EventOptions Timing() {
    EventOptions options;
    options.timing = true;
    return options;
  }
};

using Answers = std::vector<std::pair<std::string, absl::Status>>;

Answers StreamCalls(const Made& m) {
  const Device device = m.stream.device();
  const StreamRef s = m.stream;
  return {
      {"create", Stream::Create(device).status()},
      {"adopt", Stream::FromNative(device, nullptr).status()},
      {"pool", StreamPool::Create(device, 2).status()},
      {"per thread", PerThreadDefaultStream(device).status()},
      {"query", s.Query().status()},
      {"query adopted", m.adopted.Query().status()},
      {"query per thread", m.own.Query().status()},
      {"query default", DefaultStream(device).Query().status()},
      {"synchronise", s.Synchronize()},
      {"synchronise default", DefaultStream(device).Synchronize()},
      {"wait", s.Wait(m.event)},
      {"wait for a stream", s.Wait(DefaultStream(device))},
      {"native", s.Native().status()},
      {"set current", SetCurrentStream(s)},
      {"event create", Event::Create(device).status()},
      {"record", m.event.Record(s)},
      {"event query", m.event.Query().status()},
      {"event synchronise", m.event.Synchronize()},
      {"event native", m.event.Native().status()},
      {"elapsed", ElapsedMilliseconds(m.event, m.end).status()},
  };
}

Answers WorkCalls(const Made& m) {
  const Device device = m.stream.device();
  const StreamRef s = m.stream;
  int64_t host = 0;
  return {
      {"copy", Copy(s, m.block, &host, 8)},
      {"copy async", CopyAsync(s, &host, m.block, 8)},
      {"fill", FillAsync(s, m.block, 0, 8)},
      {"launch", Launch(s, {}, [](const LaunchContext&) {})},
      {"host function", LaunchHostFunc(s, [](absl::Status) {})},
      {"spin", Spin(s, 1)},
      {"fault", CommitFault(s, FaultForm::kTrap)},
      {"flag create", Flag::Create(device).status()},
      {"flag wait", m.flag.WaitOn(s)},
      {"flag set on", m.flag.SetOn(s)},
      {"flag set", m.flag.Set()},
      {"flag clear", m.flag.Clear()},
      {"device guard", DeviceGuard(device).status()},
      {"stream guard", StreamGuard(s).status()},
      {"streams guard", MultiStreamGuard({s}).status()},
      {"scope", ThreadContextScope(m.context).status()},
      {"free", Free(device, m.block)},
      {"memory info", device.GetMemoryInfo().status()},
      {"device synchronise", device.Synchronize()},
  };
}

Answers SimulatorCalls(const Simulator& sim) {
  int64_t host = 0;
  return {
      {"get", Simulator::Get().status()},
      {"get by backend", Simulator::Get(sim.backend()).status()},
      {"reset", sim.Reset()},
      {"replay", sim.Replay("dvs1:")},
      {"config", sim.Config().status()},
      {"now", sim.Now().status()},
      {"yield", sim.Yield()},
      {"hash", sim.TraceHash().status()},
      {"token", sim.Token().status()},
      {"fault", sim.InjectFault({})},
      {"enable timeline", sim.EnableTimeline(true)},
      {"timeline", sim.Timeline().status()},
      {"stats", sim.Stats().status()},
      {"deadlock", sim.DeadlockReport().status()},
      {"peek", sim.Peek(&host, &host, 8)},
      {"poke", sim.Poke(&host, &host, 8)},
      {"shutdown", Shutdown()},
  };
}

void ExpectForked(const Answers& answers) {
  for (const auto& [name, status] : answers) {
    EXPECT_STATUS(status, kFailedPrecondition, "forked child") << name;
  }
}

// In a child, which opens the backend and forks its own.
void InGrandchild(const char* config,
                  const std::function<void(Made*, Simulator)>& body) {
  InChild([&] {
    setenv("DEVRT_MTIA", config, 1);
    std::optional<Made> made(std::in_place);
    const Simulator sim = MtiaTest::sim();
    ASSERT_OK(made->event.Record(made->stream));
    ASSERT_OK(made->end.Record(made->stream));
    ASSERT_OK(Spin(made->stream, kLong));
    std::optional<DeviceGuard> guard(made->stream.device());
    std::optional<StreamGuard> on_stream(made->stream);
    InChild([&] {
      LogCapture log;
      body(&*made, sim);
      on_stream.reset();
      guard.reset();
      made.reset();
      EXPECT_EQ(log.Count(LogLevel::kError), 0);
    });
    // The parent is none the worse for it.
    EXPECT_OK(made->stream.Synchronize());
    EXPECT_OK(Free(made->stream.device(), made->block));
  });
}

constexpr const char* kForkModes[] = {"devices=2,mode=virtual",
                                      "devices=2,mode=threaded"};

// F33, C105
TEST(StreamFork, StreamsAndEventsInAChild) {
  for (const char* mode : kForkModes) {
    InGrandchild(mode, [](Made* m, Simulator) {
      ExpectForked(StreamCalls(*m));
      // Names and ids are answered.
      EXPECT_NE(m->stream.id(), 0u);
      EXPECT_EQ(m->event.device(), m->stream.device());
      EXPECT_EQ(m->pool.Next().device(), m->stream.device());
      EXPECT_EQ(CurrentStream(m->stream.device()), m->stream.ref());
      EXPECT_TRUE(ThreadContext::Capture().devices().empty());
    });
  }
}

// F33, C105
TEST(StreamFork, WorkAndGuardsInAChild) {
  for (const char* mode : kForkModes) {
    InGrandchild(mode, [](Made* m, Simulator) { ExpectForked(WorkCalls(*m)); });
  }
}

// F33, C105
TEST(StreamFork, SimulatorCallsInAChild) {
  for (const char* mode : kForkModes) {
    InGrandchild(
        mode, [](Made*, Simulator sim) { ExpectForked(SimulatorCalls(sim)); });
  }
}

}  // namespace
}  // namespace devrt::testing
