// SPDX-License-Identifier: Apache-2.0
//
// Failures, timeouts and aborts: K-C10 to K-C14.
#include "collectives/core/failure.h"

#include <sys/wait.h>
#include <unistd.h>

#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/time/clock.h"
#include "collectives/core/children.h"
#include "collectives/core/comm.h"
#include "tests/collectives/collectives_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using collectives::OnFailure;
using collectives::Options;
using collectives::State;
namespace ops = collectives;

using Mismatch = CommTest;
using Timeout = CommTest;
using Abort = CommTest;
using Failure = CommTest;

// K-C14
TEST_F(Mismatch, IsReportedOnEveryRank) {
  std::vector<Communicator> ranks = MakeRanks(3);
  const int line = __LINE__ + 4;
  for (int i = 0; i < 3; ++i) {
    const Array x = Filled(i, i == 1 ? 5 : 4, 1);
    // The ranks' counts differ.
    ASSERT_OK(ranks[i].AllReduce(x, x));
  }
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(
        ranks[i].Wait(),
        StatusIs(absl::StatusCode::kInvalidArgument,
                 AllOf(HasSubstr(" failed at 1 all_reduce(int32 x "),
                       HasSubstr("failure_test.cc:" + std::to_string(line)))));
    EXPECT_EQ(ranks[i].state(), State::kFailed);
    const Array x = Filled(i, 4, 1);
    EXPECT_THAT(ranks[i].AllReduce(x, x),
                StatusIs(absl::StatusCode::kAborted,
                         HasSubstr("failed at 1 all_reduce(")));
    EXPECT_EQ(ranks[i].Records().size(), 1u);
  }
  // Other work of the device goes on, and so does a new communicator.
  std::vector<Communicator> others = MakeRanks(2);
  Group group;
  const std::vector<Array> x = {Filled(0, 2, 1), Filled(1, 2, 1)};
  for (int i = 0; i < 2; ++i) group.Add(others[i], ops::AllReduce(x[i], x[i]));
  ASSERT_OK(group.Submit());
  EXPECT_THAT(Ints(x[0]), Each(2));
}

// The call that differs is named, not an earlier one that is complete.
TEST_F(Mismatch, BehindCallsThatAreComplete) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const std::vector<Array> x = {Filled(0, 4, 1), Filled(1, 4, 1)};
  const Array y = Filled(1, 5, 1);
  for (int call = 1; call <= 3; ++call) {
    ASSERT_OK(ranks[0].AllReduce(x[0], x[0]));
    ASSERT_OK(ranks[1].AllReduce(call < 3 ? x[1] : y, call < 3 ? x[1] : y));
  }
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(ranks[i].Wait(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(" failed at 3 all_reduce(int32 x "),
                               HasSubstr("all_reduce #3 "))));
  }
}

// Each rank's call has its own line, not that of Submit.
TEST_F(Mismatch, OfAGroupTellsTheLineOfEachCall) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const std::vector<Array> x = {Filled(0, 4, 1), Filled(1, 5, 1)};
  Group group;
  const int line = __LINE__ + 1;
  group.Add(ranks[0], ops::AllReduce(x[0], x[0]));
  group.Add(ranks[1], ops::AllReduce(x[1], x[1]));
  ASSERT_OK(group.Submit());
  const auto call = [](int rank, int count) {
    return "rank " + std::to_string(rank) + ": all_reduce #1 (int32 x " +
           std::to_string(count) + ", sum) at " __FILE__ ":" +
           std::to_string(line + rank);
  };
  EXPECT_THAT(ranks[0].Wait(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr(call(0, 4) + "; " + call(1, 5))));
}

