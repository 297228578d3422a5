// SPDX-License-Identifier: Apache-2.0
//
// DeviceGuard, StreamGuard and MultiStreamGuard restore exactly what they
// found (C96, F1, F4).

#include <memory>
#include <optional>
#include <stdexcept>

#include "tests/support/mtia_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;

class GuardTest : public MtiaTest {
 protected:
  struct State {
    Device device;
    std::vector<StreamRef> streams;
    bool operator==(const State& o) const {
      return device == o.device && streams == o.streams;
    }
  };
  // The calling thread's current device and streams.
  static State Now() {
    State state = {Must(CurrentDevice("mtia")), {}};
    for (int i = 0; i < kDevices; ++i) {
      state.streams.push_back(CurrentStream(dev(i)));
    }
    return state;
  }
};

using MultiStreamGuardTest = GuardTest;

// C96
TEST_F(GuardTest, DeviceGuardsNest) {
  const State before = Now();
  {
    DeviceGuard one(dev(1));
    EXPECT_OK(one.status());
    EXPECT_EQ(one.device(), dev(1));
    EXPECT_EQ(Now().device, dev(1));
    {
      DeviceGuard two(dev(2));
      DeviceGuard again(dev(2));
      DeviceGuard back(dev(0));
      EXPECT_EQ(Now().device, dev(0));
    }
    EXPECT_EQ(Now().device, dev(1));
    EXPECT_EQ(Now().streams, before.streams);
  }
  EXPECT_EQ(Now(), before);
}

// C96
TEST_F(GuardTest, DeviceGuardUndoesSetInside) {
  Must(SetCurrentDevice(dev(3)));
  {
    DeviceGuard guard(dev(1));
    Must(SetCurrentDevice(dev(2)));
  }
  EXPECT_EQ(Now().device, dev(3));
}

// C96
TEST_F(GuardTest, StreamGuardSetsDeviceAndStream) {
  Stream a = NewStream(dev(1)), b = NewStream(dev(1)), c = NewStream(dev(2));
  const State before = Now();
  {
    StreamGuard one(a);
    EXPECT_OK(one.status());
    EXPECT_EQ(one.stream(), a.ref());
    EXPECT_EQ(Now().device, dev(1));
    EXPECT_EQ(CurrentStream(dev(1)), a.ref());
    EXPECT_EQ(CurrentStream(dev(0)), before.streams[0]);
    {
      StreamGuard two(b), other_device(c), duplicate(b);
      EXPECT_EQ(CurrentStream(dev(1)), b.ref());
      EXPECT_EQ(CurrentStream(dev(2)), c.ref());
      EXPECT_EQ(Now().device, dev(1));
    }
    EXPECT_EQ(CurrentStream(dev(1)), a.ref());
    EXPECT_EQ(CurrentStream(dev(2)), before.streams[2]);
    EXPECT_EQ(Now().device, dev(1));
  }
  EXPECT_EQ(Now(), before);
}

// Switching from device i to j leaves i's current stream alone.
// C96
TEST_F(GuardTest, SwitchingDevicesLeavesStreamsAlone) {
  Stream a = NewStream(dev(0)), b = NewStream(dev(1));
  Must(SetCurrentStream(a));
  Must(SetCurrentStream(b));
  const State before = Now();
  {
    DeviceGuard guard(dev(1));
    EXPECT_EQ(Now().streams, before.streams);
    Must(SetCurrentDevice(dev(2)));
    EXPECT_EQ(Now().streams, before.streams);
  }
  EXPECT_EQ(Now(), before);
  EXPECT_EQ(CurrentStream(dev(0)), a.ref());
  EXPECT_EQ(CurrentStream(dev(1)), b.ref());
  Must(SetCurrentStream(DefaultStream(dev(0))));
  Must(SetCurrentStream(DefaultStream(dev(1))));
}

// C96
TEST_F(GuardTest, StreamGuardUndoesSetInside) {
  Stream a = NewStream(dev(1)), b = NewStream(dev(1));
  const State before = Now();
  {
    StreamGuard guard(a);
    Must(SetCurrentStream(b));
    Must(SetCurrentDevice(dev(3)));
  }
  EXPECT_EQ(Now(), before);
}

