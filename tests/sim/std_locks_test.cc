// SPDX-License-Identifier: Apache-2.0
//
// Locks of std that a thread holds across a call of devrt.  A wait for such a
// lock ends, and what the simulator does not control is named.
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

#include "devrt/sim/explore.h"
#include "tests/sim/bodies.h"
#include "tests/support/sanitizers.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Lock = std::unique_lock<std::mutex>;
using Verdict = sim::Result::Verdict;

class StdLocks : public ::testing::Test {
 protected:
  void SetUp() override {
#if DEVRT_TEST_TSAN
    GTEST_SKIP() << "ThreadSanitizer delays the signal that controls locks";
#endif
  }
};

// Each run is made twice.
sim::Options Seeded() {
  sim::Options options;
  options.seed = 1;
  options.runs = 24;
  options.check_every = 1;
  options.race = false;
  return options;
}

// The holder waits for the device, and the other thread for the lock.
TEST_F(StdLocks, AHolderThatWaitsForTheDeviceGoesOn) {
  const sim::Result result = sim::Explore(Seeded(), [] {
    const Scene scene;
    std::mutex mutex;
    const auto work = [&](int stream) {
      // Before its first call of devrt a thread of std runs beside others.
      scene.Nothing(stream);
      for (int i = 0; i < 3; ++i) {
        const Lock lock(mutex);
        scene.Update(0, 2, stream);
        Must(scene.stream(0).Synchronize());
      }
    };
    std::thread first([&] { work(0); }), second([&] { work(1); });
    first.join();
    second.join();
    EXPECT_EQ(Must(Must(Simulator::Get()).Stats()).uncontrolled, 0u);
  });
  EXPECT_TRUE(result.ok()) << result.text();
  EXPECT_GT(result.distinct, 1u);
}

// The holder waits for a flag that is set under the lock: a wait that cannot
// end, and the report names what is awaited.
TEST_F(StdLocks, AWaitForWorkOfAThreadAtTheLockIsADeadlock) {
  sim::Options options = Seeded();
  options.runs = 128;
  const sim::Body body([]() -> absl::Status {
    const Scene scene;
    const Flag flag = Must(Flag::Create(scene.device()));
    std::mutex mutex;
    std::thread sets([&] {
      scene.Nothing(1);
      const Lock lock(mutex);
      flag.Set().IgnoreError();
    });
    Must(flag.WaitOn(scene.stream(0), 0));
    absl::Status waited;
    {
      const Lock lock(mutex);
      waited = scene.stream(0).Synchronize();
    }
    sets.join();
    scene.device().Synchronize().IgnoreError();
    return waited;
  });
  const sim::Result result = sim::Explore(options, body);
  ASSERT_EQ(result.verdict, Verdict::kFailed) << result.text();
  EXPECT_THAT(result.text(), AllOf(HasSubstr("deadlock: host#"),
                                   HasSubstr("std_locks_test.cc")));
  EXPECT_EQ(result.failing.uncontrolled, 0u);
}

// A thread that never calls devrt holds the lock, and computes for longer than
// the watchdog.
TEST_F(StdLocks, AHolderThatIsNotScheduledIsCounted) {
  sim::Options options = Seeded();
  options.runs = 2;
  options.check_every = 0;
  options.config = "watchdog=20ms";
  const sim::Result result = sim::Explore(options, [] {
    const Scene scene;
    const Simulator simulator = Must(Simulator::Get());
    std::mutex mutex;
    std::atomic<bool> is_held{false}, ends{false};
    std::thread holder([&] {
      const Lock lock(mutex);
      is_held = true;
      while (!ends) {
      }
    });
    while (!is_held) std::this_thread::yield();
    std::thread waits([&] {
      scene.Nothing(0);
      const Lock lock(mutex);
      scene.Nothing(0);
    });
    while (Must(simulator.Stats()).uncontrolled == 0) Must(simulator.Yield());
    ends = true;
    holder.join();
    waits.join();
  });
  EXPECT_TRUE(result.ok()) << result.text();
  EXPECT_GT(result.passing.uncontrolled, 0u);
}

// A notification that never comes.
TEST_F(StdLocks, AWaitBesideAThreadThatNobodyNotifiesIsADeadlock) {
  sim::Options options = Seeded();
  options.check_every = 0;
  const sim::Result result = sim::Explore(options, []() -> absl::Status {
    const Scene scene;
    const Flag flag = Must(Flag::Create(scene.device()));
    std::mutex mutex;
    std::condition_variable changed;
    bool is_over = false;
    std::thread waits([&] {
      Lock lock(mutex);
      scene.Nothing(1);
      changed.wait(lock, [&] { return is_over; });
      flag.Set().IgnoreError();
    });
    Must(flag.WaitOn(scene.stream(0), 0));
    const absl::Status waited = scene.stream(0).Synchronize();
    {
      const Lock lock(mutex);
      is_over = true;
    }
    changed.notify_all();
    waits.join();
    Must(scene.device().Synchronize());
    return waited;
  });
  ASSERT_EQ(result.verdict, Verdict::kFailed) << result.text();
  EXPECT_EQ(result.schedules, 1u);
  EXPECT_THAT(result.text(), HasSubstr("deadlock: host#"));
}

}  // namespace
}  // namespace devrt::testing
