// SPDX-License-Identifier: Apache-2.0
//
// K-C14: Options::check_signatures.  The simulator hangs on a mismatch here, as
// NCCL does, so that only the comparison of the ranks can find it.
#include "collectives/core/signatures.h"

#include <atomic>
#include <functional>
#include <future>
#include <string>
#include <vector>

#include "tests/collectives/collectives_fixture.h"

namespace devrt::testing {
namespace {

using collectives::internal::CheckSignatures;
using collectives::internal::Signature;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kRanks = 3;

collectives::Options Checking() {
  collectives::Options options;
  options.check_signatures = true;
  return options;
}

class Signatures : public CommTest {
 protected:
  void SetUp() override { Reset("collective_mismatch=hang"); }

  // body(rank, communicator) in a thread for each rank.
  static void WithRanks(const std::function<void(int, Communicator&)>& body,
                        const collectives::Options& options = Checking()) {
    InThreads(kRanks, [&](int i, collectives::Bootstrap& bootstrap) {
      Communicator rank =
          Must(Communicator::Create(dev(i), bootstrap, options));
      body(i, rank);
    });
  }
  // An all_reduce of all ranks works.
  static void StillWorks(int i, Communicator& rank) {
    EXPECT_EQ(rank.state(), collectives::State::kReady);
    const Array x = Filled(i, 4, 1);
    EXPECT_OK(rank.AllReduce(x, x));
    EXPECT_OK(rank.Wait());
    EXPECT_EQ(Ints(x)[3], kRanks);
  }
};

TEST_F(Signatures, OfEqualCallsPass) {
  WithRanks([](int i, Communicator& rank) {
    for (int call = 0; call < 3; ++call) StillWorks(i, rank);
    EXPECT_OK(rank.Barrier());
  });
}

TEST_F(Signatures, ThatDifferAreToldToEveryRank) {
  WithRanks([](int i, Communicator& rank) {
    StillWorks(i, rank);
    const Array x = Filled(i, 4, 1);
    const Array all = Filled(i, 4 * kRanks, 0);
    const absl::Status status =
        i == 2 ? rank.AllGather(all, x) : rank.AllReduce(x, x);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                AllOf(HasSubstr("the ranks' calls differ at 2: rank 2: "
                                "all_gather(int32 x 4) "),
                      HasSubstr("signatures_test.cc:"),
                      HasSubstr("; ranks 0, 1: all_reduce(int32 x 4, sum) ")));
    // Nothing was enqueued, and nothing is out of step.
    EXPECT_OK(rank.Wait());
    EXPECT_EQ(rank.Records().size(), 1);
    StillWorks(i, rank);
  });
}

TEST_F(Signatures, OfOtherCountsAndGroupsDiffer) {
  WithRanks([](int i, Communicator& rank) {
    const Array x = Filled(i, 4, 1);
    const Array y = Filled(i, i == 0 ? 5 : 4, 1);
    EXPECT_THAT(rank.AllReduce(y, y).ToString(),
                HasSubstr("rank 0: all_reduce(int32 x 5, sum) "));
    std::vector<Operation> group = {collectives::AllReduce(x, x)};
    if (i == 1) group.push_back(collectives::Broadcast(x, 2));
    EXPECT_THAT(rank.Submit(group).ToString(),
                AllOf(HasSubstr("differ at 2: rank 1: broadcast(int32 x 4, "
                                "root 2) "),
                      HasSubstr("ranks 0, 2: no collective")));
    StillWorks(i, rank);
  });
}

// The others would wait for it.
TEST_F(Signatures, OfARankThatRefusesItsCall) {
  WithRanks([](int i, Communicator& rank) {
    const Array x = Filled(i, 4, 1);
    EXPECT_THAT(rank.Broadcast(x, i == 1 ? 99 : 0).ToString(),
                AllOf(HasSubstr("INVALID_ARGUMENT"), HasSubstr("99")));
    StillWorks(i, rank);
  });
}

TEST_F(Signatures, LeaveOutSendsAndReceives) {
  WithRanks([](int i, Communicator& rank) {
    const Array x = Filled(i, 4, i);
    if (i < 2) {
      EXPECT_OK(i == 0 ? rank.Send(x, 1) : rank.Recv(x, 0));
      EXPECT_OK(rank.Wait());
      EXPECT_EQ(Ints(x)[0], 0);
    }
    StillWorks(i, rank);
  });
}

TEST_F(Signatures, OfARankThatDoesNotCome) {
  collectives::Options options = Checking();
  options.timeout = absl::Milliseconds(50);
  std::atomic<int> left{kRanks - 1};
  std::promise<void> failed;
  WithRanks(
      [&](int i, Communicator& rank) {
        if (i != 1) {
          const Array x = Filled(i, 4, 1);
          EXPECT_THAT(
              rank.AllReduce(x, x).ToString(),
              AllOf(HasSubstr("the ranks could not compare their calls at 1: "),
                    HasSubstr("missing: rank 1")));
          EXPECT_EQ(rank.state(), collectives::State::kFailed);
          if (--left == 0) failed.set_value();
          return;
        }
        failed.get_future().wait();
        EXPECT_OK(rank.Abort("the end"));
      },
      options);
}

// No rank is accused of a call that it has not made.
TEST_F(Signatures, ThatAreDamaged) {
  constexpr int kExchange = 3;  // behind the two of Create
  InThreads(kRanks, [](int i, collectives::Bootstrap& bootstrap) {
    SpoiledBootstrap spoiled(&bootstrap, kExchange,
                             [i](SpoiledBootstrap::Parts* parts) {
                               const size_t count = (**parts)[0].find(" x 4");
                               if (i == 1) (**parts)[0][count + 3] = '7';
                             });
    Communicator rank = Must(Communicator::Create(dev(i), spoiled, Checking()));
    const Array x = Filled(i, 4, 1);
    const absl::Status status = rank.AllReduce(x, x);
    if (i != 1) return;
    EXPECT_THAT(status.ToString(),
                AllOf(HasSubstr("ABORTED"), HasSubstr("bytes for rank 0, which "
                                                      "are damaged, or no ")));
    EXPECT_EQ(rank.state(), collectives::State::kFailed);
  });
}

TEST_F(Signatures, NeedAThreadForEachRank) {
  EXPECT_EQ(Communicator::CreateAll(devs(2), Checking()).status().code(),
            absl::StatusCode::kUnimplemented);
}

TEST_F(Signatures, OfAllRanksAreCompared) {
  const Signature add = {{{"add", "a.cc:1"}}, ""};
  const Signature other_line = {{{"add", "b.cc:2"}}, ""};
  const Signature none = {{}, ""};
  const Signature refused = {{}, "INVALID_ARGUMENT: the dtype"};
  EXPECT_OK(CheckSignatures({add, other_line}, 1));
  EXPECT_EQ(CheckSignatures({none, add, add}, 7).message(),
            "the ranks' calls differ at 7: rank 0: no collective; ranks 1, 2: "
            "add a.cc:1");
  EXPECT_EQ(CheckSignatures({add, refused}, 7).message(),
            "rank 1 submits nothing: INVALID_ARGUMENT: the dtype");
}

}  // namespace
}  // namespace devrt::testing
