// SPDX-License-Identifier: Apache-2.0
//
// How many calls of the backend order costs, and what they wait for.

#include <optional>
#include <vector>

#include "devrt/arrays/dlpack.h"
#include "devrt/arrays/operations.h"
#include "streams/common/deferred_deletion.h"
#include "streams/objects/device_streams.h"
#include "streams/objects/ordering.h"
#include "tests/arrays/arrays_fixture.h"

namespace devrt::testing {
namespace {

int g_recorded = 0;
int g_waited = 0;
int g_queries = 0;
int g_host_waits = 0;
devrt_ops_v0 g_plugin;

// Counts the calls of the backend's table that order things.
class Calls : public ArraysTest {
 protected:
  void SetUp() override {
    ArraysTest::SetUp();
    ops_ = &dev().record()->backend->ops;
    g_plugin = *ops_;
    ops_->event_record = [](void* self, devrt_event e, devrt_stream s) {
      ++g_recorded;
      return g_plugin.event_record(self, e, s);
    };
    ops_->stream_wait_event = [](void* self, devrt_stream s, devrt_event e) {
      ++g_waited;
      return g_plugin.stream_wait_event(self, s, e);
    };
    ops_->event_query = [](void* self, devrt_event e, uint32_t* done) {
      ++g_queries;
      return g_plugin.event_query(self, e, done);
    };
    ops_->stream_query = [](void* self, devrt_stream s, uint32_t* done) {
      ++g_queries;
      return g_plugin.stream_query(self, s, done);
    };
    ops_->stream_sync = [](void* self, devrt_stream s) {
      ++g_host_waits;
      return g_plugin.stream_sync(self, s);
    };
    ops_->event_sync = [](void* self, devrt_event e) {
      ++g_host_waits;
      return g_plugin.event_sync(self, e);
    };
    ops_->device_sync = [](void* self, uint32_t device) {
      ++g_host_waits;
      return g_plugin.device_sync(self, device);
    };
  }
  void TearDown() override {
    *ops_ = g_plugin;
    ArraysTest::TearDown();
  }
  static void Forget() { g_recorded = g_waited = g_queries = g_host_waits = 0; }
  static void Expect(int records, int waits) {
    EXPECT_EQ(g_recorded, records);
    EXPECT_EQ(g_waited, waits);
    EXPECT_EQ(g_queries, 0);
    EXPECT_EQ(g_host_waits, 0);
    Forget();
  }

