// SPDX-License-Identifier: Apache-2.0
//
// Order of streams: S1-S8, T1, Q1-Q4 of simulator-rules.md; C6-C23 of
// semantics.md.
#include <set>
#include <thread>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

class Order : public EngineTest {
 protected:
  // Runs `body` under every strategy (random: `seeds` times) and both modes.
  template <class F>
  void InEverySchedule(F body, int seeds = 20) {
    for (const std::string strategy : kStrategies) {
      const int runs = strategy == "random" ? seeds : 1;
      for (int seed = 0; seed < runs; ++seed) {
        const std::string config =
            "strategy=" + strategy + ",seed=" + std::to_string(seed);
        SCOPED_TRACE(config);
        Reset(config);
        body();
      }
    }
    SCOPED_TRACE("threaded");
    Reset("mode=threaded");
    body();
  }
};

TEST_F(Order, StreamIsFifo) {
  InEverySchedule([] {
    devrt_stream s = NewStream();
    int64_t* const x = NewCell(0, 1);
    int64_t expected = 1;
    for (int i = 0; i < 20; ++i) {
      MulAdd(s, x, 3, i);
      expected = expected * 3 + i;
    }
    Sync(s);
    EXPECT_EQ(Peek(x), expected);
  });
}

TEST_F(Order, ThousandIncrements) {
  devrt_stream s = NewStream();
  int64_t* const x = NewCell();
  for (int i = 0; i < 1000; ++i) MulAdd(s, x, 1, 1);
  Sync(s);
  EXPECT_EQ(Peek(x), 1000);
}

TEST_F(Order, UnorderedStreamsReachBothOrders) {
  std::set<int64_t> seen;
  for (const std::string strategy : kStrategies) {
    for (int seed = 0; seed < 20; ++seed) {
      Reset("strategy=" + strategy + ",seed=" + std::to_string(seed));
      devrt_stream a = NewStream();
      devrt_stream b = NewStream();
      int64_t* const x = NewCell();
      Put(a, x, 1);
      Put(b, x, 2);
      Sync(a);
      Sync(b);
      seen.insert(Peek(x));
    }
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(1, 2));
}

// Two read-modify-writes lose an update: operations are not atomic.
TEST_F(Order, TwoPhasesLoseUpdates) {
  std::set<int64_t> seen;
  for (int seed = 0; seed < 100; ++seed) {
    Reset("strategy=random,seed=" + std::to_string(seed));
    devrt_stream a = NewStream();
    devrt_stream b = NewStream();
    int64_t* const x = NewCell(0, 1);
    MulAdd(a, x, 1, 10);
    MulAdd(b, x, 2, 0);
    Sync(a);
    Sync(b);
    seen.insert(Peek(x));
  }
  // Serial: 22 and 12.  Lost: 11 and 2.
  EXPECT_THAT(seen, ::testing::ElementsAre(2, 11, 12, 22));
}

TEST_F(Order, CopiesOfAnEngineReachBothOrders) {
  std::set<int64_t> seen;
  for (int seed = 0; seed < 50; ++seed) {
    Reset("strategy=random,pageable=late,seed=" + std::to_string(seed));
    devrt_stream a = NewStream();
    devrt_stream b = NewStream();
    int64_t* const x = NewCell();
    const int64_t one = 1, two = 2;
    OK(ops().copy_async(self(), a, x, &one, sizeof one, DEVRT_COPY_H2D));
    OK(ops().copy_async(self(), b, x, &two, sizeof two, DEVRT_COPY_H2D));
    Sync(a);
    Sync(b);
    seen.insert(Peek(x));
  }
  EXPECT_THAT(seen, ::testing::ElementsAre(1, 2));
}

// C8: k1(blocking), k2(legacy), k3(blocking), and two blocking streams.
TEST_F(Order, LegacyRule) {
  InEverySchedule([] {
    devrt_stream a = NewStream(0, DEVRT_STREAM_BLOCKING);
    devrt_stream b = NewStream(0, DEVRT_STREAM_BLOCKING);
    int64_t* const x = NewCell(0, 1);
    MulAdd(a, x, 3, 0);
    MulAdd(Legacy(), x, 1, 1);
    MulAdd(b, x, 5, 0);
    Sync(b);
    EXPECT_EQ(Peek(x), 20);
  });
}

