// SPDX-License-Identifier: Apache-2.0
//
// Explore finds mistakes in the order of host threads: each is found without
// the detector, and its token repeats it.  Its twin passes in every run, and
// each of these is made twice: with DEVRT_TEST_SEEDS so many.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <regex>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "devrt/sim/explore.h"
#include "devrt/streams/sync.h"
#include "tests/sim/bodies.h"

#if defined(__SANITIZE_THREAD__)
#define DEVRT_TEST_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define DEVRT_TEST_TSAN 1
#endif
#endif

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;
using Verdict = sim::Result::Verdict;
using Guard = std::lock_guard<sync::Mutex>;

struct Mistake {
  const char* name;
  const char* text;  // a part of the status
  // With `mended` the program is right.
  std::function<absl::Status(bool mended)> run;
};

void PrintTo(const Mistake& mistake, std::ostream* out) {
  *out << mistake.name;
}

// ---- threads of std ---------------------------------------------------------

// The consumer waits for an event that may not have been recorded yet.
absl::Status WaitBeforeTheRecord(bool mended) {
  const Scene scene;
  const Event event = Must(Event::Create(scene.device()));
  std::thread producer([&] {
    scene.Update(0, 2, 0, "double");
    Must(event.Record(scene.stream(0)));
  });
  if (mended) producer.join();
  Must(scene.stream(1).Wait(event));
  scene.Update(1, 1, 3, "add");
  if (!mended) producer.join();
  return ExpectValue(scene.Value(), 5);
}

// Two threads enqueue on one stream, and their order is part of the result.
// Each takes a lock of std before its first call of devrt.
[[maybe_unused]] absl::Status TwoThreadsOnOneStream(bool mended) {
  const Scene scene;
  std::mutex mutex;
  sync::Thread first([&] {
    const std::lock_guard<std::mutex> lock(mutex);
    scene.Update(0, 2, 0, "double");
  });
  if (mended) first.join();
  sync::Thread second([&] {
    const std::lock_guard<std::mutex> lock(mutex);
    scene.Update(0, 1, 3, "add");
  });
  if (!mended) first.join();
  second.join();
  return ExpectValue(scene.Value(), 5);
}

// A count is read and written under two locks of std::mutex, with a call of
// devrt in between.
[[maybe_unused]] absl::Status ALockIsGivenBackTooEarly(bool mended) {
  const Scene scene;
  std::mutex mutex;
  int count = 0;
  const auto add = [&](int stream) {
    std::unique_lock<std::mutex> lock(mutex);
    const int seen = count;
    if (!mended) lock.unlock();
    scene.Nothing(stream);
    if (!mended) lock.lock();
    count = seen + 1;
  };
  sync::Thread first([&] { add(0); });
  sync::Thread second([&] { add(1); });
  first.join();
  second.join();
  return ExpectValue(count, 2);
}

// ---- devrt::sync ------------------------------------------------------------

// A decision at a lock alone shows the mistake: no call of devrt lies between.
absl::Status TwoSectionsForOneChange(bool mended) {
  sync::Mutex mutex;
  int count = 0;
  const auto add = [&] {
    std::unique_lock<sync::Mutex> lock(mutex);
    const int seen = count;
    if (!mended) lock.unlock(), lock.lock();
    count = seen + 1;
  };
  sync::Thread first(add), second(add);
  first.join();
  second.join();
  return ExpectValue(count, 2);
}

// The flag is read without the lock, so the notification may come before the
// wait.
absl::Status ALostNotification(bool mended) {
  sync::Mutex mutex;
  sync::ConditionVariable changed;
  bool is_ready = false;
  sync::Thread giver([&] {
    const Guard lock(mutex);
    is_ready = true;
    changed.notify_one();
  });
  if (mended) {
    std::unique_lock<sync::Mutex> lock(mutex);
    changed.wait(lock, [&] { return is_ready; });
  } else if (!is_ready) {
    std::unique_lock<sync::Mutex> lock(mutex);
    changed.wait(lock);
  }
  giver.join();
  return absl::OkStatus();
}

