// SPDX-License-Identifier: Apache-2.0
//
// A forked child has a copy of its parent's communicators, and not their
// threads (C105).

#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "collectives/core/comm.h"
#include "collectives/core/device_order.h"
#include "devrt/runtime/mutex.h"
#include "tests/collectives/collectives_fixture.h"

namespace devrt::testing {
namespace {

using collectives::AllReduce;
using collectives::State;
using collectives::internal::Comm;

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

}  // namespace
}  // namespace devrt::testing