// C96
TEST_F(GuardTest, SetCurrentStreamLeavesTheDevice) {
  Stream s = NewStream(dev(2));
  Must(SetCurrentStream(s));
  EXPECT_EQ(Now().device, dev(0));
  EXPECT_EQ(CurrentStream(dev(2)), s.ref());
  Must(SetCurrentStream(DefaultStream(dev(2))));
}

// C96
TEST_F(GuardTest, RestoredAfterAnException) {
  Stream a = NewStream(dev(1)), b = NewStream(dev(2));
  const State before = Now();
  for (int depth = 0; depth < 4; ++depth) {
    try {
      DeviceGuard one(dev(3));
      if (depth == 0) throw std::runtime_error("outer");
      StreamGuard two(a);
      if (depth == 1) throw std::runtime_error("middle");
      MultiStreamGuard three({a, b, a});
      if (depth == 2) throw std::runtime_error("inner");
      DeviceGuard four(dev(0));
      throw std::runtime_error("innermost");
    } catch (const std::runtime_error&) {
    }
    EXPECT_EQ(Now(), before) << depth;
  }
}

// A constructor behind the guard throws.
// C96
TEST_F(GuardTest, RestoredWhenALaterMemberThrows) {
  struct Throws {
    Throws() { throw std::runtime_error("no"); }
  };
  struct Operation {
    explicit Operation(StreamRef s) : on(s) {}
    StreamGuard on;
    Throws throws;
  };
  Stream s = NewStream(dev(1));
  const State before = Now();
  EXPECT_THROW(Operation{s}, std::runtime_error);
  EXPECT_EQ(Now(), before);
}

// C96
TEST_F(GuardTest, OptionalGuard) {
  const State before = Now();
  for (const bool wanted : {false, true}) {
    std::optional<DeviceGuard> guard;
    if (wanted) guard.emplace(dev(2));
    EXPECT_EQ(Now().device, wanted ? dev(2) : before.device);
  }
  EXPECT_EQ(Now(), before);
}

// C96
TEST_F(GuardTest, StreamGuardOnADestroyedStreamChangesNothing) {
  std::optional<Stream> owner = NewStream(dev(1));
  StreamRef s = *owner;
  owner.reset();
  const State before = Now();
  {
    StreamGuard guard(s);
    EXPECT_THAT(guard.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("destroyed")));
    EXPECT_EQ(Now(), before);
  }
  EXPECT_EQ(Now(), before);
  Stream moved = NewStream(dev(1));
  Stream to = std::move(moved);
  {
    StreamGuard guard(moved.ref());
    EXPECT_THAT(guard.status(), StatusIs(absl::StatusCode::kInvalidArgument,
                                         HasSubstr("moved from")));
    EXPECT_EQ(Now(), before);
  }
  EXPECT_EQ(Now(), before);
}

// A stream that dies while a guard holds it: the guard restores all the same.
// C96
TEST_F(GuardTest, StreamDestroyedInsideItsGuard) {
  std::optional<Stream> inner = NewStream(dev(1)), outer = NewStream(dev(1));
  const State before = Now();
  {
    StreamGuard one(*outer);
    const StreamRef outer_ref = *outer;
    {
      StreamGuard two(*inner);
      inner.reset();
      outer.reset();
      EXPECT_THAT(
          Spin(CurrentStream(dev(1)), 1),
          StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("destroyed")));
    }
    EXPECT_EQ(CurrentStream(dev(1)), outer_ref);  // what it found, dead or not
  }
  EXPECT_EQ(Now(), before);
}

// C96
TEST_F(GuardTest, WorkInsideGuardsLandsOnTheCurrentStream) {
  InEverySchedule([] {
    Stream s = NewStream(dev(1));
    Cell x(dev(1));
    {
      StreamGuard guard(s);
      ASSERT_OK(Put(CurrentStream(Must(CurrentDevice("mtia"))), x, 1));
    }
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(x.Peek(), 1);
  });
}