// One notification for two threads that wait.
absl::Status NotifyOneForTwo(bool mended) {
  sync::Mutex mutex;
  sync::ConditionVariable changed;
  bool is_ready = false, is_stuck = false;
  const auto wait = [&] {
    try {
      std::unique_lock<sync::Mutex> lock(mutex);
      changed.wait(lock, [&] { return is_ready; });
    } catch (const std::system_error&) {
      is_stuck = true;
    }
  };
  sync::Thread first(wait), second(wait);
  {
    const Guard lock(mutex);
    is_ready = true;
    mended ? changed.notify_all() : changed.notify_one();
  }
  first.join();
  second.join();
  return is_stuck ? absl::AbortedError("a thread waits for ever")
                  : absl::OkStatus();
}

// Two mutexes that are locked in two orders.
absl::Status TwoOrdersOfLocks(bool mended) {
  sync::Mutex a, b;
  bool is_stuck = false;
  const auto both = [&](sync::Mutex* first, sync::Mutex* second) {
    try {
      const Guard outer(*first);
      const Guard inner(*second);
    } catch (const std::system_error&) {
      is_stuck = true;
    }
  };
  sync::Thread one([&] { both(&a, &b); });
  sync::Thread other([&] { mended ? both(&a, &b) : both(&b, &a); });
  one.join();
  other.join();
  return is_stuck ? absl::AbortedError("a thread waits for ever")
                  : absl::OkStatus();
}

// ---- calls that may let others move -----------------------------------------

// The update that is announced comes after the lock is given back.
absl::Status AnnouncedTooEarly(bool mended) {
  const Scene scene;
  sync::Mutex mutex;
  bool is_there = false;
  sync::Thread first([&] {
    std::unique_lock<sync::Mutex> lock(mutex);
    is_there = true;
    if (!mended) lock.unlock();
    scene.Update(0, 2, 0, "double");
  });
  sync::Thread second([&] {
    std::unique_lock<sync::Mutex> lock(mutex);
    const bool seen = is_there;
    lock.unlock();
    if (seen) scene.Update(0, 1, 3, "add");
  });
  first.join();
  second.join();
  const int64_t value = scene.Value();
  return value == 2 ? absl::OkStatus() : ExpectValue(value, 5);
}

// So it is with a notification, for which the other thread waits already.
absl::Status NotifiedTooEarly(bool mended) {
  const Scene scene;
  sync::Mutex mutex;
  sync::ConditionVariable changed;
  bool is_waiting = false;
  sync::Thread second([&] {
    std::unique_lock<sync::Mutex> lock(mutex);
    is_waiting = true;
    changed.wait(lock);
    lock.unlock();
    scene.Update(0, 1, 3, "add");
  });
  for (bool seen = false; !seen;) {
    const Guard lock(mutex);
    seen = is_waiting;
  }
  if (mended) scene.Update(0, 2, 0, "double");
  changed.notify_one();
  if (!mended) scene.Update(0, 2, 0, "double");
  second.join();
  return ExpectValue(scene.Value(), 5);
}

// The value is read when one of two threads has ended.
absl::Status JoinsOneOfTwo(bool mended) {
  const Scene scene;
  sync::Thread first([&] { scene.Update(0, 2, 0, "double"); });
  first.join();
  sync::Thread second([&] { scene.Update(0, 1, 1, "increment"); });
  sync::Thread third([&] { scene.Update(0, 1, 2, "add"); });
  second.join();
  if (mended) third.join();
  const int64_t value = scene.Value();
  if (!mended) third.join();
  return ExpectValue(value, 5);
}

