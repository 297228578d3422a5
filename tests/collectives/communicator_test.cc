// SPDX-License-Identifier: Apache-2.0
#include "devrt/collectives/communicator.h"

#include <numeric>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "collectives/core/comm.h"
#include "collectives/core/device_order.h"
#include "tests/collectives/collectives_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

using collectives::FromThreads;
using collectives::Options;
using collectives::State;
namespace ops = collectives;

using Create = CommTest;
using Values = CommTest;
using Order = CommTest;
using Groups = CommTest;
using Others = CommTest;
using Ends = CommTest;

TEST_F(Create, AllOfOneProcess) {
  const std::vector<Communicator> ranks = MakeRanks(4);
  ASSERT_EQ(ranks.size(), 4u);
  for (int i = 0; i < 4; ++i) {
    EXPECT_EQ(ranks[i].rank(), i);
    EXPECT_EQ(ranks[i].size(), 4);
    EXPECT_EQ(ranks[i].device(), dev(i));
    EXPECT_EQ(ranks[i].id(), ranks[0].id());
    EXPECT_EQ(ranks[i].state(), State::kReady);
    EXPECT_OK(ranks[i].failure());
  }
  EXPECT_EQ(ranks[0].provider().name, "mtia");
  EXPECT_NE(MakeRanks(2)[0].id(), ranks[0].id());
}

TEST_F(Create, AThreadForEachRank) {
  std::vector<std::vector<int32_t>> sums(8);
  InThreads(8, [&](int i, ops::Bootstrap& bootstrap) {
    auto rank = Communicator::Create(dev(i), bootstrap);
    ASSERT_OK(rank.status());
    const Array x = Filled(i, 3, i);
    ASSERT_OK(rank->AllReduce(x, x));
    sums[i] = Ints(x);
    EXPECT_OK(rank->Barrier());
    EXPECT_OK(rank->Finish());
    EXPECT_EQ(rank->state(), State::kFinished);
  });
  for (const auto& sum : sums) EXPECT_THAT(sum, ElementsAre(28, 28, 28));
}

TEST_F(Create, RefusesBadArguments) {
  EXPECT_THAT(Communicator::CreateAll({}).status(),
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
  Options none;
  none.timeout = absl::ZeroDuration();
  EXPECT_THAT(Communicator::CreateAll(devs(2), none).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("Options::init_timeout is")));
  Options other;
  other.provider = "nccl";
  EXPECT_THAT(Communicator::CreateAll(devs(2), other).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("Options::provider is \"nccl\"")));
  other.provider = "mpi";
  EXPECT_THAT(Communicator::CreateAll(devs(2), other).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("called RegisterMpi of mpi_engine.h")));
}

TEST_F(Create, RefusesOneDeviceForTwoRanks) {
  EXPECT_THAT(Communicator::CreateAll({dev(0), dev(1), dev(0)}).status(),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("ranks 0 and 2 both have mtia:0")));
  Options shared;
  shared.shared_device = true;
  std::vector<Communicator> ranks =
      Must(Communicator::CreateAll({dev(0), dev(0)}, shared));
  Stream a = Must(Stream::Create(dev()));
  Stream b = Must(Stream::Create(dev()));
  const Array x = Filled(0, 2, 1);
  const Array y = Filled(0, 2, 2);
  Group group;
  group.Add(ranks[0], ops::AllReduce(x, x), a);
  group.Add(ranks[1], ops::AllReduce(y, y), b);
  ASSERT_OK(group.Submit());
  EXPECT_THAT(Ints(x), ElementsAre(3, 3));
  EXPECT_THAT(Ints(y), ElementsAre(3, 3));
}

// K-C9
TEST_F(Create, EndsAtItsDeadline) {
  auto bootstraps = Must(FromThreads(3));
  Options options;
  options.name = "grads";
  options.init_timeout = absl::Milliseconds(30);
  const absl::Status status =
      Communicator::Create(dev(1), *bootstraps[1], options).status();
  EXPECT_THAT(status,
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("communicator \"grads\": 1 of 3 ranks"),
                             HasSubstr("missing: ranks 0, 2"))));
}

