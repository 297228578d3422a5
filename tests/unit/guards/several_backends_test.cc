// SPDX-License-Identifier: Apache-2.0
//
// Guards of several backends at once in one thread, each restored: mtia, the
// plain C plugin "good" of tests/abi/plugins, and a backend linked into the
// program (C1, C96).

#include <cstdlib>
#include <optional>
#include <random>
#include <stdexcept>
#include <thread>

#include "tests/support/mtia_fixture.h"
#include "tests/support/spy_backend.h"

namespace devrt::testing {
namespace {

class SeveralBackends : public MtiaTest {
 protected:
  void SetUp() override {
    MtiaTest::SetUp();
    SpyBackend::Get().Reset();
    const char* folder = std::getenv("DEVRT_TEST_PLUGIN_DIR");
    ASSERT_NE(folder, nullptr) << "run it by meson test";
    Must(LoadBackend(std::string(folder) + "/libdevrt_good.so"));
    names_ = {"mtia", "good", "spy"};
    for (const std::string& name : names_) {
      Must(SetCurrentDevice(Must(GetDevice(name, 0))));
      devices_.push_back(Must(GetDevice(name, 0)));
      devices_.push_back(Must(GetDevice(name, 1)));
    }
  }

  struct State {
    std::vector<Device> current;
    std::vector<StreamRef> streams;
    bool operator==(const State& o) const {
      return current == o.current && streams == o.streams;
    }
  };
  State Now() const {
    State state;
    for (const std::string& name : names_) {
      state.current.push_back(Must(CurrentDevice(name)));
    }
    for (Device device : devices_) {
      state.streams.push_back(CurrentStream(device));
    }
    return state;
  }
  Device At(const std::string& name, int index) const {
    return Must(GetDevice(name, index));
  }