// Where one point in time cannot be told, the range is.
TEST_F(Abort, TellsTheRangeOfOpenCalls) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const Array x = Filled(0, 4, 1);
  for (int i = 0; i < 3; ++i) ASSERT_OK(ranks[0].AllReduce(x, x));
  EXPECT_OK(ranks[0].Abort("over"));
  EXPECT_THAT(std::string(ranks[0].failure().message()),
              AllOf(HasSubstr("was aborted between 1 all_reduce("),
                    HasSubstr(" before and 3 all_reduce("),
                    HasSubstr(" before: over")));
}

TEST_F(Mismatch, OfKindDtypeReductionAndRoot) {
  for (int difference = 0; difference < 4; ++difference) {
    std::vector<Communicator> ranks = MakeRanks(2);
    const Array x = Filled(0, 4, 1);
    const Array y = Filled(1, 4, 1, difference == 1 ? kFloat32 : kInt32);
    ASSERT_OK(ranks[0].AllReduce(x, x));
    switch (difference) {
      case 0:
        ASSERT_OK(ranks[1].Broadcast(y, 0));
        break;
      case 1:
        ASSERT_OK(ranks[1].AllReduce(y, y));
        break;
      case 2:
        ASSERT_OK(ranks[1].AllReduce(y, y, Reduction::kMax));
        break;
      default:
        ASSERT_OK(ranks[1].Reduce(y, y, Reduction::kSum, 1));
    }
    EXPECT_THAT(ranks[0].Wait(),
                StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
    EXPECT_THAT(ranks[1].Wait(),
                StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
  }
}

// K-C10: a rank that never submits.
TEST_F(Timeout, EndsTheWaits) {
  std::vector<Communicator> ranks = MakeRanks(3, After(absl::Milliseconds(2)));
  std::vector<Array> x;
  for (int i = 0; i < 3; ++i) x.push_back(Filled(i, 4, 1));
  for (int i = 0; i < 2; ++i) ASSERT_OK(ranks[i].AllReduce(x[i], x[i]));
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(ranks[i].Wait(),
                StatusIs(absl::StatusCode::kDeadlineExceeded,
                         HasSubstr("failed at 1 all_reduce(int32 x 4, sum)")));
    EXPECT_EQ(ranks[i].state(), State::kFailed);
  }
  EXPECT_EQ(ranks[2].state(), State::kFailed);
}

TEST_F(Timeout, OfAWaitLeavesTheCommunicator) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const std::vector<Array> x = {Filled(0, 4, 1), Filled(1, 4, 1)};
  ASSERT_OK(ranks[0].AllReduce(x[0], x[0]));
  // Over after one poll: after a thousand of them the timeout of 600 s passes
  // in virtual time.
  EXPECT_THAT(ranks[0].Wait(std::nullopt, absl::Now()),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       HasSubstr("is not complete at the deadline")));
  EXPECT_EQ(ranks[0].state(), State::kReady);
  ASSERT_OK(ranks[1].AllReduce(x[1], x[1]));
  EXPECT_OK(ranks[0].Wait(std::nullopt, absl::Now() + absl::Seconds(20)));
  EXPECT_THAT(Ints(x[0]), Each(2));
}

// K-C13
TEST_F(Timeout, ThenShrink) {
  std::vector<Communicator> ranks = MakeRanks(3, After(absl::Milliseconds(2)));
  std::vector<Array> x;
  for (int i = 0; i < 3; ++i) x.push_back(Filled(i, 4, 1 << i));
  for (const int i : {0, 2}) ASSERT_OK(ranks[i].AllReduce(x[i], x[i]));
  for (const int i : {0, 2}) EXPECT_FALSE(ranks[i].Wait().ok());
  std::vector<Communicator> rest;
  rest.push_back(std::move(ranks[0]));
  rest.push_back(std::move(ranks[2]));
  auto small = Communicator::ShrinkAll(rest, {1});
  ASSERT_OK(small.status());
  Group group;
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(x[2 * i].Fill(i + 1));
    group.Add((*small)[i], ops::AllReduce(x[2 * i], x[2 * i]));
  }
  ASSERT_OK(group.Submit());
  EXPECT_THAT(Ints(x[0]), Each(3));
  // The engine names the child by the number that this process knows.
  ASSERT_OK((*small)[0].AllReduce(x[0], x[0]));
  const std::string number = std::to_string(rest[0].id());
  EXPECT_THAT(
      (*small)[0].Wait().ToString(),
      AllOf(HasSubstr("communicator " + number + " without rank 1 (rank 0"),
            HasSubstr("communicator \"" + number +
                      " without rank 1\": all_reduce #2")));
}

