// SPDX-License-Identifier: Apache-2.0
//
// devrt.collectives/0 on mtia: what does not meet, and how communicators end.
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/mtia/collectives_fixture.h"

namespace devrt::test {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr uint32_t kAllReduce = DEVRT_COLLECTIVE_ALL_REDUCE;

class CollectiveFailure : public CollectivesTest {
 protected:
  // A one-element all_reduce in place.
  static devrt_collective_v0 Add(int64_t* cell) {
    return Op(kAllReduce, DEVRT_INT64, 1, cell, cell);
  }
  static std::vector<int64_t*> Cells(uint32_t ranks) {
    std::vector<int64_t*> cells;
    for (uint32_t r = 0; r < ranks; ++r) cells.push_back(NewCell(r % 2, 1));
    return cells;
  }
};

// ---- operations that differ ----

TEST_F(CollectiveFailure, AMismatchIsReportedToEveryRank) {
  const TestRanks ranks = Make(3, 0, "data");
  const std::vector<int64_t*> cells = Cells(3);
  Submit(ranks[0], {Add(cells[0])});
  Submit(ranks[1], {Add(cells[1])});
  Submit(ranks[2], {Op(kAllReduce, DEVRT_INT32, 1, cells[2], cells[2])});
  SyncAll(ranks);
  for (const TestRank& r : ranks) {
    const Result failed = PollError(r.comm);
    EXPECT_EQ(failed.code, DEVRT_INVALID_ARGUMENT);
    EXPECT_THAT(failed.text,
                AllOf(HasSubstr("communicator \"data\""),
                      HasSubstr("ranks 0, 1: all_reduce #1 (int64 x 1, sum)"),
                      HasSubstr("rank 2: all_reduce #1 (int32 x 1, sum)")));
  }
  EXPECT_EQ(Peek(cells[0]), -1);  // undefined
  ExpectCode(TrySubmit(ranks[0], {Add(cells[0])}), DEVRT_ABORTED);
  // Other work of the stream goes on.
  Put(ranks[0].stream, cells[0], 5);
  Sync(ranks[0].stream);
  EXPECT_EQ(Peek(cells[0]), 5);
}

TEST_F(CollectiveFailure, EachPartOfTheSignatureIsCompared) {
  int64_t* cell[2] = {nullptr, nullptr};
  const auto check = [&](const devrt_collective_v0& a,
                         const devrt_collective_v0& b) {
    const TestRanks ranks = Make(2);
    devrt_collective_v0 calls[] = {a, b};
    for (uint32_t r = 0; r < 2; ++r) {
      calls[r].src = calls[r].dst = cell[r];
      Submit(ranks[r], {calls[r]});
    }
    SyncAll(ranks);
    EXPECT_EQ(PollError(ranks[0].comm).code, DEVRT_INVALID_ARGUMENT);
    EXPECT_EQ(PollError(ranks[1].comm).code, DEVRT_INVALID_ARGUMENT);
    Destroy(ranks);
  };
  for (uint32_t r = 0; r < 2; ++r) {
    cell[r] = static_cast<int64_t*>(NewBuffer(r, std::string(64, 1)));
  }
  const auto call = [](uint32_t op, uint32_t dtype, uint64_t count,
                       uint32_t reduction, int32_t root) {
    return Op(op, dtype, count, nullptr, nullptr, reduction, root);
  };
  const devrt_collective_v0 plain = call(kAllReduce, DEVRT_INT64, 2, 0, 0);
  check(plain, call(DEVRT_COLLECTIVE_BROADCAST, DEVRT_INT64, 2, 0, 0));
  check(plain, call(kAllReduce, DEVRT_UINT64, 2, 0, 0));
  check(plain, call(kAllReduce, DEVRT_INT64, 1, 0, 0));
  check(plain, call(kAllReduce, DEVRT_INT64, 2, DEVRT_COLLECTIVE_MAX, 0));
  check(call(DEVRT_COLLECTIVE_BROADCAST, DEVRT_INT64, 2, 0, 0),
        call(DEVRT_COLLECTIVE_BROADCAST, DEVRT_INT64, 2, 0, 1));
  check(call(DEVRT_COLLECTIVE_SEND, DEVRT_INT64, 2, 0, 1),
        call(DEVRT_COLLECTIVE_RECV, DEVRT_INT64, 1, 0, 0));
}

TEST_F(CollectiveFailure, AMismatchHangsIfAsked) {
  Reset("collective_mismatch=hang");
  const TestRanks ranks = Make(2);
  const std::vector<int64_t*> cells = Cells(2);
  Submit(ranks[0], {Add(cells[0])});
  Submit(ranks[1], {Op(kAllReduce, DEVRT_INT32, 1, cells[1], cells[1])});
  const Result stuck = Take(ops().stream_sync(self(), ranks[0].stream));
  EXPECT_EQ(stuck.code, DEVRT_FAILED_PRECONDITION);
  EXPECT_THAT(stuck.text,
              HasSubstr("no rank is missing, but the calls differ"));
  // A timeout would end it.
  OK(table().comm_abort(self(), ranks[0].comm));
  OK(table().comm_abort(self(), ranks[1].comm));
  SyncAll(ranks);
}

TEST_F(CollectiveFailure, ATruncatedCountGivesLess) {
  Reset("collective_mismatch=truncate");
  const TestRanks ranks = Make(2);
  std::vector<int64_t*> cells;
  for (uint32_t r = 0; r < 2; ++r) {
    cells.push_back(static_cast<int64_t*>(NewBuffer(r, std::string(16, 1))));
    Submit(ranks[r],
           {Op(kAllReduce, DEVRT_INT8, r == 0 ? 16 : 8, cells[r], cells[r])});
  }
  SyncAll(ranks);
  EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_READY);
  EXPECT_EQ(Bytes(cells[0], 16), std::string(8, 2) + std::string(8, 1));
}