  std::vector<std::string> names_;
  std::vector<Device> devices_;  // two of each
};

TEST_F(SeveralBackends, NestedGuardsRestoreEach) {
  Stream m = Must(Stream::Create(At("mtia", 1)));
  Stream g = Must(Stream::Create(At("good", 1)));
  Stream s = Must(Stream::Create(At("spy", 1)));
  const State before = Now();
  {
    DeviceGuard one(At("good", 1));
    EXPECT_EQ(Must(CurrentDevice("good")), At("good", 1));
    EXPECT_EQ(Must(CurrentDevice("mtia")), before.current[0]);
    StreamGuard two(m);
    EXPECT_EQ(Must(CurrentDevice("mtia")), At("mtia", 1));
    EXPECT_EQ(Must(CurrentDevice("good")), At("good", 1));
    const State inside = Now();
    {
      MultiStreamGuard three({g, s, m, DefaultStream(At("good", 1))});
      EXPECT_EQ(CurrentStream(At("spy", 1)), s.ref());
      DeviceGuard four(At("spy", 1)), five(At("good", 0));
      EXPECT_EQ(Must(CurrentDevice("spy")), At("spy", 1));
      EXPECT_EQ(Must(CurrentDevice("good")), At("good", 0));
      EXPECT_EQ(Must(CurrentDevice("mtia")), At("mtia", 1));
    }
    EXPECT_EQ(Now(), inside);
  }
  EXPECT_EQ(Now(), before);
}

TEST_F(SeveralBackends, RestoredAfterAnException) {
  Stream m = Must(Stream::Create(At("mtia", 1)));
  Stream g = Must(Stream::Create(At("good", 0)));
  const State before = Now();
  try {
    StreamGuard one(g);
    StreamGuard two(m);
    DeviceGuard three(At("spy", 1));
    throw std::runtime_error("inside");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(Now(), before);
}

// Random nests over all devices of all backends.
TEST_F(SeveralBackends, RandomNests) {
  std::vector<Stream> streams;
  for (Device device : devices_) {
    streams.push_back(Must(Stream::Create(device)));
  }
  for (uint32_t seed = 1; seed <= 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const State before = Now();
    const std::function<void(int)> nest = [&](int depth) {
      if (depth == 0) return;
      const State outer = Now();
      const size_t at = random() % devices_.size();
      switch (random() % 3) {
        case 0: {
          DeviceGuard guard(devices_[at]);
          EXPECT_EQ(Must(CurrentDevice(devices_[at].backend())), devices_[at]);
          nest(depth - 1);
          break;
        }
        case 1: {
          StreamGuard guard(streams[at]);
          EXPECT_EQ(CurrentStream(devices_[at]), streams[at].ref());
          nest(depth - 1);
          break;
        }
        case 2: {
          const size_t other = random() % devices_.size();
          MultiStreamGuard guard({streams[at], streams[other]});
          nest(depth - 1);
          break;
        }
      }
      EXPECT_EQ(Now(), outer);
    };
    nest(8);
    EXPECT_EQ(Now(), before);
  }
}

TEST_F(SeveralBackends, ThreadContextCarriesAll) {
  Stream m = Must(Stream::Create(At("mtia", 1)));
  std::optional<ThreadContext> context;
  {
    StreamGuard one(m);
    DeviceGuard two(At("good", 1)), three(At("spy", 1));
    context = ThreadContext::Capture();
  }
  EXPECT_EQ(context->devices().size(), 3u);
  InThreads(1, [&](int) {
    const State before = Now();
    {
      ThreadContextScope scope(*context);
      EXPECT_OK(scope.status());
      EXPECT_EQ(Must(CurrentDevice("mtia")), At("mtia", 1));
      EXPECT_EQ(Must(CurrentDevice("good")), At("good", 1));
      EXPECT_EQ(Must(CurrentDevice("spy")), At("spy", 1));
      EXPECT_EQ(CurrentStream(At("mtia", 1)), m.ref());
    }
    EXPECT_EQ(Now(), before);
  });
}

// A lost device of one backend does not disturb the others' guards.
TEST_F(SeveralBackends, FaultInsideTheNest) {
  LogCapture log;
  Stream bad = Must(Stream::Create(At("mtia", 1)));
  Stream g = Must(Stream::Create(At("good", 1)));
  const State before = Now();
  {
    StreamGuard one(g);
    StreamGuard two(bad);
    Must(CommitFault(bad, FaultForm::kTrap));
    EXPECT_FALSE(bad.Synchronize().ok());
    DeviceGuard three(At("spy", 1));
    EXPECT_OK(three.status());
    EXPECT_OK(g.Synchronize());
  }
  EXPECT_EQ(Now(), before);
  EXPECT_OK(At("good", 1).Health());
}

// Events of one backend on streams of another: the host waits (C32 holds
// within a backend only), and a record there is refused.
TEST_F(SeveralBackends, EventsAcrossBackends) {
  for (const char* mode : {"mode=virtual", "mode=threaded"}) {
    Reset(mode);
    Stream m = Must(Stream::Create(At("mtia", 0)));
    Stream g = Must(Stream::Create(At("good", 0)));
    Cell x(At("mtia", 0));
    Event e = Must(Event::Create(At("mtia", 0)));
    Must(Spin(m, kLong));
    Must(Put(m, x, 1));
    Must(e.Record(m));
    EXPECT_OK(g.Wait(e));
    EXPECT_EQ(x.Peek(), 1);
    EXPECT_THAT(e.Record(g),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         ::testing::AllOf(::testing::HasSubstr("mtia:0"),
                                          ::testing::HasSubstr("good:0"))));
    EXPECT_OK(m.Synchronize());
  }
}

// 16 threads, each with a nest of its own over three backends.
TEST_F(SeveralBackends, NoCrossTalk) {
  Reset("mode=threaded");
  InThreads(16, [&](int thread) {
    for (int i = 0; i < 50; ++i) {
      const Device a = devices_[static_cast<size_t>(thread + i) % 6];
      const Device b = devices_[static_cast<size_t>(thread + i + 3) % 6];
      const State before = Now();
      {
        DeviceGuard one(a), two(b);
        ASSERT_EQ(Must(CurrentDevice(a.backend())), a);
        ASSERT_EQ(Must(CurrentDevice(b.backend())), b);
      }
      ASSERT_EQ(Now(), before);
    }
  });
}

}  // namespace
}  // namespace devrt::testing
