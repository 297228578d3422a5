// SPDX-License-Identifier: Apache-2.0
//
// Times follow order: whatever comes after something by the rules of order also
// begins no earlier by the clock, so that elapsed time between ordered events
// is never negative (C35), whichever way the host waits (C40).

#include <cstdint>
#include <map>
#include <random>
#include <utility>
#include <vector>

#include "tests/support/event_fixture.h"

namespace devrt::testing {
namespace {

using EventClock = EventTest;

// Every operation began after the end of what the timeline says that it waited
// for, and of its predecessor in its stream.
void ExpectTimesFollowOrder(const std::vector<SimulatedOp>& ops) {
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> ends;
  int edges = 0;
  for (const SimulatedOp& op : ops) ends[{op.stream, op.seq}] = op.end_ns;
  for (const SimulatedOp& op : ops) {
    SCOPED_TRACE(op.name + ", operation " + std::to_string(op.seq) +
                 " of stream " + std::to_string(op.stream));
    ASSERT_EQ(op.state, SimulatedOp::State::kDone);
    EXPECT_LE(op.submit_ns, op.begin_ns);
    EXPECT_LE(op.begin_ns, op.end_ns);
    const auto previous = ends.find({op.stream, op.seq - 1});
    if (previous != ends.end()) {
      EXPECT_LE(previous->second, op.begin_ns);
    }
    for (const auto& dependency : op.dependencies) {
      const auto end = ends.find(dependency);
      if (end == ends.end()) continue;
      ++edges;
      EXPECT_LE(end->second, op.begin_ns)
          << "waited for operation " << dependency.second << " of stream "
          << dependency.first;
    }
  }
  EXPECT_GT(edges, 0);
}

// Random programs of spins, records and waits over blocking and non-blocking
// streams of two devices.
// C35
TEST_F(EventClock, OperationsBeginAfterTheirWaits) {
  uint32_t seed = 0;
  ForEachForm([&] {
    std::mt19937 random(++seed);
    const auto pick = [&random](size_t n) { return random() % n; };
    ASSERT_OK(sim().EnableTimeline(true));
    std::vector<Stream> streams;
    std::vector<Event> events;
    for (int i = 0; i < 2; ++i) {
      streams.push_back(NewStream(dev(i)));
      streams.push_back(NewBlocking(dev(i)));
      events.push_back(New(dev(i)));
    }
    std::vector<StreamRef> all(streams.begin(), streams.end());
    all.push_back(DefaultStream(dev(0)));
    for (int i = 0; i < 60; ++i) {
      const StreamRef from = all[pick(all.size())];
      const StreamRef to = all[pick(all.size())];
      Event& e = events[static_cast<size_t>(from.device().index())];
      ASSERT_OK(Spin(from, 1 + pick(kLong)));
      ASSERT_OK(e.Record(from));
      ASSERT_OK(to.Wait(e));
      if (pick(8) == 0) {
        ASSERT_OK(e.Synchronize());
      }
    }
    for (int i = 0; i < 2; ++i) ASSERT_OK(dev(i).Synchronize());
    ExpectTimesFollowOrder(Must(sim().Timeline()));
  });
}

// Work that was over before the wait was asked for.
// C35
TEST_F(EventClock, AfterAWaitForFinishedWork) {
  ForEachForm([&] {
    Stream a = NewStream(), b = NewStream();
    Event first = New(dev(), Timing()), second = New(dev(), Timing());
    ASSERT_OK(Spin(a, kLong));
    ASSERT_OK(first.Record(a));
    for (int i = 0; i < 10; ++i) ASSERT_OK(first.Query());
    ASSERT_OK(b.Wait(first));
    ASSERT_OK(second.Record(b));
    ASSERT_OK(second.Synchronize());
    EXPECT_GE(Must(ElapsedMilliseconds(first, second)), 0);
  });
}

// C35
TEST_F(EventClock, AfterAHostWait) {
  ForEachForm([&] {
    for (int way = 0; way < 4; ++way) {
      Stream a = NewStream(), b = NewStream();
      Event first = New(dev(), Timing());
      Event second = New(dev(), Timing());
      ASSERT_OK(Spin(a, kLong));
      ASSERT_OK(first.Record(a));
      ASSERT_OK(Spin(a, 1));
      switch (way) {
        case 0:
          ASSERT_OK(first.Synchronize());
          break;
        case 1:
          ASSERT_OK(a.Synchronize());
          break;
        case 2:
          ASSERT_OK(dev().Synchronize());
          break;
        default:
          while (!Must(first.Query())) {
          }
      }
      ASSERT_OK(second.Record(b));
      ASSERT_OK(second.Synchronize());
      ASSERT_OK(a.Synchronize());
      EXPECT_GE(Must(ElapsedMilliseconds(first, second)), 0) << "way " << way;
    }
  });
}

// One thread waits and hands on; what another one then submits comes later.
// C35
TEST_F(EventClock, AfterAnotherThreadsWait) {
  ForEachForm([&] {
    Stream a = NewStream(), b = NewStream();
    Event first = New(dev(), Timing()), second = New(dev(), Timing());
    InThreads(1, [&](int) {
      Must(Spin(a, kLong));
      Must(first.Record(a));
      Must(first.Synchronize());
    });
    ASSERT_OK(second.Record(b));
    ASSERT_OK(second.Synchronize());
    EXPECT_GE(Must(ElapsedMilliseconds(first, second)), 0);
  });
}

}  // namespace
}  // namespace devrt::testing
