// SPDX-License-Identifier: Apache-2.0
#include "tests/collectives/killed_job.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "devrt/collectives/bootstrap.h"
#include "devrt/collectives/communicator.h"
#include "devrt/collectives/recorder.h"
#include "devrt/devrt.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

using ::testing::HasSubstr;

constexpr unsigned kLongestJob = 60;  // seconds

// In the process of a rank: how many points are left until it is killed.
struct Fate {
  KilledJob* job = nullptr;
  int rank = 0;
  int points_left = 0;  // 0: it lives
};
Fate g_fate;

// Of a clock that the processes share, and that nobody sets.
double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

void Kill() {
  g_fate.job->killed_at = Now();
  raise(SIGKILL);
}

}  // namespace

KilledJob& JobOfThisRank() { return *g_fate.job; }
int ThisRank() { return g_fate.rank; }

void Point(absl::Duration after) {
  if (g_fate.points_left == 0 || --g_fate.points_left != 0) return;
  if (after == absl::ZeroDuration()) Kill();
  std::thread([end = absl::Now() + after] {
    while (absl::Now() < end) {
    }
    Kill();
  }).detach();
}

namespace {

// ---- What a rank does -------------------------------------------------------

// All calls of a rank, up to its first error.
absl::Status Calls(const KilledPlan& plan, collectives::Bootstrap* bootstrap) {
  const int rank = ThisRank();
  KilledJob::Rank& mine = JobOfThisRank().ranks[rank];
  collectives::Options options;
  options.provider = plan.provider;
  options.shared_device = plan.shared_device;
  options.init_timeout = plan.init_timeout;
  options.timeout = plan.timeout;
  DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice(plan.device(rank)));
  const int64_t size = KilledJob::kElements;
  DEVRT_ASSIGN_OR_RETURN(const Array x,
                         Array::Full({size}, kInt32, rank + 1, device));
  DEVRT_ASSIGN_OR_RETURN(const Array y, Array::Empty({size}, kInt32, device));
  DEVRT_RETURN_IF_ERROR(x.Ready());
  pthread_barrier_wait(&JobOfThisRank().start);
  // The time of a failure is taken before anything is freed.
  const auto ended = [&](absl::Status status) {
    mine.call_end = Now();
    return status;
  };
  mine.call_begin = Now();
  for (const absl::Duration after : plan.in_create) Point(after);
  absl::StatusOr<collectives::Communicator> comm =
      collectives::Communicator::Create(device, *bootstrap, options);
  if (!comm.ok()) return ended(comm.status());
  for (int call = 0; call < plan.calls; ++call) {
    for (const absl::Duration after : plan.in_call) Point(after);
    mine.call_begin = Now();
    mine.line = __LINE__ + 1;
    absl::Status status = comm->AllReduce(y, x);
    Point();
    if (status.ok()) status = comm->Wait();
    if (!status.ok()) return ended(status);
    DEVRT_ASSIGN_OR_RETURN(const Array host, y.To(Place::Host()));
    if (host.data_as<int32_t>()[size - 1] != plan.ranks * (plan.ranks + 1) / 2)
      return ended(absl::DataLossError("a wrong sum"));
  }
  Point();
  mine.call_begin = Now();
  return ended(comm->Finish(absl::Now() + plan.timeout));
}

void RunRank(const KilledPlan& plan, const std::string& folder) {
  KilledJob::Rank& mine = JobOfThisRank().ranks[ThisRank()];
  alarm(kLongestJob);  // the others wait where a rank fails before its start
  setenv("DEVRT_COLLECTIVES_RECORD", (folder + "/records").c_str(), 1);
  absl::Status status = plan.prepare();
  if (status.ok()) {
    auto bootstrap = collectives::FromFile(folder + "/ranks", ThisRank(),
                                           plan.ranks, "killed");
    status =
        bootstrap.ok() ? Calls(plan, bootstrap->get()) : bootstrap.status();
  }
  mine.code = static_cast<int>(status.code());
  const std::string text(status.message());
  text.copy(mine.text, sizeof mine.text - 1);
  _exit(0);
}

// ---- A job ------------------------------------------------------------------

struct Run {
  int point = 0;
  int victim = 0;
  KilledJob* job = nullptr;
  std::string folder;
  pid_t pids[KilledJob::kMaxRanks] = {};
  bool was_killed = false;
};

void Start(const KilledPlan& plan, Run* run) {
  std::string pattern = ::testing::TempDir() + "/killed.XXXXXX";
  run->folder = mkdtemp(pattern.data());
  std::filesystem::create_directory(run->folder + "/records");
  void* const memory = mmap(nullptr, sizeof(KilledJob), PROT_READ | PROT_WRITE,
                            MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  run->was_killed = false;
  run->job = new (memory) KilledJob();
  pthread_barrierattr_t shared;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&run->job->start, &shared,
                       static_cast<unsigned>(plan.ranks));
  for (int rank = 0; rank < plan.ranks; ++rank) {
    run->pids[rank] = fork();
    ASSERT_GE(run->pids[rank], 0);
    if (run->pids[rank] != 0) continue;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    g_fate = {run->job, rank, rank == run->victim ? run->point : 0};
    RunRank(plan, run->folder);
  }
}

