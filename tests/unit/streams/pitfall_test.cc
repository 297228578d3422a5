// SPDX-License-Identifier: Apache-2.0
//
// Faults that other simulated backends shipped, F27 to F32 of semantics.md, and
// the items next to them.

#include <gtest/gtest.h>

#include <cstdint>
#include <optional>
#include <set>

#include "devrt/devrt.h"
#include "runtime/registry/records.h"
#include "tests/support/mtia_fixture.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

using Pitfall = MtiaTest;

// Through the C ABI: entering takes effect, leaving restores.
// F27
TEST_F(Pitfall, TheTableSetsAndRestoresTheDevice) {
  const internal::DeviceRecord* record = dev().record();
  const devrt_ops_v0* ops = record->ops;
  uint32_t current = 9;
  devrt_context outer;
  devrt_context inner;
  ASSERT_EQ(ops->context_enter(record->self, 2, &outer), nullptr);
  ASSERT_EQ(ops->context_enter(record->self, 1, &inner), nullptr);
  ASSERT_EQ(ops->context_current(record->self, &current), nullptr);
  EXPECT_EQ(current, 1u);
  ASSERT_EQ(ops->context_exit(record->self, &inner), nullptr);
  ASSERT_EQ(ops->context_current(record->self, &current), nullptr);
  EXPECT_EQ(current, 2u);
  ASSERT_EQ(ops->context_exit(record->self, &outer), nullptr);
  EXPECT_EQ(Must(CurrentDevice("mtia")), dev(0));
}

// F27
TEST_F(Pitfall, SetCurrentStreamTakesEffect) {
  Stream s = NewStream(dev(1));
  ASSERT_OK(SetCurrentStream(s));
  EXPECT_EQ(CurrentStream(dev(1)), s.ref());
  EXPECT_EQ(CurrentStream(dev(0)), DefaultStream(dev(0)));
  ASSERT_OK(SetCurrentStream(DefaultStream(dev(1))));
}

// F27
TEST_F(Pitfall, ElapsedTimeIsMeasured) {
  InVirtualSchedules([] {
    EventOptions timing;
    timing.timing = true;
    Stream s = NewStream();
    double last = 0;
    for (uint64_t length : {kShort, 10 * kShort}) {
      Event a = NewEvent(dev(), timing);
      Event b = NewEvent(dev(), timing);
      ASSERT_OK(a.Record(s));
      ASSERT_OK(Spin(s, length));
      ASSERT_OK(b.Record(s));
      ASSERT_OK(s.Synchronize());
      const double ms = Must(ElapsedMilliseconds(a, b));
      EXPECT_GE(ms, static_cast<double>(length) / 1e6);
      EXPECT_GT(ms, last);
      last = ms;
    }
  });
}

// F28
TEST_F(Pitfall, TheLastRunningOperationCounts) {
  InEverySchedule([] {
    Stream s = NewStream();
    Flag gate = NewFlag();
    ASSERT_OK(gate.WaitOn(s));
    EXPECT_FALSE(Must(s.Query()));
    EXPECT_FALSE(Must(s.Query()));  // also once it has begun
    ASSERT_OK(gate.Set());
    ASSERT_OK(s.Synchronize());
    EXPECT_TRUE(Must(s.Query()));
  });
}

// F29
TEST_F(Pitfall, RerecordBehindAWaitDoesNotDeadlock) {
  InEverySchedule([] {
    Stream a = NewStream();
    Stream b = NewStream();
    Event e = NewEvent();
    ASSERT_OK(e.Record(a));
    ASSERT_OK(b.Wait(e));
    ASSERT_OK(e.Record(b));
    EXPECT_OK(e.Synchronize());
    EXPECT_OK(b.Synchronize());
  });
}

// F29
TEST_F(Pitfall, TwoRecordsInFlightCompleteApart) {
  InEverySchedule([] {
    Stream a = NewStream();
    Flag gate = NewFlag();
    Event e = NewEvent();
    ASSERT_OK(e.Record(a));
    ASSERT_OK(gate.WaitOn(a));
    ASSERT_OK(e.Record(a));  // the newest is behind the gate
    EXPECT_FALSE(Must(e.Query()));
    ASSERT_OK(gate.Set());
    EXPECT_OK(e.Synchronize());
  });
}

// One user's end does not take the memory away from the other.
// F30
TEST_F(Pitfall, CopyAndKernelShareABlock) {
  InEverySchedule([] {
    Cell x(dev());
    x.Poke(3);
    Cell y(dev());
    Stream s = NewStream();
    Stream t = NewStream();
    const int64_t* from = x.ptr();
    int64_t* to = y.ptr();
    int64_t host = 0;
    for (int i = 0; i < 4; ++i) {
      ASSERT_OK(CopyAsync(t, &host, from, 8));
      ASSERT_OK(Launch(
          s, {Read(from, 8), ReadWrite(to, 8)},
          [=](const LaunchContext& k) { *k.Local(to) = *k.Local(from); }));
    }
    ASSERT_OK(dev().Synchronize());
    EXPECT_EQ(host, 3);
    EXPECT_EQ(y.Peek(), 3);
  });
}

