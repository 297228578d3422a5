// SPDX-License-Identifier: Apache-2.0
//
// K-C10 and K-C15 across processes: a rank is killed at each of 100 points of a
// job of three processes.  The others return within their timeout and a second,
// and the error and the report name the rank, its call and the line.
//
// The engine is one of this test, in memory that the processes share.
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "devrt/collectives/bootstrap.h"
#include "devrt/collectives/communicator.h"
#include "devrt/collectives/host_engine.h"
#include "devrt/collectives/recorder.h"
#include "tests/collectives/collectives_fixture.h"

namespace devrt::testing {
namespace {

using collectives::HostCommunicator;
using collectives::HostEngine;
using collectives::HostPlace;
using ::testing::HasSubstr;

constexpr int kRanks = 3;
constexpr int kPoints = 100;
constexpr int kPointsBeforeACall = 4;
constexpr int kCalls = 20;       // of each rank, with 5 points each
constexpr size_t kElements = 8;  // int32
constexpr auto kTimeout = absl::Milliseconds(300);
constexpr double kLongest = 0.3 + 1;  // seconds

double Now() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// What the processes of one job share.
struct Job {
  pthread_barrier_t start;
  std::atomic<int> begun;
  struct Rank {
    // The operations that it came to, and the inputs of the newest two.
    std::atomic<uint64_t> arrived;
    int32_t input[2][kElements];
    // How it ended, if it was not killed.
    int code;
    double call_begin, call_end;  // of the call that failed
    char text[2048];
    int line;  // of its newest call
  } ranks[kRanks];
  double killed_at;
};

// In the process of a rank: how many points are left until it is killed.
struct Fate {
  Job* job = nullptr;
  int rank = 0;
  int points_left = 0;  // 0: it lives
};
Fate g_fate;

void Point() {
  if (g_fate.points_left == 0 || --g_fate.points_left != 0) return;
  g_fate.job->killed_at = Now();
  raise(SIGKILL);
}

class SharedCommunicator final : public HostCommunicator {
 public:
  HostPlace place() const override {
    return {static_cast<uint32_t>(g_fate.rank), kRanks};
  }
  absl::StatusOr<bool> IsReady() override {
    if (!std::exchange(was_asked_, true)) Point();
    return g_fate.job->begun.load() == kRanks;
  }
  absl::Status Start(const devrt_collective_v0& op) override {
    Point();
    Job::Rank& mine = g_fate.job->ranks[g_fate.rank];
    std::memcpy(mine.input[started_ % 2], op.src, sizeof mine.input[0]);
    dst_ = op.dst;
    mine.arrived.store(++started_);
    Point();
    return absl::OkStatus();
  }
  absl::StatusOr<bool> Test() override {
    if (dst_ == nullptr) return true;
    for (const Job::Rank& rank : g_fate.job->ranks) {
      if (rank.arrived.load() < started_) return false;
    }
    int32_t sums[kElements] = {};
    for (const Job::Rank& rank : g_fate.job->ranks) {
      for (size_t i = 0; i < kElements; ++i) {
        sums[i] += rank.input[(started_ - 1) % 2][i];
      }
    }
    std::memcpy(dst_, sums, sizeof sums);
    dst_ = nullptr;
    Point();
    return true;
  }
  absl::StatusOr<std::unique_ptr<HostCommunicator>> Split(int, int) override {
    return absl::UnimplementedError("this engine splits nothing");
  }

 private:
  bool was_asked_ = false;
  uint64_t started_ = 0;
  void* dst_ = nullptr;
};

class SharedEngine final : public HostEngine {
 public:
  std::string name() const override { return "shared"; }
  std::string version() const override { return "1"; }
  bool Supports(uint32_t op, uint32_t dtype, uint32_t) const override {
    return op == DEVRT_COLLECTIVE_ALL_REDUCE && dtype == DEVRT_INT32;
  }
  absl::StatusOr<std::unique_ptr<HostCommunicator>> Begin(uint32_t,
                                                          uint32_t) override {
    Point();
    ++g_fate.job->begun;
    return std::make_unique<SharedCommunicator>();
  }
};

// All calls of a rank, up to its first error.
absl::Status Calls(Job* job, int rank, collectives::Bootstrap* bootstrap) {
  Job::Rank& mine = job->ranks[rank];
  collectives::Options options;
  options.provider = "shared";
  options.init_timeout = options.timeout = kTimeout;
  DEVRT_ASSIGN_OR_RETURN(const Device device, GetDevice("mtia:0"));
  DEVRT_ASSIGN_OR_RETURN(const Array x,
                         Array::Full({kElements}, kInt32, rank + 1, device));
  DEVRT_ASSIGN_OR_RETURN(const Array y,
                         Array::Empty({kElements}, kInt32, device));
  pthread_barrier_wait(&job->start);
  mine.call_begin = Now();
  Point();
  DEVRT_ASSIGN_OR_RETURN(Communicator comm,
                         Communicator::Create(device, *bootstrap, options));
  for (int call = 0; call < kCalls; ++call) {
    Point();
    mine.call_begin = Now();
    mine.line = __LINE__ + 1;
    DEVRT_RETURN_IF_ERROR(comm.AllReduce(y, x));
    Point();
    DEVRT_ASSIGN_OR_RETURN(const Array host, y.To(Place::Host()));
    if (host.data_as<int32_t>()[kElements - 1] != 1 + 2 + 3) {
      return absl::DataLossError("a wrong sum");
    }
  }
  Point();
  return comm.Finish(absl::Now() + kTimeout);
}

void RunRank(Job* job, int rank, const std::string& folder) {
  Job::Rank& mine = job->ranks[rank];
  g_fate.job = job;
  g_fate.rank = rank;
  setenv("DEVRT_COLLECTIVES_RECORD", (folder + "/records").c_str(), 1);
  absl::Status status =
      collectives::RegisterEngine(std::make_unique<SharedEngine>());
  if (status.ok()) {
    auto bootstrap =
        collectives::FromFile(folder + "/ranks", rank, kRanks, "killed");
    status = bootstrap.ok() ? Calls(job, rank, bootstrap->get())
                            : bootstrap.status();
  }
  mine.call_end = Now();
  mine.code = static_cast<int>(status.code());
  const std::string text(status.message());
  text.copy(mine.text, sizeof mine.text - 1);
  _exit(0);
}

class KilledRank : public ::testing::Test {
 protected:
  struct Run {
    int point = 0;
    int victim = 0;
    Job* job = nullptr;
    std::string folder;
    pid_t pids[kRanks] = {};
    bool was_killed = false;
  };