// ---- operations that do not come ----

TEST_F(CollectiveFailure, ATimeoutNamesWhoIsMissing) {
  for (const std::string mode : {"", "strategy=random,seed=2"}) {
    SCOPED_TRACE(mode);
    Reset(mode);
    const TestRanks ranks = Make(3, 5'000'000, "data");
    const std::vector<int64_t*> cells = Cells(3);
    for (uint32_t r = 0; r < 3; ++r) Submit(ranks[r], {Add(cells[r])});
    SyncAll(ranks);
    {
      const ScopedCallSite site("train.cc", 44);
      Submit(ranks[0], {Add(cells[0])});
      Submit(ranks[2], {Add(cells[2])});
    }
    Sync(ranks[0].stream);
    Sync(ranks[2].stream);
    for (const TestRank& r : ranks) {
      const Result failed = PollError(r.comm);
      EXPECT_EQ(failed.code, DEVRT_DEADLINE_EXCEEDED);
      EXPECT_THAT(
          failed.text,
          AllOf(HasSubstr("communicator \"data\": all_reduce #2 (int64 x 1, "
                          "sum) did not meet within 5 ms: "),
                HasSubstr("missing rank 1; rank 1 has submitted 1 collective "
                          "and begun 1"),
                HasSubstr("ranks 0, 2: all_reduce #2 (int64 x 1, sum) at "
                          "train.cc:44")));
    }
    EXPECT_EQ(Peek(cells[0]), -1);
    EXPECT_EQ(Peek(cells[1]), 3);
    // The late rank ends at once.
    ExpectCode(TrySubmit(ranks[1], {Add(cells[1])}), DEVRT_ABORTED);
  }
}

TEST_F(CollectiveFailure, ATimeoutPassesInRealTime) {
  Reset("mode=threaded");
  const TestRanks ranks = Make(3, 1'000'000);
  const std::vector<int64_t*> cells = Cells(3);
  Submit(ranks[1], {Add(cells[1])});
  Sync(ranks[1].stream);
  const Result failed = PollError(ranks[0].comm);
  EXPECT_EQ(failed.code, DEVRT_DEADLINE_EXCEEDED);
  EXPECT_THAT(failed.text, HasSubstr("missing ranks 0, 2; rank 0 has "
                                     "submitted 0 collectives"));
  EXPECT_EQ(Peek(cells[1]), -1);
}