// A rank without an engine tells the others.
TEST_F(Create, TellsWhichRankCannotTakePart) {
  std::vector<absl::Status> got(2);
  InThreads(2, [&](int i, ops::Bootstrap& bootstrap) {
    Options options;
    if (i == 1) options.provider = "acme";
    got[i] = Communicator::Create(dev(i), bootstrap, options).status();
  });
  EXPECT_THAT(got[0], StatusIs(absl::StatusCode::kFailedPrecondition,
                               HasSubstr("rank 1 cannot take part")));
  EXPECT_THAT(got[1],
              StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
}

// A bootstrap that returns `parts` changed.
class Liar : public ops::Bootstrap {
 public:
  using Change = std::function<void(std::vector<std::string>*)>;
  explicit Liar(Change change) : change_(std::move(change)) {}
  int rank() const override { return 0; }
  int size() const override { return 2; }
  absl::StatusOr<std::vector<std::string>> AllGather(std::string mine,
                                                     absl::Time) override {
    std::vector<std::string> parts = {mine, mine};
    change_(&parts);
    return parts;
  }

 private:
  const Change change_;
};

TEST_F(Create, RefusesAStoreThatLies) {
  const auto status = [](Liar::Change change) {
    Liar liar(std::move(change));
    return Communicator::Create(dev(), liar).status();
  };
  using Parts = std::vector<std::string>;
  EXPECT_THAT(status([](Parts*) {}),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("the bytes of rank 1 of 2 are of rank 0")));
  EXPECT_THAT(
      status([](Parts* parts) { parts->pop_back(); }),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("1 parts for 2 ranks")));
  EXPECT_THAT(status([](Parts* parts) { (*parts)[1].pop_back(); }),
              StatusIs(absl::StatusCode::kDataLoss, ::testing::_));
  EXPECT_THAT(status([](Parts* parts) { (*parts)[1][60] ^= 1; }),
              StatusIs(absl::StatusCode::kDataLoss, ::testing::_));
  EXPECT_THAT(status([](Parts* parts) { (*parts)[1].clear(); }),
              StatusIs(absl::StatusCode::kDataLoss, ::testing::_));
  EXPECT_THAT(status([](Parts* parts) { (*parts)[1][8] = 7; }),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("rank 1 has protocol 7")));
}

// ---- Values -----------------------------------------------------------------

// K-C1, K-C2
TEST_F(Values, OfEachOperation) {
  constexpr int kRanks = 3;
  std::vector<Communicator> ranks = MakeRanks(kRanks);
  // Rank i has 10 * i + (0 ... 5).
  const auto inputs = [](int64_t size) {
    std::vector<Array> all;
    for (int i = 0; i < kRanks; ++i) {
      std::vector<int32_t> values(size);
      std::iota(values.begin(), values.end(), 10 * i);
      all.push_back(FromInts(i, values));
    }
    return all;
  };
  const auto run = [&](auto make, int64_t in_size, int64_t out_size) {
    const std::vector<Array> in = inputs(in_size);
    std::vector<std::vector<int32_t>> results;
    std::vector<Array> out;
    Group group;
    for (int i = 0; i < kRanks; ++i) {
      out.push_back(Filled(i, out_size, -1));
      group.Add(ranks[i], make(out[i], in[i]));
    }
    EXPECT_OK(group.Submit());
    for (const Array& array : out) results.push_back(Ints(array));
    return results;
  };
  using V = std::vector<int32_t>;
  using R = std::vector<V>;
  const V unset2 = {-1, -1};
  EXPECT_EQ(run([](const Array& out,
                   const Array& in) { return ops::AllReduce(out, in); },
                2, 2),
            (R{{30, 33}, {30, 33}, {30, 33}}));
  EXPECT_EQ(run(
                [](const Array& out, const Array& in) {
                  return ops::AllReduce(out, in, Reduction::kMax);
                },
                2, 2),
            (R{{20, 21}, {20, 21}, {20, 21}}));
  EXPECT_EQ(run(
                [](const Array& out, const Array& in) {
                  return ops::Reduce(out, in, Reduction::kProd, 1);
                },
                2, 2),
            (R{unset2, {0, 1 * 11 * 21}, unset2}));
  EXPECT_EQ(run([](const Array& out,
                   const Array& in) { return ops::AllGather(out, in); },
                1, 3),
            (R{{0, 10, 20}, {0, 10, 20}, {0, 10, 20}}));
  EXPECT_EQ(run(
                [](const Array& out, const Array& in) {
                  return ops::ReduceScatter(out, in, Reduction::kMin);
                },
                3, 1),
            (R{{0}, {1}, {2}}));
  EXPECT_EQ(run([](const Array& out,
                   const Array& in) { return ops::AllToAll(out, in); },
                3, 3),
            (R{{0, 10, 20}, {1, 11, 21}, {2, 12, 22}}));
  EXPECT_EQ(run([](const Array& out,
                   const Array& in) { return ops::Gather(out, in, 2); },
                1, 3),
            (R{{-1, -1, -1}, {-1, -1, -1}, {0, 10, 20}}));
  EXPECT_EQ(run([](const Array& out,
                   const Array& in) { return ops::Scatter(out, in, 1); },
                3, 1),
            (R{{10}, {11}, {12}}));
  EXPECT_EQ(
      run([](const Array& out, const Array&) { return ops::Broadcast(out, 0); },
          1, 1),
      (R{{-1}, {-1}, {-1}}));
}