// C9, C30: a record or a wait as the only legacy operation is a barrier.
TEST_F(Order, LegacyRecordAndWaitAreBarriers) {
  InEverySchedule([] {
    devrt_stream a = NewStream(0, DEVRT_STREAM_BLOCKING);
    devrt_stream b = NewStream(0, DEVRT_STREAM_BLOCKING);
    devrt_stream other = NewStream();
    int64_t* const x = NewCell(0, 1);
    MulAdd(a, x, 3, 0);
    Mark(Legacy());
    MulAdd(b, x, 1, 1);
    Wait(Legacy(), Mark(other));
    MulAdd(a, x, 7, 0);
    Sync(a);
    EXPECT_EQ(Peek(x), 28);
  });
}

// The prototype's fault: a wait with no operation behind it on a blocking
// stream belongs to what a legacy operation comes after.
TEST_F(Order, LegacyRuleCoversPendingWaits) {
  InEverySchedule([] {
    devrt_stream producer = NewStream();
    devrt_stream blocking = NewStream(0, DEVRT_STREAM_BLOCKING);
    int64_t* const x = NewCell(0, 1);
    MulAdd(producer, x, 3, 0);
    Wait(blocking, Mark(producer));
    MulAdd(Legacy(), x, 1, 1);
    Sync(Legacy());
    EXPECT_EQ(Peek(x), 4);
  });
}

TEST_F(Order, NonBlockingIgnoresLegacy) {
  devrt_stream s = NewStream();
  devrt_flag flag = NewFlag();
  Hold(s, flag);
  int64_t* const x = NewCell();
  Put(Legacy(), x, 1);
  Sync(Legacy());
  EXPECT_EQ(Peek(x), 1);
  EXPECT_FALSE(Done(s));
  Set(flag);
  Sync(s);
}

TEST_F(Order, BlockingStreamsAreUnordered) {
  devrt_stream a = NewStream(0, DEVRT_STREAM_BLOCKING);
  devrt_stream b = NewStream(0, DEVRT_STREAM_BLOCKING);
  devrt_flag flag = NewFlag();
  Hold(a, flag);
  int64_t* const x = NewCell();
  Put(b, x, 1);
  Sync(b);
  EXPECT_EQ(Peek(x), 1);
  Set(flag);
  Sync(a);
}

TEST_F(Order, DefaultStreamsOfDevicesAreUnordered) {
  devrt_flag flag = NewFlag();
  Hold(Legacy(0), flag);
  int64_t* const x = NewCell(1);
  Put(Legacy(1), x, 1);
  Sync(Legacy(1));
  OK(ops().device_sync(self(), 1));
  EXPECT_EQ(Peek(x), 1);
  Set(flag);
  OK(ops().device_sync(self(), 0));
}

// Q4, C21: so does its query.
TEST_F(Order, LegacySyncCoversBlockingStreams) {
  InEverySchedule([] {
    devrt_stream a = NewStream(0, DEVRT_STREAM_BLOCKING);
    devrt_flag flag = NewFlag();
    int64_t* const x = NewCell();
    Hold(a, flag);
    Put(a, x, 1);
    EXPECT_FALSE(Done(Legacy()));
    Set(flag);
    Sync(Legacy());
    EXPECT_EQ(Peek(x), 1);
  });
}

TEST_F(Order, DeviceSyncCoversDestroyedStreams) {
  InEverySchedule([] {
    devrt_stream s = NewStream();
    int64_t* const x = NewCell();
    devrt_flag flag = NewFlag();
    Hold(s, flag);
    Put(s, x, 7);
    OK(ops().stream_destroy(self(), s));
    EXPECT_EQ(Peek(x), 0);
    Set(flag);
    OK(ops().device_sync(self(), 0));
    EXPECT_EQ(Peek(x), 7);
  });
}

// F28: the running operation counts.
TEST_F(Order, QueryCountsTheRunningOperation) {
  devrt_stream s = NewStream();
  devrt_flag flag = NewFlag();
  Hold(s, flag);
  for (int i = 0; i < 200; ++i) {
    EXPECT_FALSE(Done(s));
  }
  Set(flag);
  Sync(s);
  EXPECT_TRUE(Done(s));
}

