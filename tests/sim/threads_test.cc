// SPDX-License-Identifier: Apache-2.0
//
// Explore finds mistakes in the order of host threads: each is found without
// the detector, and its token repeats it.  Its twin passes in every run, and
// each of these is made twice: with DEVRT_TEST_SEEDS so many.
#include <algorithm>
#include <cinttypes>
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
#include "tests/sim/thread_mistakes.h"
#include "tests/support/sanitizers.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;
using Verdict = sim::Result::Verdict;
using Guard = std::lock_guard<sync::Mutex>;

std::vector<ThreadMistake> AllMistakes() {
  std::vector<ThreadMistake> all = LockMistakes();
  const std::vector<ThreadMistake>& others = OrderMistakes();
  all.insert(all.end(), others.begin(), others.end());
#if DEVRT_TEST_TSAN  // it delays the signal that controls locks
  all.erase(std::remove_if(
                all.begin(), all.end(),
                [](const ThreadMistake& one) { return one.has_locks_of_std; }),
            all.end());
#endif
  return all;
}

// How many seeds the right programs have.  Each makes two runs.
uint64_t Seeds() {
  constexpr uint64_t kUsual = 24;
  const char* const text = std::getenv("DEVRT_TEST_SEEDS");
  return text != nullptr ? std::strtoull(text, nullptr, 10) : kUsual;
}

class HostThreads : public ::testing::TestWithParam<ThreadMistake> {
 protected:
  // The numbers of the runs that showed the mistakes, and of the decisions
  // that are not the default in the smallest schedules.
  struct Counts {
    std::vector<int64_t> runs;
    std::vector<int64_t> decisions;
  };
  static Counts* Found() {
    static auto* const found = new Counts;
    return found;
  }
  static int64_t CountUpTo(int64_t most, const std::vector<int64_t>& numbers) {
    return std::count_if(numbers.begin(), numbers.end(),
                         [most](int64_t number) { return number <= most; });
  }
  static void TearDownTestSuite() {
    const Counts& found = *Found();
    const auto all = static_cast<double>(AllMistakes().size());
    const auto within = [&found](int64_t runs) {
      return CountUpTo(runs, found.runs);
    };
    std::printf("of %.0f mistakes:", all);
    for (const int64_t runs : {1, 2, 4, 16, 64, 128}) {
      std::printf(" %" PRId64 " in %" PRId64 " runs,", within(runs), runs);
    }
    const int64_t small = CountUpTo(2, found.decisions);
    std::printf(" %" PRId64 " with at most 2 decisions\n", small);
    if (static_cast<double>(found.runs.size()) < all) return;  // a filter
    EXPECT_GE(static_cast<double>(within(2)), 0.75 * all);
    EXPECT_GE(static_cast<double>(within(64)), 0.95 * all);
    EXPECT_GE(static_cast<double>(small), 0.9 * all);
  }
};

TEST_P(HostThreads, AreFoundAndRepeat) {
  const ThreadMistake& mistake = GetParam();
  sim::Options options;
  options.seed = 1;
  options.runs = 128;
  options.race = false;
  const sim::Body wrong([&] { return mistake.run(false); });
  const sim::Result result = sim::Explore(options, wrong);
  ASSERT_EQ(result.verdict, Verdict::kFailed) << result.text();
  EXPECT_THAT(result.status.ToString(), HasSubstr(mistake.text));
  Found()->runs.push_back(static_cast<int64_t>(result.schedules));
  Found()->decisions.push_back(std::count_if(
      result.failing.decisions.begin(), result.failing.decisions.end(),
      [](const SimulatedDecision& made) { return made.choice != 0; }));
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

INSTANTIATE_TEST_SUITE_P(Mistakes, HostThreads,
                         ::testing::ValuesIn(AllMistakes()),
                         [](const auto& test) {
                           return std::string(test.param.name);
                         });

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