// K-C2
TEST_F(Values, InPlaceAndOfNoElements) {
  std::vector<Communicator> ranks = MakeRanks(2);
  std::vector<Array> x = {FromInts(0, {1, 2, 0, 0}), FromInts(1, {0, 0, 3, 4})};
  // Operations of one group have no order.
  Group first, second;
  for (int i = 0; i < 2; ++i) {
    const Array mine = Must(x[i].SliceAxis(0, {2 * i, 2 * i + 2}));
    const Array none = Filled(i, 0, 0);
    first.Add(ranks[i], ops::AllReduce(none, none));
    first.Add(ranks[i], ops::AllGather(x[i], mine));
    second.Add(ranks[i], ops::ReduceScatter(mine, x[i]));
  }
  ASSERT_OK(first.Submit());
  ASSERT_OK(second.Submit());
  EXPECT_THAT(Ints(x[0]), ElementsAre(2, 4, 3, 4));
  EXPECT_THAT(Ints(x[1]), ElementsAre(1, 2, 6, 8));
}

// K-C4: arrays that other streams use, before and after.
TEST_F(Order, OfOtherStreamsUsesOfAnArray) {
  for (const char* strategy : {"alap", "lifo", "asap", "random"}) {
    Reset(std::string("strategy=") + strategy);
    std::vector<Communicator> ranks = MakeRanks(2);
    std::vector<Array> x = {Filled(0, 64, 0), Filled(1, 64, 0)};
    Group group;
    for (int i = 0; i < 2; ++i) {
      Stream writer = Must(Stream::Create(dev(i)));
      const StreamGuard guard(writer);
      ASSERT_OK(x[i].Fill(i + 1));
      Stream stream = Must(Stream::Create(dev(i)));
      group.Add(ranks[i], ops::AllReduce(x[i], x[i]), stream);
      if (i == 1) {
        ASSERT_OK(group.Submit());
      } else {
        Group of_first = std::exchange(group, Group());
        ASSERT_OK(of_first.Submit());
      }
      // Before the rank's part, by the order of the array's uses.
      ASSERT_OK(x[i].Fill(Must(Add(x[i], 1)).size() == 64 ? 9 : 0));
    }
    for (const Array& array : x) EXPECT_THAT(Ints(array), Each(9));
  }
}

// K-C3: earlier and later work of the stream, in every order of the ranks.
TEST_F(Order, OfTheStream) {
  for (int seed = 1; seed <= 20; ++seed) {
    Reset("strategy=random,seed=" + std::to_string(seed));
    std::vector<Communicator> ranks = MakeRanks(3);
    std::vector<Array> x, y;
    for (int i = 0; i < 3; ++i) {
      x.push_back(Filled(i, 16, 0));
      y.push_back(Filled(i, 16, 0));
    }
    for (const int i : {seed % 3, (seed + 1) % 3, (seed + 2) % 3}) {
      ASSERT_OK(x[i].Fill(i + 1));
      ASSERT_OK(ranks[i].AllReduce(y[i], x[i]));
      ASSERT_OK(x[i].Fill(100));
    }
    for (int i = 0; i < 3; ++i) {
      ASSERT_OK(ranks[i].Wait());
      EXPECT_THAT(Ints(y[i]), Each(6));
    }
  }
}

