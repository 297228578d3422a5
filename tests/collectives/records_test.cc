// SPDX-License-Identifier: Apache-2.0
//
// The records of a communicator: its calls, and which of them are complete.
#include <stdlib.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "collectives/core/comm.h"
#include "collectives/recorder/ring.h"
#include "devrt/collectives/recorder.h"
#include "tests/collectives/collectives_fixture.h"

namespace devrt::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

using collectives::RecordedCall;
using collectives::internal::kRecords;
using collectives::internal::OpenCalls;
namespace ops = collectives;

using RankRecords = CommTest;

TEST_F(RankRecords, OfACommunicator) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const std::vector<Array> x = {Filled(0, 4, 1), Filled(1, 4, 2)};
  Group group;
  for (int i = 0; i < 2; ++i) {
    group.Add(ranks[i], ops::AllReduce(x[i], x[i]));
    group.Add(ranks[i], i == 0 ? ops::Send(x[i], 1) : ops::Recv(x[i], 0));
    group.Add(ranks[i], ops::Broadcast(x[i], 1));
  }
  ASSERT_OK(group.Submit());
  EXPECT_EQ(ranks[1].Records()[0].end_ns, 0u);
  ASSERT_OK(ranks[1].Wait());
  const std::vector<RecordedCall> calls = ranks[1].Records();
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].text, "all_reduce(int32 x 4, sum)");
  EXPECT_EQ(calls[1].text, "recv(int32 x 4, from 0)");
  EXPECT_EQ(calls[2].text, "broadcast(int32 x 4, root 1)");
  EXPECT_EQ(calls[0].sequence, 1u);
  EXPECT_EQ(calls[1].sequence, 0u);
  EXPECT_EQ(calls[2].sequence, 2u);
  EXPECT_THAT(calls[2].file, HasSubstr("records_test.cc"));
  EXPECT_GT(calls[2].line, 0);
  EXPECT_GE(calls[2].end_ns, calls[2].submit_ns);
}

// Of its calls only the newest have records, and no older call is open.
TEST_F(RankRecords, OfAGroupThatIsLarger) {
  std::vector<Communicator> ranks = MakeRanks(1);
  const Array x = Filled(0, 4, 1);
  ASSERT_OK(ranks[0].AllReduce(x, x));
  Group group;
  for (uint64_t i = 0; i < kRecords + 9; ++i) {
    group.Add(ranks[0], ops::AllReduce(x, x));
  }
  ASSERT_OK(group.Submit());
  const auto open = [&ranks] {
    return OpenCalls(*ranks[0].comm(), /*asks=*/false).size();
  };
  EXPECT_EQ(open(), kRecords);
  ASSERT_OK(ranks[0].Wait());
  const std::vector<RecordedCall> calls = ranks[0].Records();
  ASSERT_EQ(calls.size(), kRecords);
  EXPECT_EQ(calls[0].number, 11u);
  EXPECT_NE(calls[0].end_ns, 0u);
  EXPECT_NE(calls.back().end_ns, 0u);
  EXPECT_EQ(open(), 0u);
}

// The records of the first stream's call are overwritten by those of the
// second stream, before the engine has the group.
TEST_F(RankRecords, OfALargeGroupOnTwoStreams) {
  for (const bool is_refused : {false, true}) {
    Reset(is_refused ? "faults=submit_fails:rank=0:nth=1" : "");
    std::vector<Communicator> ranks = MakeRanks(1);
    const Array x = Filled(0, 4, 1);
    const Array y = Filled(0, 4, 1);
    const Stream other = Must(Stream::Create(dev(0)));
    Group group;
    group.Add(ranks[0], ops::AllReduce(x, x), other);
    for (uint64_t i = 0; i < kRecords; ++i) {
      group.Add(ranks[0], ops::AllReduce(y, y));
    }
    EXPECT_EQ(group.Submit().ok(), !is_refused);
    ASSERT_OK(ranks[0].AllReduce(x, x));
    ASSERT_OK(ranks[0].Wait(other));
    ASSERT_OK(ranks[0].Wait());
    EXPECT_EQ(ranks[0].Records().size(), is_refused ? 1 : kRecords);
    EXPECT_TRUE(OpenCalls(*ranks[0].comm(), /*asks=*/false).empty());
  }
}

// One stream's call fails before the other stream's has begun.
TEST_F(RankRecords, OfAGroupThatFailsOnOneStreamHaveNoEndOnTheOther) {
  collectives::Options options;
  options.order_across_communicators = false;
  options.on_failure = collectives::OnFailure::kReport;
  std::vector<Communicator> ranks = MakeRanks(2, options);
  std::vector<Communicator> others = MakeRanks(2, options);
  Group group;
  std::vector<Stream> blocked, failing;
  for (int i = 0; i < 2; ++i) {
    blocked.push_back(Must(Stream::Create(dev(i))));
    failing.push_back(Must(Stream::Create(dev(i))));
    const Array x = Filled(i, 4, 1);
    const Array y = Filled(i, 4 + i, 1);
    group.Add(ranks[i], ops::AllReduce(x, x), blocked[i]);
    group.Add(ranks[i], ops::AllReduce(y, y), failing[i]);
  }
  const ops::Operation recv = ops::Recv(Filled(0, 4, 1), 1);  // of nobody
  ASSERT_OK(others[0].Submit({&recv, 1}, blocked[0]));
  ASSERT_OK(group.Submit());
  for (int i = 0; i < 2; ++i) {
    EXPECT_FALSE(ranks[i].Wait(failing[i]).ok());
    EXPECT_EQ(ranks[i].Records()[0].end_ns, 0u) << i;
  }
  for (Communicator& other : others) EXPECT_OK(other.Abort("over"));
}