// One communicator has one name, in the library and in the engine.
TEST_F(Timeout, OfAShrunkOneWithAName) {
  Options options = After(absl::Milliseconds(2));
  options.name = "grads";
  std::vector<Communicator> ranks = MakeRanks(4, options);
  ranks.erase(ranks.begin() + 1, ranks.begin() + 3);
  auto small = Must(Communicator::ShrinkAll(ranks, {1, 2}));
  const Array x = Filled(0, 4, 1);
  ASSERT_OK(small[0].AllReduce(x, x));
  const std::string number = std::to_string(ranks[0].id());
  EXPECT_THAT(small[0].Wait().ToString(),
              AllOf(HasSubstr("communicator " + number +
                              " \"grads\" without ranks 1, 2 (rank 0 of 2)"),
                    HasSubstr("communicator \"" + number +
                              " grads without ranks 1, 2\": all_reduce #1")));
}

// K-C11
TEST_F(Abort, EndsAWaitOfAnotherThread) {
  for (const char* mode : {"mode=virtual", "mode=threaded"}) {
    Reset(mode);
    std::vector<Communicator> ranks = MakeRanks(2);
    const Array x = Filled(0, 4, 1);
    Stream stream = Must(Stream::Create(dev()));
    ASSERT_OK(ranks[0].AllReduce(x, x, Reduction::kSum, stream));
    absl::Status waited;
    absl::Status synchronized;
    std::thread waiter([&] { waited = ranks[0].Wait(stream); });
    std::thread other([&] { synchronized = stream.Synchronize(); });
    EXPECT_OK(ranks[0].Abort("the test is over"));
    waiter.join();
    other.join();
    EXPECT_THAT(waited, StatusIs(absl::StatusCode::kAborted,
                                 HasSubstr("the test is over")));
    EXPECT_EQ(ranks[0].state(), State::kAborted);
    EXPECT_OK(ranks[0].Abort("again"));
    EXPECT_THAT(ranks[0].failure(), StatusIs(absl::StatusCode::kAborted,
                                             HasSubstr("the test is over")));
    // Other streams go on.
    const Array y = Filled(0, 4, 3);
    EXPECT_THAT(Ints(y), Each(3));
  }
}

TEST_F(Abort, OfFourCommunicatorsOfADevice) {
  std::vector<std::vector<Communicator>> all;
  std::vector<Stream> streams;
  std::vector<Array> arrays;
  for (int k = 0; k < 4; ++k) {
    all.push_back(MakeRanks(2));
    streams.push_back(Must(Stream::Create(dev())));
    arrays.push_back(Filled(0, 4, 1));
    ASSERT_OK(
        all[k][0].AllReduce(arrays[k], arrays[k], Reduction::kSum, streams[k]));
  }
  for (auto& ranks : all) EXPECT_OK(ranks[0].Abort("over"));
  for (int k = 0; k < 4; ++k) {
    EXPECT_THAT(all[k][0].Wait(streams[k]),
                StatusIs(absl::StatusCode::kAborted, ::testing::_));
  }
  EXPECT_OK(dev().Synchronize());
}

// Decision 46: a read does not tell it.
TEST_F(Failure, IsToldByWaitAndNotByARead) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const std::vector<Array> x = {Filled(0, 4, 1), Filled(1, 5, 1)};
  for (int i = 0; i < 2; ++i) ASSERT_OK(ranks[i].AllReduce(x[i], x[i]));
  EXPECT_OK(x[0].Ready());
  EXPECT_THAT(Ints(x[0]), Each(-1));  // 0xFF, the bytes of no rank
  EXPECT_THAT(ranks[0].Wait(),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
}

