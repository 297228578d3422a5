// SPDX-License-Identifier: Apache-2.0
//
// Sends and receives that fail: each rank names its call with the line, and
// that of the other rank.
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "collectives/core/comm.h"
#include "tests/collectives/collectives_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using collectives::Options;

using Transfers = CommTest;

uint64_t OldestOpen(const Communicator& rank) {
  const MutexLock lock(&rank.comm()->mutex);
  return rank.comm()->oldest_open;
}

std::string Line(int line) {
  return "transfers_test.cc:" + std::to_string(line);
}

// A receive that nobody sends to: the third of its line.
TEST_F(Transfers, ThatNobodyMeets) {
  std::vector<Communicator> ranks = MakeRanks(3, After(absl::Milliseconds(2)));
  const Array from1 = Filled(0, 4, 0);
  const Array from2 = Filled(0, 4, 0);
  const Array sent = Filled(1, 4, 1);
  for (int i = 0; i < 2; ++i) ASSERT_OK(ranks[1].Send(sent, 0));
  const int line = __LINE__ + 2;
  for (int i = 0; i < 3; ++i) {
    ASSERT_OK(ranks[0].Recv(from1, 1));
  }
  ASSERT_OK(ranks[0].Recv(from2, 2));
  const int of_rank_1 = __LINE__ + 1;
  ASSERT_OK(ranks[1].Recv(sent, 2));
  EXPECT_THAT(
      ranks[0].Wait(),
      StatusIs(
          absl::StatusCode::kDeadlineExceeded,
          AllOf(HasSubstr("(rank 0 of 3) failed at recv(int32 x 4, from 1)"),
                HasSubstr("recv #3 (int32 x 4, from rank 1)"),
                HasSubstr(Line(line)),
                HasSubstr("rank 1 has submitted 2 sends to rank 0; rank 1 "
                          "waits in recv #1 (int32 x 4, from rank 2)"),
                HasSubstr(Line(of_rank_1)))));
  EXPECT_EQ(ranks[0].comm()->ring->Find(3)->sequence, 0u);
  EXPECT_EQ(OldestOpen(ranks[0]), 3u);
}

// The name of a communicator of Shrink has a rank in it, which is none that
// made the call behind the name.
TEST_F(Transfers, OfACommunicatorWithARankInItsName) {
  std::vector<Communicator> all = MakeRanks(4, After(absl::Milliseconds(2)));
  all.erase(all.begin() + 2);
  std::vector<Communicator> ranks = Must(Communicator::ShrinkAll(all, {2}));
  std::vector<Array> x;
  for (const Communicator& rank : ranks) {
    x.push_back(Must(Array::Full({4}, kInt32, 1, rank.device())));
  }
  ASSERT_OK(ranks[0].Send(x[0], 2));
  ASSERT_OK(ranks[2].Recv(x[2], 0));
  ASSERT_OK(ranks[2].Wait());
  ASSERT_OK(ranks[1].Recv(x[1], 0));
  EXPECT_THAT(
      ranks[1].Wait().ToString(),
      AllOf(HasSubstr("(rank 1 of 3) failed at recv(int32 x 4, from 0)"),
            HasSubstr(" without rank 2\": recv #1 (")));
  EXPECT_THAT(ranks[2].Wait().ToString(),
              HasSubstr("without rank 2 (rank 2 of 3) failed: "));
}

// Where the ring has lost the first calls, the oldest that may wait counts.
TEST_F(Transfers, BehindMoreCallsThanTheRingKeeps) {
  std::vector<Communicator> ranks = MakeRanks(2, After(absl::Milliseconds(2)));
  const std::vector<Array> x = {Filled(0, 1, 1), Filled(1, 1, 1)};
  const auto calls = static_cast<int>(collectives::internal::kRecords);
  for (int i = 0; i < calls; ++i) {
    ASSERT_OK(ranks[0].Recv(x[0], 1));
    ASSERT_OK(ranks[1].Send(x[1], 0));
  }
  ASSERT_OK(ranks[0].Wait());
  ASSERT_OK(ranks[1].Wait());
  const int line = __LINE__ + 1;
  ASSERT_OK(ranks[0].Recv(x[0], 1));
  EXPECT_THAT(ranks[0].Wait(),
              StatusIs(absl::StatusCode::kDeadlineExceeded,
                       AllOf(HasSubstr("failed at recv(int32 x 1, from 1)"),
                             HasSubstr(Line(line)))));
  EXPECT_EQ(OldestOpen(ranks[0]), uint64_t{calls} + 1);
}

// Both ranks name both lines.
TEST_F(Transfers, ThatDiffer) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const std::vector<Array> x = {Filled(0, 4, 1), Filled(1, 5, 1)};
  const int line = __LINE__ + 1;
  ASSERT_OK(ranks[0].Send(x[0], 1));
  ASSERT_OK(ranks[1].Recv(x[1], 0));
  const char* const calls[] = {"failed at send(int32 x 4, to 1)",
                               "failed at recv(int32 x 5, from 0)"};
  for (int i = 0; i < 2; ++i) {
    EXPECT_THAT(ranks[i].Wait(),
                StatusIs(absl::StatusCode::kInvalidArgument,
                         AllOf(HasSubstr(calls[i]), HasSubstr(Line(line)),
                               HasSubstr(Line(line + 1)))));
  }
}

// The rank that died names its line, and so does the one that waits for it.
TEST_F(Transfers, OfARankThatDies) {
  Reset("faults=rank_dies:rank=1");
  std::vector<Communicator> ranks = MakeRanks(2, After(absl::Milliseconds(2)));
  const std::vector<Array> x = {Filled(0, 4, 1), Filled(1, 4, 1)};
  const int line = __LINE__ + 1;
  ASSERT_OK(ranks[0].Recv(x[0], 1));
  ASSERT_OK(ranks[1].Send(x[1], 0));
  EXPECT_THAT(
      ranks[1].Wait(),
      StatusIs(absl::StatusCode::kUnavailable,
               AllOf(HasSubstr("failed at send(int32 x 4, to 0)"),
                     HasSubstr("died in send #1"), HasSubstr(Line(line + 1)))));
  EXPECT_THAT(
      ranks[0].Wait(),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("failed at recv(int32 x 4, from 1)"),
                     HasSubstr(Line(line)), HasSubstr("died in send #1"),
                     HasSubstr(Line(line + 1)))));
}

// An abort ends the call in which the rank is, and the other rank names it.
TEST_F(Transfers, OfARankThatAborts) {
  std::vector<Communicator> ranks = MakeRanks(3, After(absl::Milliseconds(2)));
  const std::vector<Array> x = {Filled(0, 4, 1), Filled(1, 4, 1)};
  const int first = __LINE__ + 1;
  ASSERT_OK(ranks[1].Recv(x[1], 2));
  // Lets the receive begin.
  for (int i = 0; i < 8; ++i) ASSERT_OK(DefaultStream(dev(1)).Query().status());
  ASSERT_OK(ranks[1].Abort("over"));
  const int second = __LINE__ + 1;
  ASSERT_OK(ranks[0].Recv(x[0], 1));
  EXPECT_THAT(
      ranks[0].Wait(),
      StatusIs(absl::StatusCode::kDeadlineExceeded,
               AllOf(HasSubstr("was aborted in recv #1 (int32 x 4, from "
                               "rank 2)"),
                     HasSubstr(Line(first)), HasSubstr(Line(second)))));
}

}  // namespace
}  // namespace devrt::testing