// A rank waits in the call that failed, and in none before that.
TEST_F(RankRecords, OfAFailureHaveTheEndsBeforeIt) {
  std::string folder = ::testing::TempDir() + "/records.XXXXXX";
  ASSERT_NE(mkdtemp(folder.data()), nullptr);
  const absl::Cleanup removed = [&] { std::filesystem::remove_all(folder); };
  setenv("DEVRT_COLLECTIVES_RECORD", folder.c_str(), 1);
  std::vector<Communicator> ranks = MakeRanks(2);
  const std::vector<Array> x = {Filled(0, 4, 1), Filled(1, 4, 2)};
  const Array other = Filled(1, 5, 1);
  for (int call = 0; call < 3; ++call) {
    Group group;
    for (int i = 0; i < 2; ++i) {
      const Array& y = call == 2 && i == 1 ? other : x[i];
      group.Add(ranks[i], call > 0 ? ops::AllReduce(y, y)
                          : i == 0 ? ops::Send(y, 1)
                                   : ops::Recv(y, 0));
    }
    ASSERT_OK(group.Submit());
  }
  EXPECT_THAT(ranks[0].Wait(), StatusIs(absl::StatusCode::kInvalidArgument,
                                        HasSubstr(" failed at 2 all_reduce(")));
  EXPECT_THAT(ranks[0].failure().message(),
              AllOf(HasSubstr("; by their records: they differ at 2"),
                    Not(HasSubstr(" waits in"))));
  EXPECT_FALSE(ranks[1].failure().ok());
  EXPECT_THAT(Must(collectives::Report(folder)), Not(HasSubstr(" wait")));
  unsetenv("DEVRT_COLLECTIVES_RECORD");
  for (const Communicator& rank : ranks) {
    EXPECT_OK(DefaultStream(rank.device()).Synchronize());
    const std::vector<RecordedCall> calls = rank.Records();
    ASSERT_EQ(calls.size(), 3u);
    EXPECT_NE(calls[0].end_ns, 0u);
    EXPECT_NE(calls[1].end_ns, 0u);
    EXPECT_EQ(calls[2].end_ns, 0u);
  }
}

// A stream goes on behind a call that failed, which does not complete the call.
TEST_F(RankRecords, OfWhatFailedHaveNoEnd) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const std::vector<Array> x = {Filled(0, 4, 1), Filled(1, 5, 1)};
  for (int i = 0; i < 2; ++i) ASSERT_OK(ranks[i].AllReduce(x[i], x[i]));
  // Before anybody has asked for the failure.
  EXPECT_OK(DefaultStream(dev(0)).Synchronize());
  EXPECT_EQ(ranks[0].Records()[0].end_ns, 0u);
}

TEST_F(RankRecords, OfWhatWasAbortedHaveNoEnd) {
  std::vector<Communicator> ranks = MakeRanks(2);
  const Array x = Filled(0, 4, 1);
  ASSERT_OK(ranks[0].AllReduce(x, x));
  EXPECT_OK(ranks[0].Abort("over"));
  EXPECT_OK(DefaultStream(dev(0)).Synchronize());
  EXPECT_EQ(ranks[0].Records()[0].end_ns, 0u);
}

// The failure ends the work of the stream, which does not say that the other
// rank has sent something.
TEST_F(RankRecords, OfAReceiveThatHangsHaveNoEnd) {
  collectives::Options options;
  options.timeout = absl::Milliseconds(5);
  options.name = "job #1 (x";  // no number of a collective
  std::vector<Communicator> ranks = MakeRanks(2, options);
  const std::vector<Array> x = {Filled(0, 4, 1), Filled(1, 4, 1)};
  for (int i = 0; i < 2; ++i) ASSERT_OK(ranks[i].AllReduce(x[i], x[i]));
  ASSERT_OK(ranks[1].Recv(x[1], 0));
  for (int i = 0; i < 2; ++i) ASSERT_OK(ranks[i].AllReduce(x[i], x[i]));
  EXPECT_FALSE(ranks[1].Wait().ok());
  const std::vector<RecordedCall> calls = ranks[1].Records();
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[1].text, "recv(int32 x 4, from 0)");
  EXPECT_EQ(calls[1].end_ns, 0u);
  EXPECT_EQ(calls[2].end_ns, 0u);
}

}  // namespace
}  // namespace devrt::testing