// How many seeds the right programs have.  Each makes two runs.
uint64_t Seeds() {
  constexpr uint64_t kUsual = 24;
  const char* const text = std::getenv("DEVRT_TEST_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : kUsual;
}

class HostThreads : public ::testing::TestWithParam<Mistake> {
 protected:
  // The numbers of the runs that showed the mistakes of a suite.
  static std::vector<uint64_t>* Found() {
    static auto* const found = new std::vector<uint64_t>;
    return found;
  }
  static void TearDownTestSuite() {
    std::printf("of %zu mistakes:", Found()->size());
    for (const uint64_t most : {1, 2, 4, 16, 64, 128}) {
      const auto within =
          std::count_if(Found()->begin(), Found()->end(),
                        [most](uint64_t run) { return run <= most; });
      std::printf(" %td within %d", within, static_cast<int>(most));
    }
    std::printf(" runs\n");
    Found()->clear();
  }
};

TEST_P(HostThreads, AreFoundAndRepeat) {
  const Mistake& mistake = GetParam();
  sim::Options options;
  options.seed = 1;
  options.runs = 128;
  options.race = false;
  const sim::Body wrong([&] { return mistake.run(false); });
  const sim::Result result = sim::Explore(options, wrong);
  ASSERT_EQ(result.verdict, Verdict::kFailed) << result.text();
  EXPECT_THAT(result.status.ToString(), HasSubstr(mistake.text));
  Found()->push_back(result.schedules);
  const sim::Result again = sim::Replay(options, result.token(), wrong);
  EXPECT_EQ(again.verdict, Verdict::kFailed) << again.text();
  EXPECT_EQ(again.failing.trace.hash, result.failing.trace.hash);
  EXPECT_EQ(again.failing.uncontrolled, 0u);

  options.runs = Seeds();
  options.check_every = 1;
  const sim::Result right =
      sim::Explore(options, [&] { return mistake.run(true); });
  EXPECT_TRUE(right.ok()) << right.text();
  EXPECT_EQ(right.schedules, options.runs);
}

INSTANTIATE_TEST_SUITE_P(
    Mistakes, HostThreads,
    ::testing::Values(
        Mistake{"WaitBeforeTheRecord", "the value is", &WaitBeforeTheRecord},
        Mistake{"TwoSectionsForOneChange", "the value is 1",
                &TwoSectionsForOneChange},
        Mistake{"ALostNotification", "a notification that comes",
                &ALostNotification},
        Mistake{"NotifyOneForTwo", "waits for ever", &NotifyOneForTwo},
        Mistake{"TwoOrdersOfLocks", "waits for ever", &TwoOrdersOfLocks},
        Mistake{"AnnouncedTooEarly", "the value is 8", &AnnouncedTooEarly},
        Mistake{"NotifiedTooEarly", "the value is 8", &NotifiedTooEarly},
        Mistake{"JoinsOneOfTwo", "the value is", &JoinsOneOfTwo}),
    [](const auto& test) { return std::string(test.param.name); });

#if !defined(DEVRT_TEST_TSAN)  // it delays the signal that controls locks
INSTANTIATE_TEST_SUITE_P(
    MistakesWithLocksOfStd, HostThreads,
    ::testing::Values(Mistake{"TwoThreadsOnOneStream", "the value is 8",
                              &TwoThreadsOnOneStream},
                      Mistake{"ALockIsGivenBackTooEarly", "the value is 1",
                              &ALockIsGivenBackTooEarly}),
    [](const auto& test) { return std::string(test.param.name); });
#endif

// ---- reports of deadlocks ---------------------------------------------------

// Runs `body` until a wait of devrt::sync throws, in some schedule.  Returns
// the report, without the folders of files.
std::string ReportOf(const std::function<void()>& body) {
  sim::Options options;
  options.seed = 1;
  options.race = false;
  const sim::Result result = sim::Explore(options, [&]() -> absl::Status {
    body();
    const std::string report = Must(Must(Simulator::Get()).DeadlockReport());
    return report.empty() ? absl::OkStatus() : absl::AbortedError(report);
  });
  EXPECT_EQ(result.verdict, Verdict::kFailed) << result.text();
  return std::regex_replace(std::string(result.status.message()),
                            std::regex("[^ (]*/"), "");
}

TEST(DeadlockReport, NamesTheHoldersAndTheCycle) {
  int lines[2] = {};
  const std::string report = ReportOf([&] {
    const Scene scene;
    sync::Mutex mutexes[2];
    const auto both = [&](int first) {
      try {
        lines[first] = __LINE__ + 1;
        Must(Spin(scene.stream(first), 1));
        const Guard outer(mutexes[first]);
        const Guard inner(mutexes[1 - first]);
      } catch (const std::system_error&) {
      }
    };
    sync::Thread one([&] { both(0); });
    sync::Thread other([&] { both(1); });
    one.join();
    other.join();
    Must(scene.device().Synchronize());
  });
  const std::string line = std::to_string(lines[0]);
  EXPECT_THAT(
      report,
      ::testing::ContainsRegex(
          "deadlock: host#[12] devrt::sync .after threads_test.cc:" + line +
          ". waits for lock#1, held by host#[12] .after threads_test.cc:" +
          line + ". -> host#[12] devrt::sync .after threads_test.cc:" + line +
          ". waits for lock#2, held by host#[12] .after threads_test.cc:" +
          line + ". .the cycle.. No host thread"));
}

TEST(DeadlockReport, AHostFunctionMayBePartOfTheCycle) {
  const Simulator simulator = Must(Simulator::Get());
  Must(simulator.Reset());
  const Scene scene;
  sync::Mutex mutex;
  scene.Nothing(0);
  std::unique_lock<sync::Mutex> lock(mutex);
  Must(LaunchHostFunc(scene.stream(0),
                      [&](const absl::Status&) { const Guard in(mutex); }));
  EXPECT_FALSE(scene.stream(0).Synchronize().ok());
  lock.unlock();
  Must(scene.stream(0).Synchronize());
  EXPECT_THAT(Must(simulator.DeadlockReport()),
              ::testing::ContainsRegex(
                  "deadlock: host#0 stream_sync [^>]* -> s[0-9]* op 2 host "
                  "function [^>]* -> lock#1, held by host#0 .after [^ ]*"
                  "bodies.h:[0-9]*. .the cycle.. No host thread"));
}

TEST(DeadlockReport, AWaitForANotificationHasNoHolder) {
  const std::string report = ReportOf([] {
    const Scene scene;
    sync::Mutex mutex;
    sync::ConditionVariable changed;
    sync::Thread waits([&] {
      const Guard outer(mutex);
      sync::Mutex own;
      std::unique_lock<sync::Mutex> lock(own);
      EXPECT_THROW(changed.wait(lock), std::system_error);
    });
    try {
      const Guard lock(mutex);
    } catch (const std::system_error&) {
    }
    waits.join();
  });
  EXPECT_THAT(report, HasSubstr("devrt::sync waits for a notification"));
}

// ---- after Shutdown ---------------------------------------------------------

// Threads of a static pool wait while main calls Shutdown, and are told after.
// Exits with 0 if each was told.
[[noreturn]] void TellAfterShutdown() {
  { const Scene scene; }
  sync::Mutex mutex, held;
  sync::ConditionVariable changed;
  int waiting = 0;
  bool is_over = false;
  const auto wait = [&] {
    std::unique_lock<sync::Mutex> lock(mutex);
    ++waiting;
    changed.wait(lock, [&] { return is_over; });
  };
  std::unique_lock<sync::Mutex> holder(held);
  sync::Thread one(wait), two(wait);
  sync::Thread locks([&] {
    {
      const Guard lock(mutex);
      ++waiting;
    }
    const Guard lock(held);
  });
  for (int seen = 0; seen < 3;) {
    const Guard lock(mutex);
    seen = waiting;
  }
  Must(Shutdown());
  {
    const Guard lock(mutex);
    is_over = true;
    changed.notify_one();
  }
  changed.notify_all();
  holder.unlock();
  one.join();
  two.join();
  locks.join();
  std::_Exit(0);
}

TEST(HostThreadsDeathTest, WaitingThreadsAreToldAfterShutdown) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_EXIT(TellAfterShutdown(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace devrt::testing
