// SPDX-License-Identifier: Apache-2.0
//
// Explore of devrt/sim/explore.h: what a process can do only once.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <thread>

#include "devrt/sim/explore.h"
#include "devrt/sim/witness.h"
#include "tests/sim/bodies.h"
#include "tests/support/subprocess.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;
using Verdict = sim::Result::Verdict;

sim::Options Seeded() {
  sim::Options options;
  options.seed = 1;
  return options;
}

TEST(ExploreProcess, AnExitInTheBodyNamesTheRun) {
  const ProcessResult result =
      RunInChild([] { sim::Explore(Seeded(), [] { std::exit(0); }); });
  EXPECT_THAT(result.output, HasSubstr("the body called exit() in the run with "
                                       "strategy=alap,seed=1"));
}

TEST(ExploreProcess, AnAbortInTheBodyNamesTheRun) {
  const ProcessResult result =
      RunInChild([] { sim::Explore(Seeded(), [] { std::abort(); }); });
  EXPECT_EQ(result.signal, SIGABRT);
  EXPECT_THAT(result.output,
              HasSubstr("the body called abort() in the run with "
                        "strategy=alap,seed=1"));
  // A handler of the program is called as well, and has its place back behind
  // the exploration.
  const ProcessResult handled = RunInChild([] {
    signal(SIGABRT, [](int) { _exit(41); });
    sim::Explore(Seeded(), [] {});
    sim::Options one = Seeded();
    one.runs = 1;
    sim::Explore(one, [] { raise(SIGABRT); });
  });
  EXPECT_EQ(handled.exit_code, 41);
  EXPECT_THAT(handled.output, HasSubstr("the body called abort() in the run"));
  const ProcessResult outside = RunInChild([] {
    sim::Explore(Seeded(), [] {});
    std::abort();
  });
  EXPECT_EQ(outside.signal, SIGABRT);
  EXPECT_THAT(outside.output, Not(HasSubstr("called abort()")));
}

// As faulthandler of Python: it gives its place back to the handler from
// before, which may be that of the exploration.
struct sigaction g_before {};
void GiveBack() { sigaction(SIGABRT, &g_before, nullptr); }
void TakeSigabrtOnce() {
  if (g_before.sa_handler != nullptr) return;
  struct sigaction action {};
  action.sa_handler = [](int signal) {
    GiveBack();
    raise(signal);
  };
  sigaction(SIGABRT, &action, &g_before);
}

TEST(ExploreProcess, AnAbortEndsBehindAHandlerThatTheBodyHasSet) {
  sim::Options one = Seeded();
  one.runs = 1;
  for (const bool leaves : {false, true}) {
    const ProcessResult result = RunInChild([&] {
      alarm(20);
      sim::Explore(one, [] { TakeSigabrtOnce(); });
      if (leaves) GiveBack();
      sim::Explore(one, [] { std::abort(); });
    });
    EXPECT_EQ(result.signal, SIGABRT) << leaves;
    const size_t at = result.output.find("the body called abort()");
    ASSERT_NE(at, std::string::npos) << result.output;
    EXPECT_EQ(result.output.find("called abort()", at + 20), std::string::npos);
  }
}

TEST(ExploreProcess, AnEndOfTheThreadNamesTheRun) {
  const ProcessResult quick =
      RunInChild([] { sim::Explore(Seeded(), [] { std::quick_exit(0); }); });
  EXPECT_THAT(quick.output,
              HasSubstr("the body called quick_exit() in the run with "));
  const ProcessResult thread = RunInChild([] {
    std::thread([] {
      sim::Explore(Seeded(), [] { pthread_exit(nullptr); });
    }).join();
  });
  EXPECT_THAT(thread.output,
              HasSubstr("the body ended its thread in the run with "
                        "strategy=alap,seed=1"));
}

TEST(ExploreProcess, ABodyThatNeverEndsIsNamed) {
  const ProcessResult result = RunInChild([] {
    sim::Options options = Seeded();
    options.time_limit = std::chrono::milliseconds(20);
    sim::Explore(options, [] {
      for (;;) pause();
    });
  });
  EXPECT_THAT(result.output,
              HasSubstr("takes longer than its time limit. The run is the one "
                        "with strategy=alap,seed=1"));
  EXPECT_THAT(result.output, Not(HasSubstr("called abort()")));
}