TEST_F(Failure, EndsTheOthersOfTheDevice) {
  std::vector<Communicator> ranks = MakeRanks(2, After(absl::Milliseconds(2)));
  std::vector<Communicator> others = MakeRanks(2);
  const Array x = Filled(0, 4, 1);
  ASSERT_OK(ranks[0].AllReduce(x, x));
  EXPECT_FALSE(ranks[0].Wait().ok());
  EXPECT_EQ(others[0].state(), State::kAborted);
  EXPECT_THAT(others[0].failure().message(),
              HasSubstr("because another one of mtia:0 failed"));
}

// The other ranks' devices work: they miss this rank.
TEST_F(Failure, OfTheDevice) {
  {
    std::vector<Communicator> ranks = MakeRanks(2);
    std::vector<Communicator> others = MakeRanks(2);
    SimulatedFault lost;
    lost.kind = SimulatedFault::Kind::kLost;
    lost.device = 1;
    lost.native_code = 719;
    ASSERT_OK(sim().InjectFault(lost));
    EXPECT_FALSE(dev(1).Synchronize().ok());
    EXPECT_EQ(ranks[1].state(), State::kFailed);
    EXPECT_THAT(ranks[1].failure().message(),
                HasSubstr(std::string(dev(1).Health().message())));
    EXPECT_EQ(others[1].state(), State::kAborted);
    EXPECT_TRUE(ranks[1].comm()->ended && others[1].comm()->ended);
    EXPECT_EQ(ranks[0].state(), State::kReady);
    // At once, and not when init_timeout is over.
    EXPECT_FALSE(Communicator::SplitAll(ranks, {0, 0}, {0, 0}).ok());
  }
  Reset();
}

TEST_F(Failure, IsOnlyReported) {
  Options options = After(absl::Milliseconds(2));
  options.on_failure = OnFailure::kReport;
  std::vector<Communicator> ranks = MakeRanks(2, options);
  std::vector<Communicator> others = MakeRanks(2);
  const Array x = Filled(0, 4, 1);
  ASSERT_OK(ranks[0].AllReduce(x, x));
  EXPECT_FALSE(ranks[0].Wait().ok());
  EXPECT_EQ(ranks[0].state(), State::kFailed);
  EXPECT_EQ(others[0].state(), State::kReady);
  EXPECT_FALSE(ranks[0].comm()->ended);
  EXPECT_OK(ranks[0].Abort("what still runs"));
  EXPECT_TRUE(ranks[0].comm()->ended);
  EXPECT_OK(DefaultStream(dev()).Synchronize());
  EXPECT_EQ(ranks[0].state(), State::kFailed);
  EXPECT_OK(ranks[0].Abort("again"));
}

// An engine without a revoke, as older versions of NCCL.
TEST_F(Failure, IsNotShrunkAfterAnAbort) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const collectives::internal::Provider& real = ranks[0].comm()->provider;
  devrt_collectives_v0 table = *real.table;
  table.flags &= ~DEVRT_COLLECTIVES_REVOKE;
  const auto comm = std::make_shared<collectives::internal::Comm>(
      dev(), collectives::internal::Provider{real.self, &table});
  comm->size = 2;
  comm->info = {"nccl", "2.28.9", ""};
  comm->state = State::kFailed;
  comm->ended = true;
  EXPECT_THAT(
      collectives::internal::ShrinkRanks({&comm, 1}, {1}, {}).status(),
      StatusIs(absl::StatusCode::kFailedPrecondition,
               HasSubstr("nccl 2.28.9 cannot shrink what was aborted")));
}