  static void Start(Run* run) {
    std::string pattern = ::testing::TempDir() + "/killed.XXXXXX";
    run->folder = mkdtemp(pattern.data());
    std::filesystem::create_directory(run->folder + "/records");
    void* const memory = mmap(nullptr, sizeof(Job), PROT_READ | PROT_WRITE,
                              MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    ASSERT_NE(memory, MAP_FAILED);
    run->was_killed = false;
    run->job = new (memory) Job();
    pthread_barrierattr_t shared;
    pthread_barrierattr_init(&shared);
    pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
    pthread_barrier_init(&run->job->start, &shared, kRanks);
    for (int rank = 0; rank < kRanks; ++rank) {
      run->pids[rank] = fork();
      ASSERT_GE(run->pids[rank], 0);
      if (run->pids[rank] != 0) continue;
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      g_fate.points_left = rank == run->victim ? run->point : 0;
      RunRank(run->job, rank, run->folder);
    }
  }

  static void Wait(Run* run) {
    for (int rank = 0; rank < kRanks; ++rank) {
      int end = 0;
      ASSERT_EQ(waitpid(run->pids[rank], &end, 0), run->pids[rank]);
      const bool is_killed = WIFSIGNALED(end) && WTERMSIG(end) == SIGKILL;
      if (rank == run->victim) run->was_killed = is_killed;
      if (rank == run->victim) continue;
      ASSERT_TRUE(WIFEXITED(end)) << end;
    }
  }

  // On a busy machine a timeout may pass before the point: that run shows
  // nothing.
  static bool ShowsIt(const Run& run) {
    for (int rank = 0; rank < kRanks; ++rank) {
      const Job::Rank& mine = run.job->ranks[rank];
      if (rank != run.victim && mine.call_end < run.job->killed_at)
        return false;
    }
    return run.was_killed;
  }

  static void End(Run* run) {
    munmap(run->job, sizeof(Job));
    std::filesystem::remove_all(run->folder);
  }

  // Returns true if the victim had called, which all texts name then: a call
  // enters the record before the engine has it.
  bool Check(const Run& run) {
    const auto report = collectives::Report(run.folder + "/records");
    const Job::Rank& dead = run.job->ranks[run.victim];
    const std::string name = "rank " + std::to_string(run.victim);
    const std::string gone =
        name + " is gone: the process ended without Finish";
    const std::string line = "killed_test.cc:" + std::to_string(dead.line);
    const bool has_called = dead.line != 0;
    for (int rank = 0; rank < kRanks; ++rank) {
      if (rank == run.victim) continue;
      const Job::Rank& mine = run.job->ranks[rank];
      SCOPED_TRACE("rank " + std::to_string(rank) + ": " + mine.text);
      EXPECT_NE(mine.code, 0);
      const double took =
          mine.call_end - std::max(mine.call_begin, run.job->killed_at);
      EXPECT_LT(took, kLongest);
      slowest_ = std::max(slowest_, took);
      if (!has_called) continue;
      EXPECT_THAT(mine.text, HasSubstr(gone));
      EXPECT_THAT(mine.text, HasSubstr(line));
      EXPECT_THAT(mine.text, HasSubstr("all_reduce(int32 x 8, sum)"));
    }
    if (has_called) {
      EXPECT_OK(report);
      if (!report.ok()) return false;
      EXPECT_THAT(*report, HasSubstr(gone + ", at "));
      EXPECT_THAT(*report, HasSubstr(line));
      EXPECT_THAT(*report, HasSubstr("all_reduce(int32 x 8, sum)"));
    }
    return has_called;
  }

  double slowest_ = 0;  // return of a survivor, in seconds
};

TEST_F(KilledRank, AtEachOfAHundredPoints) {
  constexpr int kTogether = 10;  // jobs
  int named = 0;
  for (int first = 1; first <= kPoints; first += kTogether) {
    std::vector<Run> runs(kTogether);
    for (int i = 0; i < kTogether; ++i) {
      runs[i].point = first + i;
      runs[i].victim = (first + i) % kRanks;
      Start(&runs[i]);
    }
    for (Run& run : runs) {
      SCOPED_TRACE("point " + std::to_string(run.point));
      Wait(&run);
      for (int more = 0; more < 3 && !ShowsIt(run); ++more) {
        End(&run);
        Start(&run);
        Wait(&run);
      }
      EXPECT_TRUE(ShowsIt(run)) << run.job->ranks[run.victim].text;
      named += Check(run) ? 1 : 0;
      End(&run);
    }
    if (HasFailure()) return;
  }
  EXPECT_EQ(named, kPoints - kPointsBeforeACall);
  RecordProperty("named", named);
  RecordProperty("slowest_seconds", std::to_string(slowest_));
}

}  // namespace
}  // namespace devrt::testing