TEST_F(CollectiveFailure, ALoneSendTimesOut) {
  const TestRanks ranks = Make(2, 1'000);
  const std::vector<int64_t*> cells = Cells(2);
  Submit(ranks[0],
         {Op(DEVRT_COLLECTIVE_SEND, DEVRT_INT64, 1, cells[0], nullptr, 0, 1)});
  Sync(ranks[0].stream);
  EXPECT_THAT(PollError(ranks[1].comm).text,
              AllOf(HasSubstr("send #1 (int64 x 1, to rank 1)"),
                    HasSubstr("rank 1 has submitted 0 receives from rank 0")));
}

// Rank 1 has a send with the same number, to another rank.
TEST_F(CollectiveFailure, AReportNamesTheSendOfThePair) {
  const TestRanks ranks = Make(3);
  const std::vector<int64_t*> cells = Cells(3);
  const auto send = [&](int32_t to) {
    return Op(DEVRT_COLLECTIVE_SEND, DEVRT_INT64, 1, cells[1], nullptr, 0, to);
  };
  devrt_flag flag = NewFlag(1);
  Hold(ranks[1].stream, flag);
  {
    const ScopedCallSite site("first.cc", 1);
    Submit(ranks[1], {send(2)});
  }
  {
    const ScopedCallSite site("second.cc", 2);
    Submit(ranks[1], {send(0)});
  }
  Submit(ranks[0],
         {Op(DEVRT_COLLECTIVE_RECV, DEVRT_INT64, 1, nullptr, cells[0], 0, 1)});
  const Result stuck = Take(ops().stream_sync(self(), ranks[0].stream));
  EXPECT_THAT(stuck.text,
              AllOf(HasSubstr("-> s"), HasSubstr("collective \"send\""),
                    HasSubstr("second.cc:2"), Not(HasSubstr("first.cc:1"))));
  Submit(ranks[2],
         {Op(DEVRT_COLLECTIVE_RECV, DEVRT_INT64, 1, nullptr, cells[2], 0, 1)});
  Set(flag);
  SyncAll(ranks);
  EXPECT_EQ(Peek(cells[0]), 1);
}

// ---- loops that wait ----

// As Communicator::Wait with a deadline: asks the stream and the communicator.
TEST_F(CollectiveFailure, LoopsOfQueriesAndPollsEnd) {
  for (const std::string strategy : {"hw", "alap", "lifo", "pos", "pct"}) {
    SCOPED_TRACE(strategy);
    Reset("strategy=" + strategy);
    const TestRanks ranks = Make(2, 1'000'000'000);
    const std::vector<int64_t*> cells = Cells(2);
    for (uint32_t r = 0; r < 2; ++r) Submit(ranks[r], {Add(cells[r])});
    int turns = 0;
    while (!Done(ranks[0].stream)) {
      EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_READY);
      ASSERT_LT(++turns, 100);
    }
    EXPECT_EQ(Peek(cells[0]), 2);
    // Now the other rank does not come.
    Submit(ranks[0], {Add(cells[0])});
    Result failed;
    turns = 0;
    while (failed.code == DEVRT_OK) {
      static_cast<void>(Done(ranks[0].stream));
      failed = PollError(ranks[0].comm);
      ASSERT_LT(++turns, 2'000);
    }
    EXPECT_EQ(failed.code, DEVRT_DEADLINE_EXCEEDED);
    EXPECT_THAT(failed.text, HasSubstr("did not meet within 1 s: "));
  }
}

TEST_F(CollectiveFailure, ALoopThatCannotEndIsReportedDespitePendingPolls) {
  const devrt_comm pending = Begin(NewId(), 2, 0, Options());
  devrt_stream held = NewStream();
  Hold(held, NewFlag());
  devrt_event event = Mark(held);
  Result stuck;
  for (int i = 0; i < 11'000 && stuck.code == DEVRT_OK; ++i) {
    EXPECT_EQ(Poll(pending), DEVRT_COMM_PENDING);
    uint32_t done = 0;
    stuck = Take(ops().event_query(self(), event, &done));
  }
  EXPECT_EQ(stuck.code, DEVRT_FAILED_PRECONDITION);
  EXPECT_THAT(stuck.text, HasSubstr("polls for work that cannot complete"));
}

// ---- deadlocks ----

TEST_F(CollectiveFailure, WithoutATimeoutTheDeadlockNamesWhoIsMissing) {
  const TestRanks ranks = Make(2);
  const std::vector<int64_t*> cells = Cells(2);
  Submit(ranks[0], {Add(cells[0])});
  const Result stuck = Take(ops().stream_sync(self(), ranks[0].stream));
  EXPECT_EQ(stuck.code, DEVRT_FAILED_PRECONDITION);
  EXPECT_THAT(stuck.text,
              AllOf(HasSubstr("rank 0 of communicator 1 in all_reduce #1"),
                    HasSubstr("missing rank 1; rank 1 has submitted 0")));
  // Then the rank comes.
  Submit(ranks[1], {Add(cells[1])});
  SyncAll(ranks);
  EXPECT_EQ(Peek(cells[1]), 2);
}

// K-C7: two communicators on two streams of each device.
TEST_F(CollectiveFailure, OppositeOrdersOfTwoCommunicatorsDeadlock) {
  for (const std::string mode : {"", "mode=threaded"}) {
    SCOPED_TRACE(mode);
    Reset(mode);
    const TestRanks a = Make(2, 0, "a");
    const TestRanks b = Make(2, 0, "b");
    const std::vector<int64_t*> cells = Cells(4);
    {
      const ScopedCallSite site("first.cc", 1);
      Submit(a[0], {Add(cells[0])});
      Submit(b[0], {Add(cells[2])});
    }
    {
      const ScopedCallSite site("second.cc", 2);
      Submit(b[1], {Add(cells[3])});
      Submit(a[1], {Add(cells[1])});
    }
    const Result stuck = Take(ops().stream_sync(self(), a[0].stream));
    EXPECT_EQ(stuck.code, DEVRT_FAILED_PRECONDITION);
    EXPECT_THAT(
        stuck.text,
        AllOf(HasSubstr("communicator \"a\""), HasSubstr("communicator \"b\""),
              HasSubstr("first.cc:1"), HasSubstr("second.cc:2"),
              HasSubstr("collective \"all_reduce\""),
              HasSubstr("a slot held by"), HasSubstr("(the cycle)")));
    // With an abort of the one the other goes on.
    OK(table().comm_abort(self(), a[0].comm));
    OK(table().comm_abort(self(), a[1].comm));
    SyncAll(b);
    EXPECT_EQ(Peek(cells[2]), 2);
    SyncAll(a);
  }
}

TEST_F(CollectiveFailure, EnoughSlotsNeedNoOrder) {
  Reset("collective_slots=2");
  const TestRanks a = Make(2);
  const TestRanks b = Make(2);
  const std::vector<int64_t*> cells = Cells(4);
  Submit(a[0], {Add(cells[0])});
  Submit(b[0], {Add(cells[2])});
  Submit(b[1], {Add(cells[3])});
  Submit(a[1], {Add(cells[1])});
  SyncAll(a);
  SyncAll(b);
  EXPECT_EQ(Peek(cells[3]), 2);
}

TEST_F(CollectiveFailure, ALargerCommunicatorBringsSlots) {
  const TestRanks a = Make(2);
  const TestRanks b = Make(2);
  const std::vector<int64_t*> cells = Cells(4);
  Submit(a[0], {Add(cells[0])});
  Submit(b[0], {Add(cells[2])});
  Submit(b[1], {Add(cells[3])});
  Submit(a[1], {Add(cells[1])});
  ExpectCode(ops().stream_sync(self(), a[0].stream), DEVRT_FAILED_PRECONDITION);
  const TestRanks large = Make(4);  // two ranks a device
  SyncAll(a);
  SyncAll(b);
  EXPECT_EQ(Peek(cells[0]), 2);
}

// ---- injected faults ----

TEST_F(CollectiveFailure, FaultsOfRanks) {
  Reset("faults=remote_error:rank=1:nth=2");
  TestRanks ranks = Make(2);
  std::vector<int64_t*> cells = Cells(2);
  for (int i = 0; i < 2; ++i) {
    for (uint32_t r = 0; r < 2; ++r) Submit(ranks[r], {Add(cells[r])});
  }
  SyncAll(ranks);
  EXPECT_EQ(PollError(ranks[0].comm).code, DEVRT_UNAVAILABLE);
  EXPECT_THAT(PollError(ranks[1].comm).text,
              HasSubstr("the connection to rank 1 of communicator 1 broke"));

  Reset("faults=submit_fails:rank=0:nth=2");
  ranks = Make(2);
  cells = Cells(2);
  Submit(ranks[0], {Add(cells[0])});
  ExpectCode(TrySubmit(ranks[0], {Add(cells[0])}), DEVRT_INTERNAL);
  Submit(ranks[1], {Add(cells[1])});
  SyncAll(ranks);
  EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_READY);

  Reset("faults=init_never:rank=1+finish_never:rank=0");
  ranks = Make(2);
  EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_PENDING);
  EXPECT_EQ(Poll(ranks[1].comm), DEVRT_COMM_PENDING);
  ranks = Make(2);  // the rule has fired
  for (const TestRank& r : ranks) OK(table().comm_finish(self(), r.comm));
  EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_PENDING);
  EXPECT_EQ(Poll(ranks[1].comm), DEVRT_COMM_READY);
}