void Wait(const KilledPlan& plan, Run* run) {
  for (int rank = 0; rank < plan.ranks; ++rank) {
    int end = 0;
    ASSERT_EQ(waitpid(run->pids[rank], &end, 0), run->pids[rank]);
    const bool is_killed = WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL;
    if (rank == run->victim) run->was_killed = is_killed;
    if (rank == run->victim) continue;
    ASSERT_TRUE(WIFEXITED(end)) << end;
  }
}

absl::Duration LimitOf(const KilledPlan& plan, const KilledJob::Rank& rank) {
  return rank.line == 0 ? plan.init_timeout : plan.timeout;
}

// On a busy machine a survivor's timeout may pass before the point: that run
// shows nothing.
bool ShowsIt(const KilledPlan& plan, const Run& run) {
  for (int rank = 0; rank < plan.ranks; ++rank) {
    const KilledJob::Rank& mine = run.job->ranks[rank];
    const double limit =
        mine.call_begin + absl::ToDoubleSeconds(LimitOf(plan, mine));
    if (rank != run.victim &&
        std::min(mine.call_end, limit) < run.job->killed_at) {
      return false;
    }
  }
  return run.was_killed;
}

void End(Run* run) {
  munmap(run->job, sizeof(KilledJob));
  std::filesystem::remove_all(run->folder);
}

// What the survivors of one job say, and when.  Returns whether all name the
// killed rank's call, and raises `slowest`, in seconds, to the return of the
// slowest one.
bool Check(const KilledPlan& plan, const Run& run, double* slowest) {
  const KilledJob::Rank& dead = run.job->ranks[run.victim];
  const std::string name = absl::StrCat("rank ", run.victim);
  const std::string gone = name + " is gone: the process ended without Finish";
  const std::string line = absl::StrCat("killed_job.cc:", dead.line);
  const std::string call =
      absl::StrCat("all_reduce(int32 x ", KilledJob::kElements, ", sum)");
  const bool has_called = run.point > plan.points_without_a_call;
  for (int rank = 0; rank < plan.ranks; ++rank) {
    if (rank == run.victim) continue;
    const KilledJob::Rank& mine = run.job->ranks[rank];
    SCOPED_TRACE(absl::StrCat("rank ", rank, ": ", mine.text));
    EXPECT_NE(mine.code, 0);
    const double took =
        mine.call_end - std::max(mine.call_begin, run.job->killed_at);
    EXPECT_LT(took,
              absl::ToDoubleSeconds(LimitOf(plan, mine) + absl::Seconds(1)));
    *slowest = std::max(*slowest, took);
    if (!has_called) continue;
    EXPECT_THAT(mine.text, HasSubstr(gone));
    EXPECT_THAT(mine.text, HasSubstr(line));
    EXPECT_THAT(mine.text, HasSubstr(call));
  }
  if (!has_called) return false;
  const auto report = collectives::Report(run.folder + "/records");
  EXPECT_OK(report);
  if (!report.ok()) return false;
  EXPECT_THAT(*report, HasSubstr(gone + ", at "));
  EXPECT_THAT(*report, HasSubstr(line));
  EXPECT_THAT(*report, HasSubstr(call));
  return true;
}

}  // namespace

void KillAtEachPoint(const KilledPlan& plan, int together) {
  ASSERT_LE(plan.ranks, KilledJob::kMaxRanks);
  int named = 0;
  double slowest = 0;
  for (int first = plan.first_point; first <= plan.last_point;
       first += together) {
    std::vector<Run> runs(std::min(together, plan.last_point - first + 1));
    for (size_t i = 0; i < runs.size(); ++i) {
      runs[i].point = first + static_cast<int>(i);
      runs[i].victim = runs[i].point % plan.ranks;
      Start(plan, &runs[i]);
      if (::testing::Test::HasFatalFailure()) return;
    }
    for (Run& run : runs) {
      SCOPED_TRACE(absl::StrCat("point ", run.point));
      Wait(plan, &run);
      if (::testing::Test::HasFatalFailure()) return;
      for (int more = 0; more < 3 && !ShowsIt(plan, run); ++more) {
        End(&run);
        Start(plan, &run);
        Wait(plan, &run);
      }
      EXPECT_TRUE(ShowsIt(plan, run)) << run.job->ranks[run.victim].text;
      named += Check(plan, run, &slowest) ? 1 : 0;
      End(&run);
    }
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_EQ(named, plan.last_point - std::max(plan.points_without_a_call,
                                              plan.first_point - 1));
  ::testing::Test::RecordProperty("named", named);
  ::testing::Test::RecordProperty("slowest_seconds", absl::StrCat(slowest));
  std::printf(
      "points %d to %d, %d named; the slowest survivor returned after %.2f s\n",
      plan.first_point, plan.last_point, named, slowest);
}

}  // namespace devrt::testing