  devrt_ops_v0* ops_ = nullptr;
};

// E40.
TEST_F(Calls, WorkOnOneStreamRecordsNoEvents) {
  Stream s = NewStream();
  const StreamGuard guard(s);
  const Array host = Filled(Place::Pinned(dev()), 3);
  Forget();
  for (int i = 0; i < 100; ++i) {
    const Array x = NewArray(dev());
    ASSERT_OK(x.Fill(i));
    const Array y = Must(Add(x, 1));
    ASSERT_OK(x.CopyFrom(y));
    ASSERT_OK(x.CopyFrom(host, true));
    ASSERT_OK(Must(x.Reshape({8, 8})).Transpose().Copy().status());
  }
  Expect(0, 0);
}

// One event for all that an operation uses, and none for what is known.
TEST_F(Calls, OperandsOfAStreamNeedOneWait) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array x = Filled(dev(), 1);
  const Array y = Filled(dev(), 1);
  const Array z = Filled(dev(), 1);
  Forget();
  {
    const StreamGuard guard(a);
    ASSERT_OK(Spin(a, kLong));
    ASSERT_OK(x.Fill(2));
    ASSERT_OK(y.Fill(3));
    Expect(0, 0);
  }
  const StreamGuard guard(b);
  ASSERT_OK(AddInto(z, x, y));
  Expect(1, 1);
  ASSERT_OK(AddInto(z, x, y));
  ASSERT_OK(x.Fill(4));
  Expect(0, 0);
}

// Two streams wait for one event.
TEST_F(Calls, EventsAreShared) {
  Stream a = NewStream();
  const Array x = Filled(dev(), 1);
  std::vector<Array> copies;
  std::vector<Stream> readers;
  for (int i = 0; i < 3; ++i) {
    copies.push_back(Filled(dev(), i));
    readers.push_back(NewStream());
  }
  {
    const StreamGuard guard(a);
    ASSERT_OK(Spin(a, kLong));
    ASSERT_OK(x.Fill(2));
  }
  Forget();
  for (size_t i = 0; i < 3; ++i) {
    const StreamGuard guard(readers[i]);
    ASSERT_OK(copies[i].CopyFrom(x));
    Expect(i == 0 ? 1 : 0, 1);
  }
}

// E41: events come from their device's pool, and without timing.  A stream
// keeps CheckpointList::kMost of them, here 64, at most.
TEST_F(Calls, EventsComeFromThePool) {
  static int creations;
  static bool timed;
  creations = 0;
  timed = false;
  ops_->event_create = [](void* self, uint32_t device, uint32_t flags,
                          devrt_event* event) {
    ++creations;
    timed |= (flags & DEVRT_EVENT_TIMING) != 0;
    return g_plugin.event_create(self, device, flags, event);
  };
  Stream a = NewStream(dev(1));
  Stream b = NewStream(dev(0));
  const Array x = Filled(dev(1), 1);
  const Array y = Filled(dev(0), 1);
  Forget();
  for (int i = 0; i < 1000; ++i) {
    const MultiStreamGuard guard({a, b});
    ASSERT_OK(Spin(a, kLong));
    ASSERT_OK(x.Fill(i));
    ASSERT_OK(y.CopyFrom(x));  // b waits for a
    ASSERT_OK(y.Ready());
  }
  EXPECT_GE(g_recorded, 1000);
  EXPECT_LT(creations, 2 * 64 + 8);
  EXPECT_FALSE(timed);
}

// The default stream and a blocking one are ordered as they are (C8).
TEST_F(Calls, TheDefaultStreamsRuleCostsNothing) {
  Stream blocking = NewBlocking();
  const Array x = Filled(dev(), 1);
  Forget();
  ASSERT_OK(x.Fill(2));
  const StreamGuard guard(blocking);
  ASSERT_OK(x.Fill(3));
  Expect(0, 0);
}

TEST_F(Calls, CompleteWorkNeedsNoWait) {
  Stream a = NewStream();
  Stream b = NewStream();
  const Array x = Filled(dev(), 1);
  {
    const StreamGuard guard(a);
    ASSERT_OK(x.Fill(2));
  }
  ASSERT_OK(a.Synchronize());
  Forget();
  const StreamGuard guard(b);
  ASSERT_OK(x.Fill(3));
  Expect(0, 0);
}

// The event of the stream's end stands for the work of a consumer on that
// stream.
TEST_F(Calls, WorkOfAnEndedConsumerNeedsOneWait) {
  std::optional<Stream> b = NewStream();
  const Array x = Filled(dev(), 1);
  DLPackExport how;
  how.stream =
      static_cast<int64_t>(reinterpret_cast<uintptr_t>(Must(b->Native())));
  DLManagedTensorVersioned* const t = Must(ToDLPack(x, how));
  ASSERT_OK(Spin(*b, kLong));
  b.reset();
  t->deleter(t);
  internal::RunDeferredArrayReleases();  // which ends the native stream
  Forget();
  ASSERT_OK(x.Fill(2));
  Expect(0, 1);
}

// C57: at most one event in each direction.
TEST_F(Calls, PeerCopy) {
  Stream here = NewStream(dev(0));
  Stream there = NewStream(dev(1));
  const Array x = Filled(dev(0), 1);
  const Array y = Filled(dev(1), 2);
  const Array z = Filled(dev(1), 2);
  const MultiStreamGuard guard({here, there});
  Forget();
  ASSERT_OK(y.CopyFrom(x));
  Expect(1, 1) /* nothing to wait for there; who comes next there waits */;
  ASSERT_OK(y.CopyFrom(x));
  Expect(2, 2);
  ASSERT_OK(y.Fill(3));
  Expect(0, 0);
  Stream other = NewStream(dev(1));
  const StreamGuard on_other(other);
  ASSERT_OK(z.CopyFrom(y));
  Expect(1, 1);
}

// One copy of the backend's, nothing beside it.
TEST_F(Calls, PeerCopyIsASingleBackendCopy) {
  ASSERT_OK(sim().EnableTimeline(true));
  const Array x = Filled(dev(0), 1);
  const Array y = Filled(dev(1), 2);
  const size_t before = Must(sim().Timeline()).size();
  ASSERT_OK(y.CopyFrom(x));
  ASSERT_OK(dev(0).Synchronize());
  ASSERT_OK(dev(1).Synchronize());
  size_t copies = 0;
  const auto ops = Must(sim().Timeline());
  for (size_t i = before; i < ops.size(); ++i) {
    if (ops[i].bytes != 0) ++copies;
    EXPECT_TRUE(ops[i].bytes == 0 || ops[i].bytes == x.nbytes());
  }
  EXPECT_EQ(copies, 1u);
  ASSERT_OK(sim().EnableTimeline(false));
}

// The home stream holds the block back by itself; others need an event each.
TEST_F(Calls, TheEndOfAStorage) {
  Stream a = NewStream();
  Stream b = NewStream();
  const StreamGuard home(a);
  std::optional<Array> x = NewArray(dev());
  ASSERT_OK(x->Fill(1));
  Forget();
  x.reset();
  Expect(0, 0);
  x = NewArray(dev());
  ASSERT_OK(x->Fill(1));
  ASSERT_OK(a.Synchronize());
  {
    const StreamGuard guard(b);
    ASSERT_OK(Spin(b, kLong));
    ASSERT_OK(x->Fill(2));
    ASSERT_OK(x->Fill(3));
  }
  Forget();
  x.reset();
  Expect(1, 0);
}

// F22: an adopted stream that may be gone is not touched by who does not name
// it; what waits for it does so by events, not for the device.
TEST_F(Calls, AdoptedStreamsMayBeGone) {
  const Array x = Filled(dev(), 1);
  const Array y = Filled(dev(), 1);
  Stream b = NewStream();
  {
    Stream made = NewStream();
    Stream adopted = Must(Stream::FromNative(dev(), Must(made.Native())));
    const StreamGuard guard(adopted);
    ASSERT_OK(Spin(adopted, kLong));
    Forget();
    ASSERT_OK(x.Fill(7));
    EXPECT_EQ(g_recorded, 1) << "while it is named";
  }
  Forget();
  const StreamGuard guard(b);
  ASSERT_OK(y.CopyFrom(x));
  Expect(0, 1);
  ASSERT_OK(b.Synchronize());
  EXPECT_TRUE(IsAll(y, 7));
}

// The per-thread streams of other threads, which may have ended.
TEST_F(Calls, PerThreadStreams) {
  const Array x = Filled(dev(), 1);
  const Array y = Filled(dev(), 1);
  Stream b = NewStream();
  InThreads(1, [&](int) {
    const StreamRef mine = Must(PerThreadDefaultStream(dev()));
    const StreamGuard guard(mine);
    Must(Spin(mine, kLong));
    Must(x.Fill(7));
  });
  Forget();
  const StreamGuard guard(b);
  ASSERT_OK(y.CopyFrom(x));
  Expect(0, 1);
  ASSERT_OK(b.Synchronize());
  EXPECT_TRUE(IsAll(y, 7));
}

// Many uses of a stream that others cannot reach: never more than
// CheckpointList::kMost events, and the newest is one of them.
TEST_F(Calls, CheckpointsAreThinned) {
  const Array x = Filled(dev(), 1);
  const Array y = Filled(dev(), 1);
  Flag gate = NewFlag();
  Stream made = NewStream();
  Stream adopted = Must(Stream::FromNative(dev(), Must(made.Native())));
  {
    const StreamGuard guard(adopted);
    ASSERT_OK(gate.WaitOn(adopted));
    for (int i = 0; i < 300; ++i) ASSERT_OK(x.Fill(i));
  }
  EXPECT_LT(Must(sim().Stats()).live_events, 80u);
  Stream b = NewStream();
  {
    const StreamGuard guard(b);
    Forget();
    ASSERT_OK(y.CopyFrom(x));
    Expect(0, 1);
  }
  ASSERT_OK(gate.Set());
  ASSERT_OK(b.Synchronize());
  EXPECT_TRUE(IsAll(y, 299));
}

// Its values come from pinned memory, which nobody gets before the copy ends.
TEST_F(Calls, ARangeIsNotWaitedFor) {
  constexpr int64_t kCount = 1000;
  Stream a = NewStream();
  const StreamGuard guard(a);
  ASSERT_OK(Spin(a, kLong));
  const int before = g_host_waits;
  const Array x = Must(Array::Arange(0, kCount, 1, kInt32, dev()));
  EXPECT_EQ(g_host_waits, before);
  EXPECT_THAT(x.IsReady(), IsOkAndHolds(false));
  const Array next = Must(Array::Empty({kCount}, kInt32, Place::Pinned(dev())));
  EXPECT_OK(next.Fill(-1));
  EXPECT_THAT(x.IsReady(), IsOkAndHolds(false));
  const Array host = Must(x.To(Place::Host()));
  for (int32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(host.data_as<int32_t>()[i], i);
  }
}

// E43: for the uses of that memory, not for the device.
TEST_F(Calls, ReadyWaitsForItsUsesOnly) {
  Stream a = NewStream();
  Stream b = NewStream();
  Flag gate = NewFlag();
  const Array x = Filled(dev(), 1);
  const StreamGuard guard(a);
  ASSERT_OK(gate.WaitOn(b));
  ASSERT_OK(x.Fill(2));
  EXPECT_OK(x.Ready());
  EXPECT_TRUE(IsAll(x, 2));
  // Work submitted after the use does not count.
  ASSERT_OK(Spin(a, kLong));
  ASSERT_OK(x.Fill(3));
  EXPECT_THAT(x.IsReady(), IsOkAndHolds(false));
  ASSERT_OK(gate.WaitOn(a));
  EXPECT_OK(x.Ready());
  EXPECT_THAT(x.IsReady(), IsOkAndHolds(true));
  ASSERT_OK(gate.Set());
}

}  // namespace
}  // namespace devrt::testing