// F1
TEST_F(MultiStreamGuardTest, TwoStreamsOfOneDevice) {
  Stream two = NewStream(dev(0)), three = NewStream(dev(0));
  const State before = Now();
  {
    MultiStreamGuard guard({two, three});
    EXPECT_OK(guard.status());
    EXPECT_EQ(CurrentStream(dev(0)), three.ref());
    EXPECT_EQ(Now().device, before.device);
  }
  EXPECT_EQ(Now(), before);
  EXPECT_EQ(CurrentStream(dev(0)).id(), 0u);
}

// F1
TEST_F(MultiStreamGuardTest, ManyStreamsOfManyDevices) {
  std::vector<Stream> streams;
  std::vector<StreamRef> refs;
  for (int i = 0; i < 12; ++i) {
    streams.push_back(NewStream(dev(i % kDevices)));
    refs.push_back(streams.back());
    if (i % 3 == 0) refs.push_back(refs.front());
  }
  const State before = Now();
  {
    MultiStreamGuard guard(refs);
    MultiStreamGuard again({refs[1], refs[2], refs[1]});
    const State inside = Now();
    { MultiStreamGuard once_more(refs); }
    EXPECT_EQ(Now(), inside);
  }
  EXPECT_EQ(Now(), before);
}

// F1
TEST_F(MultiStreamGuardTest, InvalidThirdStreamChangesNothing) {
  Stream a = NewStream(dev(0)), b = NewStream(dev(1));
  std::optional<Stream> owner = NewStream(dev(2));
  const StreamRef dead = *owner;
  owner.reset();
  const State before = Now();
  {
    MultiStreamGuard guard({a, b, dead});
    EXPECT_THAT(guard.status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("stream " + std::to_string(dead.serial()) +
                                   " of mtia:2")));
    EXPECT_EQ(Now(), before);
  }
  EXPECT_EQ(Now(), before);
}

// F1
TEST_F(MultiStreamGuardTest, EmptyGuard) {
  const State before = Now();
  {
    MultiStreamGuard guard(std::vector<StreamRef>{});
    EXPECT_OK(guard.status());
  }
  EXPECT_EQ(Now(), before);
}

// One object entered three deep: ThreadContext is what may be entered again.
// F4
TEST_F(GuardTest, ContextIsEnteredThreeDeep) {
  Stream s = NewStream(dev(2));
  std::optional<ThreadContext> context;
  {
    StreamGuard guard(s);
    context = ThreadContext::Capture();
  }
  const State before = Now();
  try {
    ThreadContextScope one(*context);
    Must(SetCurrentDevice(dev(1)));
    const State in_one = Now();
    {
      ThreadContextScope two(*context);
      EXPECT_EQ(Now().device, dev(2));
      Must(SetCurrentDevice(dev(3)));
      const State in_two = Now();
      try {
        ThreadContextScope three(*context);
        EXPECT_EQ(Now().device, dev(2));
        throw std::runtime_error("inner");
      } catch (const std::runtime_error&) {
        EXPECT_EQ(Now(), in_two);
      }
    }
    EXPECT_EQ(Now(), in_one);
    throw std::runtime_error("outer");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(Now(), before);
}

// F4
TEST_F(GuardTest, ContextIsSharedByThreads) {
  Stream s = NewStream(dev(2));
  std::optional<ThreadContext> context;
  {
    StreamGuard guard(s);
    context = ThreadContext::Capture();
  }
  InThreads(8, [&](int thread) {
    DeviceGuard own(dev(thread % kDevices));
    const State before = Now();
    for (int i = 0; i < 50; ++i) {
      ThreadContextScope scope(*context);
      EXPECT_OK(scope.status());
      EXPECT_EQ(Now().device, dev(2));
      EXPECT_EQ(CurrentStream(dev(2)), s.ref());
      if (i % 5 == 0) {
        ThreadContextScope again(*context);
        EXPECT_EQ(Now().device, dev(2));
      }
    }
    EXPECT_EQ(Now(), before);
  });
}

}  // namespace
}  // namespace devrt::testing
