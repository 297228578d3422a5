// SPDX-License-Identifier: Apache-2.0
//
// Groups whose operations come in another order than that of the communicators
// and streams that they are for.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/collectives/collectives_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

using collectives::RecordedCall;
namespace ops = collectives;

// Operation k of rank i: all-reduces of 1 + k elements, in turns on two
// streams of each rank, one of all ranks behind another.
class MixedGroups : public CommTest {
 protected:
  static constexpr int kRanks = 3;
  static constexpr int kOps = 6;

  void TearDown() override {
    Drop();
    CommTest::TearDown();
  }
  void Drop() {
    comms_.clear();
    others_.clear();
    in_.clear();
    out_.clear();
  }
  // `kinds`: how many communicators each rank has.
  void Make(int kinds) {
    for (int k = 0; k < kinds; ++k) comms_.push_back(MakeRanks(kRanks));
    for (int i = 0; i < kRanks; ++i) {
      others_.push_back(Must(Stream::Create(dev(i))));
      for (int k = 0; k < kOps; ++k) {
        in_.push_back(Filled(i, 1 + k, 10 * k + i));
        out_.push_back(Filled(i, 1 + k, 0));
      }
    }
  }
  Communicator& CommOf(int rank, int k) {
    return comms_[static_cast<size_t>(k) % comms_.size()]
                 [static_cast<size_t>(rank)];
  }
  const Array& In(int rank, int k) const { return in_[At(rank, k)]; }
  const Array& Out(int rank, int k) const { return out_[At(rank, k)]; }
  // `wrong`: the number of the operation that has an array of another device.
  Group MakeGroup(int wrong = -1) {
    Group group;
    for (int k = 0; k < kOps; ++k) {
      for (int i = 0; i < kRanks; ++i) {
        const int input_of = k * kRanks + i == wrong ? (i + 1) % kRanks : i;
        const Operation op = ops::AllReduce(Out(i, k), In(input_of, k));
        if (k % 2 == 0) {
          group.Add(CommOf(i, k), op);
        } else {
          group.Add(CommOf(i, k), op, others_[static_cast<size_t>(i)]);
        }
      }
    }
    return group;
  }
  void CheckValues() {
    for (int k = 0; k < kOps; ++k) {
      for (int i = 0; i < kRanks; ++i) {
        EXPECT_THAT(Ints(Out(i, k)), Each(30 * k + 0 + 1 + 2))
            << "rank " << i << ", operation " << k;
      }
    }
  }

  std::vector<std::vector<Communicator>> comms_;
  std::vector<Stream> others_;

 private:
  static size_t At(int rank, int k) {
    return static_cast<size_t>(rank * kOps + k);
  }
  std::vector<Array> in_, out_;
};

// K-C5
TEST_F(MixedGroups, OfOneCommunicator) {
  Make(1);
  ASSERT_OK(MakeGroup().Submit());
  CheckValues();
  // Each operation is a part of its own: its stream is not that of the
  // operation before.
  const std::vector<RecordedCall> calls = comms_[0][1].Records();
  ASSERT_THAT(calls, SizeIs(kOps));
  for (int k = 0; k < kOps; ++k) {
    const RecordedCall& call = calls[static_cast<size_t>(k)];
    EXPECT_EQ(call.text, absl::StrCat("all_reduce(int32 x ", 1 + k, ", sum)"));
    EXPECT_EQ(call.stream,
              k % 2 == 0 ? CurrentStream(dev(1)).id() : others_[1].ref().id());
    EXPECT_EQ(call.submit_ns, calls[0].submit_ns);
  }
}

// Each communicator has one stream, whose operations are one part: those of two
// communicators are mixed, on each device.
TEST_F(MixedGroups, OfTwoCommunicators) {
  Make(2);
  ASSERT_OK(MakeGroup().Submit());
  CheckValues();
  for (int comm = 0; comm < 2; ++comm) {
    const std::vector<RecordedCall> calls = CommOf(2, comm).Records();
    ASSERT_THAT(calls, SizeIs(kOps / 2));
    for (size_t n = 0; n < calls.size(); ++n) {
      EXPECT_EQ(calls[n].text, absl::StrCat("all_reduce(int32 x ",
                                            1 + comm + 2 * n, ", sum)"));
      EXPECT_EQ(calls[n].sequence, 1 + n);
    }
  }
}

// A refusal in the middle names its operation, and the communicators are as
// before.
TEST_F(MixedGroups, AreRefusedForOneOperation) {
  for (const int kinds : {1, 2}) {
    Drop();
    Make(kinds);
    EXPECT_THAT(MakeGroup(/*wrong=*/7).Submit(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         HasSubstr("operation 7 of a group: communicator")));
    for (int i = 0; i < kRanks; ++i) {
      for (int k = 0; k < kinds; ++k) {
        EXPECT_THAT(CommOf(i, k).Records(), IsEmpty());
      }
    }
    ASSERT_OK(MakeGroup().Submit());
    CheckValues();
  }
}

