// SPDX-License-Identifier: Apache-2.0
//
// A rank of a job over NCCL is killed at each of 100 points (K-C10, K-C15): one
// process for each GPU, of four at most, or two on one GPU where NCCL allows
// that (from 2.30, with NCCL_MULTI_RANK_GPU_ENABLE=1).
// Skipped where that cannot be, and without a libnccl.so.2, which
// DEVRT_NCCL_LIBRARY can name.
#include <execinfo.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "absl/strings/str_cat.h"
#include "devrt/collectives/communicator.h"
#include "devrt/devrt.h"
#include "tests/collectives/killed_job.h"

namespace devrt::hardware {
namespace {

using testing::KilledJob;
using testing::KilledPlan;

// True if several ranks may have the device.
bool RanksMayShare(Device device) {
  const auto engine = collectives::EngineOf(device);
  const char* const enabled = std::getenv("NCCL_MULTI_RANK_GPU_ENABLE");
  return engine.ok() && enabled != nullptr && std::string(enabled) == "1" &&
         std::count(engine->features.begin(), engine->features.end(),
                    "shared_device") != 0;
}

// Two ranks that share a GPU.
constexpr int kShared = 100;

// Returns the number of ranks that this machine can have, or kShared.  A child
// process opens the devices, because the processes of the ranks begin as copies
// of this one.
int Ranks() {
  const pid_t child = fork();
  if (child == 0) {
    const absl::StatusOr<std::vector<Device>> devices = Devices("cuda");
    absl::Status status = devices.status();
    if (status.ok()) status = collectives::EngineOf((*devices)[0]).status();
    if (!status.ok()) {
      std::fprintf(stderr, "%s\n", status.ToString().c_str());
      _exit(0);
    }
    if (devices->size() == 1 && RanksMayShare((*devices)[0])) _exit(kShared);
    _exit(static_cast<int>(
        std::min<size_t>(devices->size(), KilledJob::kMaxRanks)));
  }
  int end = 0;
  if (waitpid(child, &end, 0) != child || !WIFEXITED(end)) return -1;
  return WEXITSTATUS(end);
}

// Prints the calls that led to a crash.  Nothing else remains of a process that
// crashes, and a crash may not happen again.
void PrintStack(int signal) {
  void* calls[64];
  backtrace_symbols_fd(calls, backtrace(calls, 64), STDERR_FILENO);
  (void)std::raise(signal);  // its action is the default one again
}

absl::Status PrintStackOfCrashes() {
  void* first = nullptr;
  (void)backtrace(&first, 1);  // loads the library that unwinds
  struct sigaction action = {};
  action.sa_handler = &PrintStack;
  action.sa_flags = SA_RESETHAND;
  for (const int signal : {SIGSEGV, SIGBUS, SIGABRT}) {
    if (sigaction(signal, &action, nullptr) != 0) {
      return absl::ErrnoToStatus(errno, "sigaction");
    }
  }
  return absl::OkStatus();
}

// A test for each quarter of the points: on one GPU the ranks take turns, and a
// quarter takes a minute.
class NcclKilledRank : public ::testing::TestWithParam<int> {};

TEST_P(NcclKilledRank, AtEachPoint) {
  KilledPlan plan;
  plan.first_point = GetParam();
  plan.last_point = GetParam() + 24;
  plan.ranks = Ranks();
  ASSERT_GE(plan.ranks, 0);
  if (plan.ranks < 2) GTEST_SKIP() << "needs two GPUs and NCCL";
  plan.shared_device = plan.ranks == kShared;
  if (plan.shared_device) plan.ranks = 2;
  plan.provider = "nccl";
  plan.prepare = &PrintStackOfCrashes;
  plan.device = [shared = plan.shared_device](int rank) {
    return absl::StrCat("cuda:", shared ? 0 : rank);
  };
  // The ranks of several jobs begin at once.
  plan.init_timeout = absl::Seconds(10);
  plan.timeout = absl::Seconds(2);
  // Five points of Create, and five of each call: four times behind its
  // beginning, and the one of killed_job.cc.  The first call may be killed
  // before it is recorded.  The points are in the first 20 of 60 calls, so
  // a time behind the beginning of a call is not behind the end of the job.
  plan.calls = 60;
  plan.in_create = {absl::ZeroDuration(), absl::Milliseconds(1),
                    absl::Milliseconds(10), absl::Milliseconds(50),
                    absl::Milliseconds(100)};
  plan.in_call = {absl::ZeroDuration(), absl::Microseconds(20),
                  absl::Microseconds(100), absl::Microseconds(200)};
  plan.points_without_a_call = 10;
  KillAtEachPoint(plan, /*together=*/plan.shared_device ? 2 : 10);
}

INSTANTIATE_TEST_SUITE_P(Points, NcclKilledRank,
                         ::testing::Values(1, 26, 51, 76),
                         [](const ::testing::TestParamInfo<int>& param) {
                           return "from_" + std::to_string(param.param);
                         });

}  // namespace
}  // namespace devrt::hardware
