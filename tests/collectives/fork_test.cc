// SPDX-License-Identifier: Apache-2.0
//
// A forked child has a copy of its parent's communicators, and not their
// threads (C105).

#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "collectives/core/comm.h"
#include "collectives/core/device_order.h"
#include "collectives/recorder/ring.h"
#include "devrt/collectives/recorder.h"
#include "devrt/runtime/mutex.h"
#include "tests/collectives/collectives_fixture.h"

namespace devrt::testing {
namespace {

using collectives::AllReduce;
using collectives::State;
using collectives::internal::Comm;
using collectives::internal::Ring;
using ::testing::HasSubstr;
using ::testing::Not;

class Fork : public CommTest {
 protected:
  // The exit status of a child that runs `body` for 20 s at most.
  static int InChild(const std::function<int()>& body) {
    const pid_t child = fork();
    if (child == 0) {
      alarm(20);
      _exit(body());
    }
    int status = 0;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  static bool IsRefused(const absl::Status& status) {
    return absl::IsFailedPrecondition(status) &&
           absl::StrContains(status.message(), "in a forked child");
  }

  // Returns 0 if each call is refused, else which one is not.
  static int CallAll(std::vector<Communicator>* ranks, const Array& x) {
    Communicator& rank = (*ranks)[0];
    Group group;
    for (const Communicator& of : *ranks) group.Add(of, AllReduce(x, x));
    const absl::Time soon = absl::Now() + absl::Seconds(1);
    const absl::Status results[] = {
        rank.AllReduce(x, x),
        group.Submit(),
        rank.Wait(),
        rank.failure(),
        rank.Abort("in the child"),
        rank.Barrier(soon),
        rank.Split(0, 0).status(),
        rank.Shrink({1}).status(),
        rank.Register(x).status(),
        rank.Supports(OpKind::kAllReduce, kInt32).status(),
        rank.Finish(soon),
        Communicator::FinishAll(*ranks, soon),
    };
    int number = 1;
    for (const absl::Status& result : results) {
      if (!IsRefused(result)) return number;
      ++number;
    }
    return rank.state() == State::kReady && rank.Records().empty() ? 0 : number;
  }
};

TEST_F(Fork, TheChildIsRefusedEachCallAndTheParentGoesOn) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const Array x = Filled(0, 4, 1);
  EXPECT_EQ(InChild([&] { return CallAll(&ranks, x); }), 0);
  Group group;
  for (int i = 0; i < 2; ++i) {
    const Array one = Filled(i, 4, 1);
    group.Add(ranks[i], AllReduce(one, one));
  }
  EXPECT_OK(group.Submit());
  EXPECT_OK(Communicator::FinishAll(ranks));
}

TEST_F(Fork, TheChildTakesNoLockAndWaitsForNoThread) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const Array x = Filled(0, 4, 1);
  Comm* const comm = ranks[0].comm().get();
  std::mutex busy;
  busy.lock();
  {
    // Of a failure that the ranks talk about.
    const MutexLock lock(&comm->mutex);
    comm->exchange = std::thread([&busy] { const std::lock_guard over(busy); });
  }
  comm->order->Lock();
  comm->mutex.Lock();
  const int result = InChild([&] {
    const int refused = CallAll(&ranks, x);
    ranks.clear();
    return refused;
  });
  comm->mutex.Unlock();
  comm->order->Unlock();
  busy.unlock();
  EXPECT_EQ(result, 0);
}

// A worker that loads data, say, has the lock of its parent's file.
TEST_F(Fork, AReportTellsThatTheParentOfAChildIsGone) {
  std::string folder = ::testing::TempDir() + "/devrt-fork-XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t rank = fork();
  if (rank == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Ring::Identity identity;
    identity.key = identity.id = 3;
    identity.label = "3";
    identity.rank = 1;
    identity.size = 2;
    const auto ring = Must(Ring::Make(identity, folder));
    const pid_t worker = fork();
    if (worker == 0) {
      close(pipe_fds[1]);
      alarm(60);
      pause();
      _exit(1);
    }
    // The first thread ends, and the process does not.
    std::thread([] { pause(); }).detach();
    (void)!write(pipe_fds[1], &worker, sizeof worker);
    syscall(SYS_exit, 0);
  }
  pid_t worker = 0;
  close(pipe_fds[1]);
  ASSERT_EQ(read(pipe_fds[0], &worker, sizeof worker),
            static_cast<ssize_t>(sizeof worker));
  const auto report = [&] { return Must(collectives::Report(folder)); };
  const std::string stat = "/proc/" + std::to_string(rank) + "/stat";
  std::string line;
  while (!absl::StrContains(line, ") Z ")) {
    std::ifstream file(stat);
    ASSERT_TRUE(std::getline(file, line));
  }
  EXPECT_THAT(report(), Not(HasSubstr("gone")));
  kill(rank, SIGKILL);
  siginfo_t ended;
  ASSERT_EQ(waitid(P_PID, static_cast<id_t>(rank), &ended, WEXITED | WNOWAIT),
            0);
  EXPECT_THAT(report(), HasSubstr("rank 1 is gone"));  // a zombie
  waitpid(rank, nullptr, 0);
  EXPECT_THAT(report(), HasSubstr("rank 1 is gone"));
  kill(worker, SIGKILL);
  close(pipe_fds[0]);
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace devrt::testing