// A thread that holds the order of a device keeps no other one from submitting.
TEST_F(Order, IsNotKeptUnlessWanted) {
  Options options;
  options.order_across_communicators = false;
  std::vector<Communicator> ranks = MakeRanks(2, options);
  std::vector<Array> x;
  auto* const order = collectives::internal::DeviceOrder::Of(dev(0));
  order->Lock();
  for (int i = 0; i < 2; ++i) {
    x.push_back(Filled(i, 4, 1));
    for (int k = 0; k < 2; ++k) {
      // A rank's own submissions follow each other still.
      const Stream stream = Must(Stream::Create(dev(i)));
      EXPECT_OK(ranks[i].AllReduce(x[i], x[i], Reduction::kSum, stream));
    }
  }
  order->Unlock();
  for (int i = 0; i < 2; ++i) EXPECT_THAT(Ints(x[i]), Each(4));
}

// ---- Groups -----------------------------------------------------------------

// K-C5
TEST_F(Groups, SendsAndReceivesInAnyOrder) {
  constexpr int kRanks = 4;
  std::vector<Communicator> ranks = MakeRanks(kRanks);
  std::vector<Array> out, in;
  for (int i = 0; i < kRanks; ++i) {
    out.push_back(Filled(i, 4, 100 + i));
    in.push_back(Filled(i, 4, 0));
  }
  for (int i = 0; i < kRanks; ++i) {
    Group group;
    const Operation send = ops::Send(out[i], (i + 1) % kRanks);
    const Operation recv = ops::Recv(in[i], (i + kRanks - 1) % kRanks);
    group.Add(ranks[i], i % 2 == 0 ? send : recv);
    group.Add(ranks[i], i % 2 == 0 ? recv : send);
    EXPECT_EQ(group.size(), 2u);
    ASSERT_OK(group.Submit());
    EXPECT_EQ(group.size(), 0u);
  }
  for (int i = 0; i < kRanks; ++i) {
    EXPECT_THAT(Ints(in[i]), Each(100 + (i + kRanks - 1) % kRanks));
  }
}

// K-C5
TEST_F(Groups, DroppedOrRefusedDoNothing) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const std::vector<Array> x = {Filled(0, 4, 1), Filled(1, 4, 2)};
  {
    Group dropped;
    dropped.Add(ranks[0], ops::AllReduce(x[0], x[0]));
  }
  Group refused;
  refused.Add(ranks[0], ops::AllReduce(x[0], x[0]));
  refused.Add(ranks[1], ops::AllReduce(x[1], x[0]));
  EXPECT_THAT(refused.Submit(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("operation 1 of a group: communicator")));
  EXPECT_EQ(refused.size(), 2u);
  EXPECT_THAT(ranks[0].Records(), IsEmpty());
  Group group;
  for (int i = 0; i < 2; ++i) group.Add(ranks[i], ops::AllReduce(x[i], x[i]));
  ASSERT_OK(group.Submit());
  EXPECT_THAT(Ints(x[1]), Each(3));
  EXPECT_OK(Group().Submit());
}

// ---- Split, Shrink, Finish --------------------------------------------------

// K-C8
TEST_F(Others, SplitAsMpi) {
  std::vector<Communicator> ranks = MakeRanks(6);
  const int colors[] = {0, 1, 0, -1, 1, 0};
  const int keys[] = {5, 0, 1, 0, 0, 1};
  auto split = Communicator::SplitAll(ranks, colors, keys);
  ASSERT_OK(split.status());
  const int expected[] = {2, 0, 0, -1, 1, 1};
  Group group;
  std::vector<Array> x;
  for (int i = 0; i < 6; ++i) {
    x.push_back(Filled(i, 1, 1 << i));
    ASSERT_EQ((*split)[i].has_value(), colors[i] >= 0) << i;
    if (colors[i] < 0) continue;
    Communicator& child = *(*split)[i];
    EXPECT_EQ(child.rank(), expected[i]) << i;
    EXPECT_EQ(child.size(), colors[i] == 0 ? 3 : 2);
    group.Add(child, ops::AllReduce(x[i], x[i]));
  }
  ASSERT_OK(group.Submit());
  EXPECT_THAT(Ints(x[5]), ElementsAre(1 + 4 + 32));
  EXPECT_THAT(Ints(x[4]), ElementsAre(2 + 16));
  EXPECT_EQ((*split)[0]->id(), (*split)[5]->id());
  EXPECT_NE((*split)[0]->id(), (*split)[1]->id());
  EXPECT_THAT(ranks[0].Split(-2, 0).status(),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("Split with color -2")));
}