TEST_F(Failure, EndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";  // not a forked one
  EXPECT_EXIT(
      {
        Options options = After(absl::Milliseconds(2));
        options.on_failure = OnFailure::kTerminate;
        std::vector<Communicator> ranks = MakeRanks(2, options);
        const Array x = Filled(0, 4, 1);
        (void)ranks[0].AllReduce(x, x);
        (void)ranks[0].Wait();
        _exit(0);
      },
      ::testing::ExitedWithCode(134), "the process ends, as its options say");
}

// K-C10: a rank that dies; K-C13: the others go on without it.
TEST_F(Failure, OfARankThatDies) {
  Reset("faults=rank_dies:rank=1");
  std::vector<Communicator> ranks = MakeRanks(3, After(absl::Milliseconds(2)));
  std::vector<Array> x;
  Group group;
  for (int i = 0; i < 3; ++i) {
    x.push_back(Filled(i, 4, 1));
    group.Add(ranks[i], ops::AllReduce(x[i], x[i]));
  }
  ASSERT_OK(group.Submit());
  EXPECT_THAT(ranks[1].Wait(),
              StatusIs(absl::StatusCode::kUnavailable, ::testing::_));
  for (const int i : {0, 2}) {
    EXPECT_THAT(ranks[i].Wait(), StatusIs(absl::StatusCode::kDeadlineExceeded,
                                          HasSubstr("rank 1")));
  }
}

// K-C9
TEST_F(Failure, OfAnInitThatNeverEnds) {
  Reset("faults=init_never:rank=1");
  Options options;
  options.init_timeout = absl::Milliseconds(20);
  EXPECT_THAT(Communicator::CreateAll(devs(2), options).status(),
              StatusIs(absl::StatusCode::kDeadlineExceeded, ::testing::_));
}

// A submission that the engine refuses has done nothing.
TEST_F(Failure, OfASubmission) {
  Reset("faults=submit_fails:rank=0");
  std::vector<Communicator> ranks = MakeRanks(2);
  const std::vector<Array> x = {Filled(0, 4, 1), Filled(1, 4, 1)};
  EXPECT_THAT(ranks[0].AllReduce(x[0], x[0]),
              StatusIs(absl::StatusCode::kInternal, ::testing::_));
  EXPECT_EQ(ranks[0].state(), State::kReady);
  EXPECT_TRUE(ranks[0].Records().empty());
  for (int i = 0; i < 2; ++i) ASSERT_OK(ranks[i].AllReduce(x[i], x[i]));
  EXPECT_THAT(Ints(x[1]), Each(2));
  ASSERT_EQ(ranks[0].Records().size(), 1u);
  EXPECT_EQ(ranks[0].Records()[0].sequence, 1u);
}

// K-C12
TEST_F(Failure, OfAnAbortThatHangs) {
  Reset("faults=abort_hangs:rank=0");
  collectives::internal::SetAbortLimit(absl::Milliseconds(50));
  {
    std::vector<Communicator> ranks = MakeRanks(2);
    EXPECT_THAT(ranks[0].Abort("over"),
                StatusIs(absl::StatusCode::kInternal,
                         HasSubstr("did not return within 50ms")));
    EXPECT_FALSE(dev(0).Health().ok());
    EXPECT_OK(dev(1).Health());
  }
  collectives::internal::SetAbortLimit(absl::Seconds(30));
  // The helper keeps the communicator until the reset lets it return.
  sim().Reset("devices=16").IgnoreError();
}

// Ranks that end unfinished are aborted, and say so.
TEST_F(Failure, EndsUnfinished) {
  std::vector<Communicator> ranks = MakeRanks(2, After(absl::Milliseconds(1)));
  const Array x = Filled(0, 4, 1);
  ASSERT_OK(ranks[0].AllReduce(x, x));
  ranks.clear();  // rank 1 never submits
  EXPECT_OK(dev().Synchronize());
}

}  // namespace
}  // namespace devrt::testing