// Nobody waits in devrt, so nobody but the time limit sees this.
TEST(ExploreProcess, TwoOrdersOfLocksOfStdEndByTheTimeLimit) {
  const ProcessResult result = RunInChild([] {
    sim::Options options = Seeded();
    options.time_limit = std::chrono::milliseconds(500);
    sim::Explore(options, [] {
      const Scene scene;
      std::mutex mutexes[2];
      const auto both = [&](int first) {
        scene.Nothing(first);
        const std::lock_guard<std::mutex> outer(mutexes[first]);
        scene.Nothing(first);
        const std::lock_guard<std::mutex> inner(mutexes[1 - first]);
      };
      std::thread one([&] { both(0); }), other([&] { both(1); });
      one.join();
      other.join();
    });
  });
  EXPECT_EQ(result.signal, SIGABRT) << result.output;
  EXPECT_THAT(result.output, HasSubstr("takes longer than its time limit. The "
                                       "run is the one with strategy="));
}

TEST(ExploreProcess, TheEndOfAForkedChildIsNoneOfTheBody) {
  const ProcessResult result = RunInChild([] {
    sim::Explore(Seeded(), [] {
      const pid_t child = fork();
      if (child == 0) std::exit(0);
      waitpid(child, nullptr, 0);
    });
  });
  EXPECT_THAT(result.output, Not(HasSubstr("called exit()")));
}

TEST(ExploreProcess, ALimitEndsARunOfAThreadThatBlocksItsSignal) {
  const ProcessResult result = RunInChild([] {
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    pthread_sigmask(SIG_BLOCK, &alarm, nullptr);
    sim::Options options = Seeded();
    options.time_limit = std::chrono::milliseconds(20);
    options.runs = 1;
    sim::Explore(options, [] {});
    sigset_t now;
    pthread_sigmask(SIG_BLOCK, nullptr, &now);
    EXPECT_EQ(sigismember(&now, SIGALRM), 1);
    sim::Explore(options, [] {
      for (;;) pause();
    });
  });
  EXPECT_EQ(result.signal, SIGABRT);
  EXPECT_THAT(result.output, HasSubstr("takes longer than its time limit"));
}