TEST_F(Others, SplitByThreads) {
  InThreads(4, [&](int i, ops::Bootstrap& bootstrap) {
    auto rank = Communicator::Create(dev(i), bootstrap);
    ASSERT_OK(rank.status());
    auto child = rank->Split(i % 2, -i);
    ASSERT_OK(child.status());
    EXPECT_EQ((**child).size(), 2);
    EXPECT_EQ((**child).rank(), i < 2 ? 1 : 0);
  });
}

TEST_F(Others, Shrink) {
  std::vector<Communicator> ranks = MakeRanks(4);
  {
    std::vector<Communicator> rest;
    for (const int i : {0, 2, 3}) rest.push_back(std::move(ranks[i]));
    auto small = Communicator::ShrinkAll(rest, {1});
    ASSERT_OK(small.status());
    Group group;
    std::vector<Array> x;
    for (int i = 0; i < 3; ++i) {
      EXPECT_EQ((*small)[i].rank(), i);
      EXPECT_EQ((*small)[i].size(), 3);
      x.push_back(Filled((*small)[i].device().index(), 1, i + 1));
      group.Add((*small)[i], ops::AllReduce(x[i], x[i]));
    }
    ASSERT_OK(group.Submit());
    EXPECT_THAT(Ints(x[2]), ElementsAre(6));
    EXPECT_THAT(rest[0].Shrink({0}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("Shrink without this rank itself")));
    EXPECT_THAT(rest[0].Shrink({7}).status(),
                StatusIs(absl::StatusCode::kInvalidArgument, ::testing::_));
  }
}

// K-C16
TEST_F(Ends, LeaveNothing) {
  const SimulatorStats before = *sim().Stats();
  for (int round = 0; round < 100; ++round) {
    std::vector<Communicator> ranks = MakeRanks(3);
    Group group;
    std::vector<Array> x;
    for (int i = 0; i < 3; ++i) {
      x.push_back(Filled(i, 4, 1));
      group.Add(ranks[i], ops::AllReduce(x[i], x[i]));
    }
    ASSERT_OK(group.Submit());
    if (round % 2 == 0) {
      ASSERT_OK(Communicator::FinishAll(ranks));
      EXPECT_EQ(ranks[0].state(), State::kFinished);
      EXPECT_THAT(ranks[0].AllReduce(x[0], x[0]),
                  StatusIs(absl::StatusCode::kFailedPrecondition,
                           HasSubstr("is finished")));
    }
  }
  const SimulatorStats after = *sim().Stats();
  EXPECT_EQ(after.live_streams, before.live_streams);
  EXPECT_EQ(after.live_events, before.live_events);
}

TEST_F(Ends, ShutdownIsRefusedBefore) {
  const std::vector<Communicator> ranks = MakeRanks(2);
  EXPECT_THAT(Shutdown(), StatusIs(absl::StatusCode::kFailedPrecondition,
                                   HasSubstr("mtia:1 has 1 event")));
}

// The engine takes no memory back from a communicator that has ended.
TEST_F(Ends, RegisteredMemoryIsFreedWithTheCommunicator) {
  std::weak_ptr<internal::Storage> memory;
  {
    std::vector<Communicator> ranks = MakeRanks(1);
    {
      const Array x = Filled(0, 4, 1);
      memory = x.storage();
      const auto registration = ranks[0].Register(x);
      ASSERT_OK(registration.status());
      ASSERT_OK(ranks[0].Abort("over"));
    }
    EXPECT_FALSE(memory.expired());
  }
  EXPECT_TRUE(memory.expired());
}

}  // namespace
}  // namespace devrt::testing