TEST_F(Order, DefaultStreamsCannotBeDestroyed) {
  for (const uint32_t kind : {DEVRT_STREAM_LEGACY, DEVRT_STREAM_PER_THREAD}) {
    devrt_stream s = Special(kind);
    EXPECT_EQ(s, Special(kind));
    ExpectCode(ops().stream_destroy(self(), s), DEVRT_INVALID_ARGUMENT);
    int64_t* const x = NewCell();
    Put(s, x, 1);
    Sync(s);
    EXPECT_EQ(Peek(x), 1);
  }
}

TEST_F(Order, AdoptedStreams) {
  devrt_stream owner = NewStream(1);
  devrt_stream_desc_v0 desc = {};
  desc.struct_size = sizeof desc;
  desc.kind = DEVRT_STREAM_ADOPT;
  desc.native = owner;
  devrt_stream adopted = nullptr;
  ExpectCode(ops().stream_create(self(), 0, &desc, &adopted),
             DEVRT_INVALID_ARGUMENT);
  OK(ops().stream_create(self(), 1, &desc, &adopted));
  int64_t* const x = NewCell(1);
  Put(adopted, x, 1);
  Put(owner, x, 2);
  Sync(adopted);
  EXPECT_EQ(Peek(x), 2);
  OK(ops().stream_destroy(self(), owner));
  ExpectCode(ops().stream_sync(self(), adopted), DEVRT_INVALID_ARGUMENT);
  OK(ops().stream_destroy(self(), adopted));
  ExpectCode(ops().stream_create(self(), 1, &desc, &adopted),
             DEVRT_INVALID_ARGUMENT);
  for (uint64_t special : {0, 1, 2}) {
    desc.native = reinterpret_cast<void*>(special);
    OK(ops().stream_create(self(), 0, &desc, &adopted));
    Sync(adopted);
    OK(ops().stream_destroy(self(), adopted));
  }
}

TEST_F(Order, StaleAndForeignHandlesAreErrors) {
  devrt_stream s = NewStream();
  devrt_event e = NewEvent();
  OK(ops().stream_destroy(self(), s));
  ExpectCode(ops().stream_sync(self(), s), DEVRT_INVALID_ARGUMENT);
  ExpectCode(ops().stream_destroy(self(), s), DEVRT_INVALID_ARGUMENT);
  ExpectCode(ops().stream_sync(self(), reinterpret_cast<devrt_stream>(e)),
             DEVRT_INVALID_ARGUMENT);
  int on_stack = 0;
  ExpectCode(
      ops().stream_sync(self(), reinterpret_cast<devrt_stream>(&on_stack)),
      DEVRT_INVALID_ARGUMENT);
  ExpectCode(ops().stream_sync(self(), nullptr), DEVRT_INVALID_ARGUMENT);
  devrt_stream before = NewStream();
  Reset("");
  const Result error = Take(ops().stream_sync(self(), before));
  EXPECT_EQ(error.code, DEVRT_INVALID_ARGUMENT);
  EXPECT_THAT(error.text, ::testing::HasSubstr("reset"));
}

TEST_F(Order, CurrentDeviceFollowsEnterAndExit) {
  devrt_context before;
  uint32_t device = 9;
  OK(ops().context_enter(self(), 1, &before));
  OK(ops().context_current(self(), &device));
  EXPECT_EQ(device, 1u);
  const Result error = Take(ops().context_enter(self(), 2, nullptr));
  EXPECT_EQ(error.text, "Device index value 2 is out of index range [0, 2)");
  OK(ops().context_current(self(), &device));
  EXPECT_EQ(device, 1u);
  OK(ops().context_exit(self(), &before));
  OK(ops().context_current(self(), &device));
  EXPECT_EQ(device, 0u);
}

