// SPDX-License-Identifier: Apache-2.0
//
// Handing a thread's devices and streams to another, and that threads do not
// see each other's (C97, F35).

#include <optional>
#include <thread>

#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;

using ThreadContextTest = MtiaTest;

TEST_F(ThreadContextTest, PoolThreadWithAndWithoutTheScope) {
  Stream s = NewStream(dev(2));
  StreamGuard guard(s);
  const ThreadContext context = ThreadContext::Capture();
  std::thread([&] {
    EXPECT_EQ(Current(), dev(0));
    EXPECT_EQ(CurrentStream(dev(2)), DefaultStream(dev(2)));
    Must(SetCurrentDevice(dev(1)));
    {
      ThreadContextScope scope(context);
      EXPECT_OK(scope.status());
      EXPECT_EQ(Current(), dev(2));
      EXPECT_EQ(CurrentStream(dev(2)), s.ref());
    }
    EXPECT_EQ(Current(), dev(1));
    EXPECT_EQ(CurrentStream(dev(2)), DefaultStream(dev(2)));
  }).join();
}

TEST_F(ThreadContextTest, CapturesEveryDeviceOfEveryOpenBackend) {
  Stream s = NewStream(dev(3));
  Must(SetCurrentStream(s));
  const ThreadContext context = ThreadContext::Capture();
  EXPECT_THAT(context.devices(), ::testing::Contains(dev(0)));
  for (int i = 0; i < kDevices; ++i) {
    EXPECT_THAT(context.streams(), ::testing::Contains(CurrentStream(dev(i))));
  }
  Must(SetCurrentStream(DefaultStream(dev(3))));
}

TEST_F(ThreadContextTest, IsAValue) {
  ThreadContext a = ThreadContext::Capture();
  ThreadContext b = a;
  Must(SetCurrentDevice(dev(1)));
  b = ThreadContext::Capture();
  {
    ThreadContextScope scope(a);
    EXPECT_EQ(Current(), dev(0));
  }
  {
    ThreadContextScope scope(b);
    EXPECT_EQ(Current(), dev(1));
  }
  EXPECT_EQ(Current(), dev(1));
}

// The context keeps no stream alive: what died is said and left out, the rest
// takes effect.
TEST_F(ThreadContextTest, DestroyedStreamIsReportedAndLeftOut) {
  Stream alive = NewStream(dev(1));
  std::optional<ThreadContext> context;
  {
    Stream s = NewStream(dev(0));
    StreamGuard dead(s), guard(alive);
    context = ThreadContext::Capture();
  }
  Stream mine = NewStream(dev(0));
  Must(SetCurrentStream(mine));
  Must(SetCurrentDevice(dev(3)));
  {
    ThreadContextScope scope(*context);
    EXPECT_THAT(scope.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("destroyed")));
    EXPECT_EQ(CurrentStream(dev(0)), mine.ref());
    EXPECT_EQ(CurrentStream(dev(1)), alive.ref());
    EXPECT_EQ(Current(), dev(1));
  }
  EXPECT_EQ(Current(), dev(3));
  EXPECT_EQ(CurrentStream(dev(0)), mine.ref());
  EXPECT_EQ(CurrentStream(dev(1)), DefaultStream(dev(1)));
  Must(SetCurrentStream(DefaultStream(dev(0))));
}

// Other devices keep working (C95), their streams too.
TEST_F(ThreadContextTest, LostDeviceIsLeftOut) {
  LogCapture log;
  Stream alive = NewStream(dev(2));
  std::optional<ThreadContext> context;
  {
    StreamGuard guard(alive);
    context = ThreadContext::Capture();
  }
  Stream bad = NewStream(dev(1));
  Must(CommitFault(bad, FaultForm::kTrap));
  EXPECT_FALSE(bad.Synchronize().ok());
  {
    ThreadContextScope scope(*context);
    EXPECT_THAT(scope.status(),
                StatusIs(absl::StatusCode::kInternal, HasSubstr("mtia:1")));
    EXPECT_EQ(CurrentStream(dev(2)), alive.ref());
    EXPECT_EQ(Current(), dev(2));
  }
  EXPECT_EQ(CurrentStream(dev(2)), DefaultStream(dev(2)));
  EXPECT_EQ(Current(), dev(0));
}