TEST_F(CollectiveFailure, ALateRankDelaysAll) {
  const auto time = [](const std::string& config) {
    Reset(config);
    const TestRanks ranks = Make(2);
    const std::vector<int64_t*> cells = Cells(2);
    for (uint32_t r = 0; r < 2; ++r) Submit(ranks[r], {Add(cells[r])});
    SyncAll(ranks);
    uint64_t now = 0;
    OK(sim().now_ns(self(), &now));
    return now;
  };
  const uint64_t usual = time("");
  const uint64_t late = time("faults=rank_late:rank=1:by=5ms");
  EXPECT_GE(late, usual + 4'900'000);
  EXPECT_LE(late, usual + 5'100'000);
}

TEST_F(CollectiveFailure, AnAbortThatHangsReturnsWhenTheMachineEnds) {
  Reset("faults=abort_hangs:rank=0");
  const TestRanks ranks = Make(2);
  std::atomic<int> tid{0};
  std::atomic<bool> returned{false};
  std::thread aborts([&] {
    tid = gettid();
    OK(table().comm_abort(self(), ranks[0].comm));
    returned = true;
  });
  UntilAsleep(tid);
  // Others work.
  const std::vector<int64_t*> cells = Cells(2);
  for (uint32_t r = 0; r < 2; ++r) Submit(ranks[r], {Add(cells[r])});
  SyncAll(ranks);
  EXPECT_EQ(Peek(cells[0]), 2);
  EXPECT_FALSE(returned);
  Reset("");
  aborts.join();
}

TEST_F(CollectiveFailure, OperationsCanBeHitAsKernels) {
  Reset("faults=kernel_fault:op=all_reduce:device=1");
  const TestRanks ranks = Make(2);
  const std::vector<int64_t*> cells = Cells(2);
  for (uint32_t r = 0; r < 2; ++r) Submit(ranks[r], {Add(cells[r])});
  Sync(ranks[0].stream);
  EXPECT_EQ(Take(ops().stream_sync(self(), ranks[1].stream)).native_code, 719);
}

}  // namespace
}  // namespace devrt::test