// F30
TEST_F(Pitfall, CopiesOfTwoDevicesOverlap) {
  ASSERT_OK(sim().EnableTimeline(true));
  constexpr uint64_t kBytes = uint64_t{1} << 20;
  void* host = Must(AllocateHost(dev(), kBytes));
  void* a = Must(Allocate(dev(0), kBytes));
  void* b = Must(Allocate(dev(1), kBytes));
  {
    Stream s = NewStream(dev(0));
    Stream t = NewStream(dev(1));
    ASSERT_OK(CopyAsync(s, a, host, kBytes));
    ASSERT_OK(CopyAsync(t, b, host, kBytes));
    ASSERT_OK(s.Synchronize());
    ASSERT_OK(t.Synchronize());
  }
  auto ops = Must(sim().Timeline());
  ASSERT_EQ(ops.size(), 2u);
  EXPECT_LT(ops[1].begin_ns, ops[0].end_ns);
  EXPECT_LT(ops[0].begin_ns, ops[1].end_ns);
  EXPECT_OK(Free(dev(0), a));
  EXPECT_OK(Free(dev(1), b));
  EXPECT_OK(FreeHost(host));
}

// F31
TEST_F(Pitfall, DestroyKeepsPendingWork) {
  InEverySchedule([] {
    Cell x(dev());
    Flag gate = NewFlag();
    {
      Stream s = NewStream();
      ASSERT_OK(gate.WaitOn(s));
      ASSERT_OK(Put(s, x, 4));
    }
    ASSERT_OK(gate.Set());
    ASSERT_OK(dev().Synchronize());
    EXPECT_EQ(x.Peek(), 4);
  });
}

// F31
TEST_F(Pitfall, NeverRecordedIsNoError) {
  Event e = NewEvent();
  Stream s = NewStream();
  EXPECT_TRUE(Must(e.Query()));
  EXPECT_OK(e.Synchronize());
  EXPECT_OK(s.Wait(e));
}

// F31
TEST_F(Pitfall, PeerAccessDependsOnTheTopology) {
  Must(sim().Reset("peers=none"));
  EXPECT_FALSE(Must(CanAccessPeer(dev(0), dev(1))));
  EXPECT_EQ(EnablePeerAccess(dev(0), dev(1)).code(),
            absl::StatusCode::kFailedPrecondition);
}

// An engine that runs every operation inside the call fails this test.
// F32
TEST_F(Pitfall, SubmissionDoesNotRun) {
  InEverySchedule([] {
    Cell x(dev());
    Flag gate = NewFlag();
    std::optional<Event> e = NewEvent();
    Stream s = NewStream();
    Stream t = NewStream();
    ASSERT_OK(gate.WaitOn(s));
    ASSERT_OK(e->Record(s));
    ASSERT_OK(t.Wait(*e));
    e.reset();  // C34: the wait holds
    ASSERT_OK(Put(t, x, 1));
    EXPECT_FALSE(Must(t.Query()));
    EXPECT_EQ(x.Peek(), 0);
    ASSERT_OK(gate.Set());
    ASSERT_OK(t.Synchronize());
    EXPECT_EQ(x.Peek(), 1);
  });
}

using SimulatorReset = MtiaTest;
// C72
TEST_F(SimulatorReset, OnlyASimulatorCanBeReset) {
  EXPECT_TRUE(Must(dev().Properties()).device_reset);
  Stream s = NewStream();
  EXPECT_STATUS(sim().Reset(""), kFailedPrecondition, "1 stream");
}

using PeerAccess = MtiaTest;
// C77
TEST_F(PeerAccess, AccessCoversMemoryOfBeforeAndAfter) {
  InEverySchedule([] {
    Cell before(dev(1));
    ASSERT_OK(EnablePeerAccess(dev(0), dev(1)));
    Cell after(dev(1));
    Stream s = NewStream(dev(0));
    for (const Cell* cell : {&before, &after}) {
      int64_t* p = cell->ptr();
      ASSERT_OK(Launch(s, {ReadWrite(p, 8)},
                       [p](const LaunchContext& k) { *k.Local(p) = 9; }));
    }
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(before.Peek(), 9);
    EXPECT_EQ(after.Peek(), 9);
    ASSERT_OK(DisablePeerAccess(dev(0), dev(1)));
  });
}

}  // namespace
}  // namespace devrt::testing