// The engine refuses the group after its calls were recorded.
TEST_F(MixedGroups, ThatTheEngineRefusesLeaveNoRecord) {
  Reset("faults=submit_fails:rank=1:nth=1");
  Make(2);
  EXPECT_FALSE(MakeGroup().Submit().ok());
  EXPECT_THAT(CommOf(1, 0).Records(), IsEmpty());
  EXPECT_THAT(CommOf(0, 1).Records(), IsEmpty());
  ASSERT_OK(MakeGroup().Submit());
  CheckValues();
  EXPECT_EQ(CommOf(1, 0).Records()[0].sequence, 1u);
}

// The engine refuses a group for a communicator that has failed, which devrt
// does not know yet.  The other communicator goes on as if there had been no
// group.
TEST_F(MixedGroups, ForOneThatHasFailedLeaveNoRecordOfTheOther) {
  collectives::Options options;
  options.on_failure = collectives::OnFailure::kReport;
  for (const int first : {0, 1}) {
    std::vector<std::vector<Communicator>> comms;
    for (int k = 0; k < 2; ++k) comms.push_back(MakeRanks(2, options));
    const std::vector<Array> x = {Filled(0, 4, 1), Filled(1, 4, 2)};
    const std::vector<Array> y = {Filled(0, 4, 1), Filled(1, 5, 2)};
    // The counts of the first communicator differ.
    for (int i = 0; i < 2; ++i) ASSERT_OK(comms[0][i].AllReduce(y[i], y[i]));
    for (int i = 0; i < 2; ++i) ASSERT_OK(dev(i).Synchronize());
    Group group;
    for (const int k : {first, 1 - first}) {
      group.Add(comms[k][0], ops::AllReduce(x[0], x[0]));
    }
    EXPECT_THAT(group.Submit(), StatusIs(absl::StatusCode::kAborted,
                                         HasSubstr("failed at 1 all_reduce")));
    EXPECT_EQ(comms[0][0].state(), collectives::State::kFailed);
    EXPECT_EQ(comms[1][0].state(), collectives::State::kReady);
    EXPECT_THAT(comms[1][0].Records(), IsEmpty());
    for (int i = 0; i < 2; ++i) ASSERT_OK(comms[1][i].AllReduce(x[i], x[i]));
    for (int i = 0; i < 2; ++i) EXPECT_OK(comms[1][i].Wait());
    EXPECT_THAT(Ints(x[0]), Each(3));
    const std::vector<RecordedCall> calls = comms[1][0].Records();
    ASSERT_THAT(calls, SizeIs(1));
    EXPECT_EQ(calls[0].sequence, 1u);
    EXPECT_NE(calls[0].end_ns, 0u);
  }
}

// A group knows a communicator that it has again, whatever stands between.
TEST_F(MixedGroups, AfterAGroupThatWasRefusedForItsCommunicator) {
  Make(2);
  Group group = MakeGroup();
  const Communicator moved = std::move(CommOf(0, 0));
  group.Add(CommOf(0, 0), ops::AllReduce(Out(0, 0), In(0, 0)));
  EXPECT_THAT(group.Submit(), StatusIs(absl::StatusCode::kInvalidArgument,
                                       HasSubstr("was moved from")));
  // Nobody has the communicators any more.
  for (int i = 1; i < kRanks; ++i) EXPECT_OK(CommOf(i, 1).Wait());
  EXPECT_TRUE(CommOf(1, 0).Supports(OpKind::kSend, kInt32).ok());
}

TEST_F(MixedGroups, ThatWereMovedFromAreEmpty) {
  Make(1);
  Group group;
  for (int i = 0; i < kRanks; ++i) {
    Group from;
    from.Add(CommOf(i, 0), ops::AllReduce(Out(i, 0), In(i, 0)));
    Group to = std::move(from);
    EXPECT_EQ(from.size(), 0u);  // NOLINT: what a move leaves is the test
    EXPECT_OK(from.Submit());
    EXPECT_EQ(to.size(), 1u);
    from = std::move(to);
    EXPECT_EQ(to.size(), 0u);  // NOLINT
    const Group copy = from;
    EXPECT_EQ(copy.size(), 1u);
    group.Add(CommOf(i, 0), ops::AllReduce(Out(i, 1), In(i, 1)));
    ASSERT_OK(from.Submit());
  }
  ASSERT_OK(group.Submit());
  EXPECT_THAT(Ints(Out(1, 0)), Each(3));
  EXPECT_THAT(Ints(Out(1, 1)), Each(33));
}

}  // namespace
}  // namespace devrt::testing