TEST(ExploreProcess, ALimitThatEndsInAStoppedProcessBeginsAnew) {
  InChild([] {
    sim::Options options = Seeded();
    options.time_limit = std::chrono::milliseconds(20);
    options.runs = 1;
    const sim::Result result = sim::Explore(options, [] {
      const pid_t body = getpid();
      const pid_t child = fork();
      if (child == 0) prctl(PR_SET_PDEATHSIG, SIGKILL);
      while (child == 0) {
        usleep(100'000);  // for five limits
        kill(body, SIGCONT);
      }
      raise(SIGSTOP);
      kill(child, SIGKILL);
      waitpid(child, nullptr, 0);
    });
    EXPECT_TRUE(result.ok()) << result.text();
  });
}

TEST(ExploreProcess, AWitnessInABodyIsRefused) {
  InChild([] {
    const sim::Result result = sim::Explore(Seeded(), [] {
      return sim::Witness::Create(Must(Simulator::Get()),
                                  [] { return absl::OkStatus(); })
          .status();
    });
    EXPECT_STATUS(result.status, kFailedPrecondition,
                  "an exploration runs already");
  });
}

// Two updates of one value, which nothing orders.
void Race() {
  const Scene scene;
  scene.Update(0, 1, 0, "first");
  scene.Update(1, 1, 0, "second");
  scene.Value();  // which is right in every schedule
}

bool IsRunOfWitness() {
  return Must(Must(Simulator::Get()).Config()).find("outcome=on") !=
         std::string::npos;
}

TEST(ExploreProcess, ARunOfAWitnessHasANameAndALimit) {
  const auto explore = [](void (*end)()) {
    setenv("DEVRT_LOG", "off", 1);
    Must(validate::Enable());
    sim::Options options = Seeded();
    options.time_limit = std::chrono::seconds(1);
    sim::Explore(options, [end] {
      Race();
      if (IsRunOfWitness()) end();
    });
  };
  const ProcessResult hangs = RunInChild([&] {
    explore([] {
      for (;;) pause();
    });
  });
  EXPECT_EQ(hangs.signal, SIGABRT);
  EXPECT_THAT(hangs.output,
              HasSubstr("The run is the one with strategy=asap,outcome=on"));
  EXPECT_THAT(hangs.output,
              HasSubstr("A run failed before that: the one with the token "));
  const ProcessResult exits = RunInChild([&] { explore([] { exit(0); }); });
  EXPECT_THAT(exits.output, HasSubstr("the body called exit() in the run with "
                                      "strategy=asap,outcome=on"));
}

TEST(ExploreProcess, AnExplorationInABodyIsRefused) {
  InChild([] {
    const sim::Result result = sim::Explore(
        Seeded(), [] { return sim::Explore(Seeded(), [] {}).status; });
    EXPECT_STATUS(result.status, kFailedPrecondition,
                  "an exploration runs already");
  });
}

TEST(ExploreProcess, ARefusedExplorationLeavesTheOneAroundItAsItIs) {
  InChild([] {
    const auto explore = [] {
      static_cast<void>(sim::Explore(Seeded(), [] {}));
    };
    const sim::Result all = sim::Enumerate(Seeded(), [&] {
      explore();
      return TwoUpdates(true);
    });
    EXPECT_TRUE(all.ok()) << all.text();
    EXPECT_TRUE(all.exhaustive);
    EXPECT_GT(all.schedules, 1u);
    const sim::Result failed = sim::Explore(Seeded(), [&] {
      explore();
      return TwoUpdates(false);
    });
    EXPECT_EQ(failed.verdict, Verdict::kFailed);
    EXPECT_FALSE(failed.failing.decisions.empty());
  });
}

TEST(ExploreProcess, AScheduleOfManyStepsIsMadeSmallerInFewRuns) {
  InChild([] {
    setenv("DEVRT_LOG", "off", 1);
    sim::Options options = Seeded();
    options.config = "step_limit=50000";
    options.strategies = {"random"};
    const sim::Result result = sim::Explore(options, []() -> absl::Status {
      const Scene scene;
      for (;;) {
        scene.Nothing(0);
        const absl::Status waited = scene.device().Synchronize();
        if (!waited.ok()) return waited;
      }
    });
    EXPECT_EQ(result.verdict, Verdict::kFailed);
    EXPECT_STATUS(result.status, kFailedPrecondition,
                  "the step limit was reached");
    EXPECT_LE(result.shrinking, 25u);
    EXPECT_THAT(result.note, HasSubstr(" steps, so it was made smaller in "));
  });
}

TEST(ExploreProcess, SeedsComeFromTheEnvironment) {
  InChild([] {
    setenv("DEVRT_SIM_SEED", "12", 1);
    EXPECT_EQ(sim::Explore({}, [] {}).seed, 12u);
    setenv("DEVRT_SIM_SEED", "12a", 1);
    EXPECT_STATUS(sim::Explore({}, [] {}).status, kInvalidArgument,
                  "DEVRT_SIM_SEED is \"12a\"");
  });
}

TEST(ExploreProcess, ATokenOfTheEnvironmentIsTheOnlyRun) {
  InChild([] {
    sim::Options options = Seeded();
    options.strategies = {"random"};
    int runs = 0;
    const auto body = [&] {
      ++runs;
      return TwoUpdates(false);
    };
    const sim::Result result = sim::Explore(options, body);
    ASSERT_EQ(result.verdict, Verdict::kFailed);
    setenv("DEVRT_SIM_REPLAY", result.token().c_str(), 1);
    runs = 0;
    EXPECT_EQ(sim::Explore(options, body).verdict, Verdict::kFailed);
    EXPECT_EQ(runs, 1);
  });
}

TEST(ExploreProcess, FindingsOfTheDetectorFailTheRun) {
  InChild([] {
    setenv("DEVRT_LOG", "off", 1);
    EXPECT_OK(validate::Enable());
    sim::Options options = Seeded();
    for (const uint64_t most : {options.shrink_runs, uint64_t{0}}) {
      options.shrink_runs = most;
      const sim::Result result = sim::Explore(options, Race);
      EXPECT_EQ(result.verdict, Verdict::kFailed);
      EXPECT_STATUS(result.status, kFailedPrecondition, "race-");
      EXPECT_THAT(result.note, HasSubstr(": unconfirmed in 64 directed runs"));
    }
    options.race = false;
    EXPECT_TRUE(sim::Explore(options, Race).ok());
  });
}

TEST(ExploreProcess, AFindingGetsARunWithAWrongValue) {
  InChild([] {
    setenv("DEVRT_LOG", "off", 1);
    EXPECT_OK(validate::Enable());
    const auto body = [] {
      const Scene scene;
      scene.Update(0, 2, 0, "double");
      scene.Update(1, 1, 3, "add");
      scene.Value();  // which the body does not compare
    };
    const sim::Result result = sim::Explore(Seeded(), body);
    EXPECT_EQ(result.verdict, Verdict::kFailed);
    EXPECT_THAT(result.note, HasSubstr(": wrong value in directed run "));
    EXPECT_THAT(result.token(), HasSubstr(":directed:"));
  });
}

}  // namespace
}  // namespace devrt::testing