// C6: beyond queue_depth the enqueue waits, but only for its own stream.
TEST_F(Order, QueueDepthBlocksTheCaller) {
  Reset("queue_depth=1000");
  devrt_stream s = NewStream();
  int64_t* const x = NewCell();
  for (int i = 0; i < 3000; ++i) MulAdd(s, x, 1, 1);
  EXPECT_LE(Stats().pending_ops, 1000u);
  Sync(s);
  EXPECT_EQ(Peek(x), 3000);
  devrt_flag flag = NewFlag();
  Hold(s, flag);
  for (int i = 0; i < 999; ++i) MulAdd(s, x, 1, 1);
  EXPECT_EQ(Take(TryLaunch(s, [](const devrt_kernel_context_v0*) {})).code,
            DEVRT_FAILED_PRECONDITION);  // held for ever: reported
  Set(flag);
  Sync(s);
  EXPECT_EQ(Peek(x), 3999);
}

TEST_F(Order, EveryOperationTakesTime) {
  devrt_stream s = NewStream();
  devrt_event a = Mark(s);
  devrt_event b = Mark(s);
  Sync(s);
  int64_t ns = 0;
  OK(ops().event_elapsed_ns(self(), a, b, &ns));
  EXPECT_GT(ns, 0);
}

// S4, C17: a wait that no work followed is an action of its stream, also when
// that is destroyed or its thread has ended.
TEST_F(Order, BareWaitOutlivesItsStream) {
  for (const std::string mode : {"virtual", "threaded"}) {
    for (const bool per_thread : {false, true}) {
      Reset("mode=" + mode);
      int64_t* const x = NewCell();
      devrt_stream held = NewStream();
      devrt_flag flag = NewFlag();
      Hold(held, flag);
      Put(held, x, 7);
      devrt_event e = Mark(held);
      std::thread([e, per_thread] {
        devrt_stream waits = per_thread ? Special(DEVRT_STREAM_PER_THREAD)
                                        : NewStream(0, DEVRT_STREAM_BLOCKING);
        Wait(waits, e);
        if (!per_thread) OK(ops().stream_destroy(self(), waits));
      }).join();
      EXPECT_FALSE(Done(Legacy())) << mode << per_thread;
      MulAdd(Legacy(), x, 2, 1);
      Set(flag);
      Sync(Legacy());
      EXPECT_EQ(Peek(x), 15) << mode << per_thread;
    }
  }
}

// A kernel that declares memory as written only.
class WrittenOnly : public EngineTest {
 protected:
  // The value of a cell of 5 after `body`.
  static int64_t After(void (*body)(int64_t* cell)) {
    int64_t* const cell = NewCell(0, 5);
    devrt_stream s = NewStream();
    Launch(
        s,
        [cell, body](const devrt_kernel_context_v0* context) {
          constexpr uint32_t kBoth = DEVRT_ACCESS_READ | DEVRT_ACCESS_WRITE;
          body(static_cast<int64_t*>(context->local(context, cell, 8, kBoth)));
        },
        {{cell, 8, DEVRT_ACCESS_WRITE, 0}});
    Sync(s);
    return Peek(cell);
  }
};

TEST_F(WrittenOnly, AReadByAPointerToConstIsAFault) {
  int64_t* const cell = NewCell(0, 5);
  devrt_stream s = NewStream();
  Launch(s,
         [cell](const devrt_kernel_context_v0* context) {
           context->local(context, cell, 8, DEVRT_ACCESS_READ);
         },
         {{cell, 8, DEVRT_ACCESS_WRITE, 0}});
  const Result result = Take(ops().stream_sync(self(), s));
  EXPECT_EQ(result.native_code, 700);
  EXPECT_THAT(result.text, ::testing::HasSubstr("declares as read"));
}

TEST_F(WrittenOnly, KeepsWhatTheKernelLeavesOut) {
  EXPECT_EQ(After([](int64_t*) {}), 5);
  EXPECT_EQ(After([](int64_t* cell) { *cell = -1; }), -1);
}

TEST_F(WrittenOnly, PoisonShowsWhatTheKernelReads) {
  Reset("written=poison");
  EXPECT_EQ(After([](int64_t* cell) { *cell = 7; }), 7);
  EXPECT_EQ(After([](int64_t* cell) { *cell = -1; }), -1);
  EXPECT_EQ(After([](int64_t* cell) { *cell += 2; }), 1);  // and not 7
}

}  // namespace
}  // namespace devrt::test