TEST_F(ThreadContextTest, LostDeviceIsReported) {
  LogCapture log;
  std::optional<ThreadContext> context;
  {
    DeviceGuard guard(dev(1));
    context = ThreadContext::Capture();
  }
  Stream bad = NewStream(dev(1));
  Must(CommitFault(bad, FaultForm::kTrap));
  EXPECT_FALSE(bad.Synchronize().ok());
  {
    ThreadContextScope scope(*context);
    EXPECT_THAT(scope.status(), StatusIs(absl::StatusCode::kInternal,
                                         HasSubstr("quarantined")));
    EXPECT_EQ(Current(), dev(0));
  }
  EXPECT_EQ(Current(), dev(0));
  // A capture of now leaves the lost device out.
  ThreadContextScope scope(ThreadContext::Capture());
  EXPECT_OK(scope.status());
}

// Every thread walks over all devices with guards three deep and checks what
// it sees at each step.
void WalkAllDevices(int thread, int rounds,
                    const std::vector<Stream>& streams) {
  for (int round = 0; round < rounds; ++round) {
    for (int i = 0; i < MtiaTest::kDevices; ++i) {
      const int a = (thread + i) % MtiaTest::kDevices;
      const int b = (a + 1 + round) % MtiaTest::kDevices;
      const Device device_a = MtiaTest::dev(a), device_b = MtiaTest::dev(b);
      const StreamRef stream_b = streams[static_cast<size_t>(b)];
      DeviceGuard one(device_a);
      ASSERT_EQ(MtiaTest::Current(), device_a);
      {
        StreamGuard two(stream_b);
        ASSERT_EQ(MtiaTest::Current(), device_b);
        ASSERT_EQ(CurrentStream(device_b), stream_b);
        {
          MultiStreamGuard three(
              {DefaultStream(device_b), stream_b, DefaultStream(device_a)});
          ASSERT_EQ(CurrentStream(device_a), DefaultStream(device_a));
          ASSERT_EQ(MtiaTest::Current(), device_b);
        }
        ASSERT_EQ(CurrentStream(device_b), stream_b);
      }
      ASSERT_EQ(MtiaTest::Current(), device_a);
      ASSERT_EQ(CurrentStream(device_b), DefaultStream(device_b));
    }
  }
  ASSERT_EQ(MtiaTest::Current(), MtiaTest::dev(0));
}

// C97
TEST_F(ThreadContextTest, SixtyFourThreadsOverAllDevices) {
  for (const char* mode : {"mode=threaded", "mode=virtual"}) {
    SCOPED_TRACE(mode);
    Reset(mode);
    std::vector<Stream> streams;
    for (int i = 0; i < kDevices; ++i) streams.push_back(NewStream(dev(i)));
    InThreads(64, [&](int thread) { WalkAllDevices(thread, 20, streams); });
    EXPECT_EQ(Current(), dev(0));
    for (int i = 0; i < kDevices; ++i) {
      EXPECT_EQ(CurrentStream(dev(i)), DefaultStream(dev(i)));
    }
  }
}

// Current streams carry each thread's work to the stream it chose.
// C97
TEST_F(ThreadContextTest, WorkOfThreadsDoesNotMix) {
  for (const char* mode : {"mode=threaded", "mode=virtual,strategy=lifo"}) {
    SCOPED_TRACE(mode);
    Reset(mode);
    InThreads(16, [&](int thread) {
      const Device device = dev(thread % kDevices);
      Stream s = NewStream(device);
      Cell x(device);
      StreamGuard guard(s);
      for (int i = 0; i < 20; ++i) {
        Must(Add(CurrentStream(Must(CurrentDevice("mtia"))), x, x, 1));
      }
      Must(CurrentStream(device).Synchronize());
      EXPECT_EQ(x.Peek(), 20);
    });
  }
}

// The settings of a thread end with it. The next thread starts with the
// defaults.
// C97
TEST_F(ThreadContextTest, ThreadsLeaveNothingBehind) {
  Stream s = NewStream(dev(1));
  for (int i = 0; i < 20; ++i) {
    std::thread([&] {
      EXPECT_EQ(Current(), dev(0));
      EXPECT_EQ(CurrentStream(dev(1)), DefaultStream(dev(1)));
      Must(SetCurrentDevice(dev(1)));
      Must(SetCurrentStream(s));
    }).join();
  }
}

}  // namespace
}  // namespace devrt::testing
