// SPDX-License-Identifier: Apache-2.0
//
// devrt.collectives/0 on mtia: how communicators begin, split and end.
#include <unistd.h>

#include <atomic>
#include <string>
#include <thread>
#include <vector>

#include "tests/mtia/collectives_fixture.h"

namespace devrt::test {
namespace {

using ::testing::HasSubstr;

class CollectiveComm : public CollectivesTest {
 protected:
  // A one-element all_reduce in place.
  static devrt_collective_v0 Add(int64_t* cell) {
    return Op(DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_INT64, 1, cell, cell);
  }
  static std::vector<int64_t*> Cells(uint32_t ranks) {
    std::vector<int64_t*> cells;
    for (uint32_t r = 0; r < ranks; ++r) cells.push_back(NewCell(r % 2, 1));
    return cells;
  }
};

// ---- abort, revoke, destroy ----

TEST_F(CollectiveComm, AnAbortEndsAWaitOfAnotherThread) {
  for (const std::string mode : {"", "mode=threaded"}) {
    SCOPED_TRACE(mode);
    Reset(mode + (mode.empty() ? "" : ",") + "watchdog=5s");
    const TestRanks ranks = Make(2);
    const std::vector<int64_t*> cells = Cells(2);
    Submit(ranks[0], {Add(cells[0])});
    std::atomic<int> tid{0};
    std::thread waiter([&] {
      tid = gettid();
      Sync(ranks[0].stream);
    });
    UntilAsleep(tid);
    OK(table().comm_abort(self(), ranks[0].comm));
    OK(table().comm_abort(self(), ranks[0].comm));  // does nothing
    waiter.join();
    const Result aborted = PollError(ranks[0].comm);
    EXPECT_EQ(aborted.code, DEVRT_ABORTED);
    EXPECT_THAT(aborted.text,
                HasSubstr("rank 0 of communicator 1 was aborted"));
    EXPECT_EQ(Peek(cells[0]), -1);
    // It is local.
    EXPECT_EQ(Poll(ranks[1].comm), DEVRT_COMM_READY);
    Put(ranks[0].stream, cells[0], 5);
    Sync(ranks[0].stream);
  }
}

TEST_F(CollectiveComm, WhatWasSubmittedBeforeAnAbortEnds) {
  const TestRanks ranks = Make(2);
  const std::vector<int64_t*> cells = Cells(2);
  devrt_flag flag = NewFlag();
  Hold(ranks[0].stream, flag);
  Submit(ranks[0], {Add(cells[0])});
  OK(table().comm_destroy(self(), ranks[0].comm));
  Submit(ranks[1], {Add(cells[1])});
  Set(flag);
  Sync(ranks[0].stream);
  EXPECT_EQ(Peek(cells[0]), -1);
  const Result stuck = Take(ops().stream_sync(self(), ranks[1].stream));
  EXPECT_THAT(stuck.text, HasSubstr("rank 0 has destroyed its communicator"));
  ExpectCode(table().comm_destroy(self(), ranks[0].comm),
             DEVRT_INVALID_ARGUMENT);
}

TEST_F(CollectiveComm, ARevokedCommunicatorIsAParent) {
  const TestRanks ranks = Make(2);
  const std::vector<int64_t*> cells = Cells(2);
  Submit(ranks[0], {Add(cells[0])});
  for (const TestRank& r : ranks) OK(table().comm_revoke(self(), r.comm));
  SyncAll(ranks);
  ExpectCode(TrySubmit(ranks[0], {Add(cells[0])}), DEVRT_ABORTED);
  TestRanks children = ranks;
  for (TestRank& r : children) {
    const devrt_comm parent = r.comm;
    OK(table().comm_split(self(), parent, 0, 0, nullptr, &r.comm));
  }
  for (uint32_t r = 0; r < 2; ++r) {
    OK(sim().poke(self(), cells[r], "\1\0\0\0\0\0\0\0", 8));
    Submit(children[r], {Add(cells[r])});
  }
  SyncAll(children);
  EXPECT_EQ(Peek(cells[0]), 2);
}

// ---- beginnings and ends ----

TEST_F(CollectiveComm, BeginsWhenAllRanksHaveBegun) {
  const std::string id = NewId();
  EXPECT_NE(NewId(), id);
  const devrt_comm first = Begin(id, 2, 0, Options());
  for (int i = 0; i < 20'000; ++i) {
    ASSERT_EQ(Poll(first), DEVRT_COMM_PENDING);
  }
  int64_t* const cell = NewCell();
  const TestRank early = {0, first, NewStream()};
  ExpectCode(TrySubmit(early, {Add(cell)}), DEVRT_FAILED_PRECONDITION);
  const devrt_comm second = Begin(id, 2, 1, Options());
  EXPECT_EQ(Poll(first), DEVRT_COMM_READY);
  EXPECT_EQ(Poll(second), DEVRT_COMM_READY);
}

TEST_F(CollectiveComm, RefusesWrongBeginnings) {
  const std::string id = NewId();
  static_cast<void>(Begin(id, 3, 1, Options()));
  const auto begin = [&](uint32_t device, uint32_t ranks, uint32_t rank,
                         uint64_t size, uint32_t shared) {
    devrt_comm_options_v0 options = Options();
    options.shared_device = shared;
    devrt_comm comm = nullptr;
    return Take(table().comm_begin(self(), device, ranks, rank, id.data(), size,
                                   &options, &comm));
  };
  EXPECT_THAT(begin(1, 3, 1, id.size(), 1).text, HasSubstr("is taken"));
  EXPECT_THAT(begin(0, 4, 2, id.size(), 1).text,
              HasSubstr("the ranks differ: rank 2 wants 4 ranks, and "
                        "communicator 1 has 3"));
  EXPECT_THAT(begin(1, 3, 0, id.size(), 0).text,
              HasSubstr("ranks 0 and 1 of communicator 1 both have mtia:1"));
  EXPECT_EQ(begin(0, 3, 3, id.size(), 1).code, DEVRT_INVALID_ARGUMENT);
  EXPECT_EQ(begin(0, 0, 0, id.size(), 1).code, DEVRT_INVALID_ARGUMENT);
  EXPECT_EQ(begin(0, 3, 0, 0, 1).code, DEVRT_INVALID_ARGUMENT);
  EXPECT_EQ(begin(9, 3, 0, id.size(), 1).code, DEVRT_INVALID_ARGUMENT);
  uint64_t size = 1;
  char small = 0;
  ExpectCode(table().unique_id(self(), &small, &size), DEVRT_INVALID_ARGUMENT);
}

TEST_F(CollectiveComm, SplitsAsMpi) {
  const TestRanks parent = Make(4);
  const std::vector<int64_t*> cells = Cells(4);
  // Color 0: ranks 2 and 0, in this order; color 1: rank 3; rank 1 has none.
  const int32_t colors[] = {0, -1, 0, 1};
  const int32_t keys[] = {5, 0, 2, 0};
  TestRanks children = parent;
  for (uint32_t r = 0; r < 4; ++r) {
    OK(table().comm_split(self(), parent[r].comm, colors[r], keys[r], nullptr,
                          &children[r].comm));
    if (r < 3 && colors[r] != -1) {
      EXPECT_EQ(Poll(children[r].comm), DEVRT_COMM_PENDING);
    }
  }
  EXPECT_EQ(children[1].comm, nullptr);
  void* const all = NewBuffer(0, std::string(16, 0));
  OK(sim().poke(self(), cells[0], "\7\0\0\0\0\0\0\0", 8));
  Submit(children[2],
         {Op(DEVRT_COLLECTIVE_ALL_GATHER, DEVRT_INT64, 1, cells[2], all)});
  void* const other = NewBuffer(0, std::string(16, 0));
  Submit(children[0],
         {Op(DEVRT_COLLECTIVE_ALL_GATHER, DEVRT_INT64, 1, cells[0], other)});
  Submit(children[3], {Add(cells[3])});
  Sync(children[0].stream);
  Sync(children[2].stream);
  Sync(children[3].stream);
  const std::string want("\1\0\0\0\0\0\0\0\7\0\0\0\0\0\0\0", 16);
  EXPECT_EQ(Bytes(all, 16), want);
  EXPECT_EQ(Bytes(other, 16), want);
  EXPECT_EQ(Peek(cells[3]), 1);
  // The parent works on.
  for (uint32_t r = 0; r < 4; ++r) Submit(parent[r], {Add(cells[r])});
  SyncAll(parent);
  EXPECT_EQ(Peek(cells[0]), 10);
}

TEST_F(CollectiveComm, AFailureOfTheParentFailsTheSplit) {
  const TestRanks parent = Make(2, 1'000);
  const std::vector<int64_t*> cells = Cells(2);
  devrt_comm child = nullptr;
  OK(table().comm_split(self(), parent[0].comm, 0, 0, nullptr, &child));
  EXPECT_EQ(Poll(child), DEVRT_COMM_PENDING);
  Submit(parent[0], {Add(cells[0])});
  Sync(parent[0].stream);
  EXPECT_EQ(PollError(child).code, DEVRT_DEADLINE_EXCEEDED);
  ExpectCode(table().comm_split(self(), parent[1].comm, 0, 0, nullptr, &child),
             DEVRT_ABORTED);
}

TEST_F(CollectiveComm, ARankThatIsGoneFailsTheSplit) {
  for (const bool destroys : {true, false}) {
    Reset("");
    const TestRanks parent = Make(3);
    devrt_comm early = nullptr;
    devrt_comm late = nullptr;
    OK(table().comm_split(self(), parent[0].comm, 0, 0, nullptr, &early));
    EXPECT_EQ(Poll(early), DEVRT_COMM_PENDING);
    if (destroys) {
      OK(table().comm_destroy(self(), parent[2].comm));
    } else {
      OK(table().comm_abort(self(), parent[2].comm));
    }
    OK(table().comm_split(self(), parent[1].comm, 0, 0, nullptr, &late));
    for (const devrt_comm child : {early, late}) {
      const Result failed = PollError(child);
      EXPECT_EQ(failed.code, DEVRT_UNAVAILABLE);
      EXPECT_THAT(failed.text,
                  HasSubstr(destroys ? "rank 2 has destroyed its communicator"
                                     : "rank 2 has failed: rank 2 of "
                                       "communicator 1 was aborted"));
    }
  }
}

TEST_F(CollectiveComm, ADeadRankFailsTheShrinkThatKeepsIt) {
  Reset("faults=rank_dies:rank=2");
  const TestRanks ranks = Make(4);
  int64_t* const cell = NewCell(0, 1);
  const uint32_t gone = 1;
  const auto shrink = [&](uint32_t rank) {
    devrt_comm child = nullptr;
    OK(table().comm_shrink(self(), ranks[rank].comm, &gone, 1, 1, &child));
    return child;
  };
  const devrt_comm early = shrink(0);
  EXPECT_EQ(Poll(early), DEVRT_COMM_PENDING);
  Submit(ranks[2], {Add(cell)});
  Sync(ranks[2].stream);
  for (const devrt_comm child : {early, shrink(3)}) {
    const Result failed = PollError(child);
    EXPECT_EQ(failed.code, DEVRT_UNAVAILABLE);
    EXPECT_THAT(failed.text, HasSubstr("rank 2 has failed: injected: rank 2"));
  }
}

TEST_F(CollectiveComm, AnAbortedRankMayShrink) {
  const TestRanks ranks = Make(3);
  const uint32_t gone = 1;
  devrt_comm children[2] = {nullptr, nullptr};
  OK(table().comm_shrink(self(), ranks[0].comm, &gone, 1, 1, &children[0]));
  OK(table().comm_abort(self(), ranks[2].comm));
  EXPECT_EQ(Poll(children[0]), DEVRT_COMM_PENDING);
  OK(table().comm_shrink(self(), ranks[2].comm, &gone, 1, 1, &children[1]));
  for (const devrt_comm child : children) {
    EXPECT_EQ(Poll(child), DEVRT_COMM_READY);
  }
}

TEST_F(CollectiveComm, ARefusedShrinkLeavesTheCommunicator) {
  const TestRanks ranks = Make(2);
  const std::vector<int64_t*> cells = Cells(2);
  devrt_comm none = nullptr;
  for (const uint32_t wrong : {0u, 7u}) {
    ExpectCode(table().comm_shrink(self(), ranks[0].comm, &wrong, 1, 1, &none),
               DEVRT_INVALID_ARGUMENT);
  }
  ExpectCode(table().comm_shrink(self(), ranks[0].comm, nullptr, 1, 1, &none),
             DEVRT_INVALID_ARGUMENT);
  EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_READY);
  for (uint32_t r = 0; r < 2; ++r) Submit(ranks[r], {Add(cells[r])});
  SyncAll(ranks);
  EXPECT_EQ(Peek(cells[0]), 2);
}

TEST_F(CollectiveComm, ShrinksAfterADeath) {
  Reset("faults=rank_dies:rank=1");
  const TestRanks ranks = Make(3, 1'000'000);
  const std::vector<int64_t*> cells = Cells(3);
  for (uint32_t r = 0; r < 3; ++r) Submit(ranks[r], {Add(cells[r])});
  SyncAll(ranks);
  EXPECT_EQ(PollError(ranks[1].comm).code, DEVRT_UNAVAILABLE);
  const Result failed = PollError(ranks[0].comm);
  EXPECT_EQ(failed.code, DEVRT_DEADLINE_EXCEEDED);
  EXPECT_THAT(failed.text,
              HasSubstr("missing rank 1; rank 1 has failed: "
                        "injected: rank 1 of communicator 1 died"));
  const uint32_t gone = 1;
  devrt_comm none = nullptr;
  ExpectCode(table().comm_shrink(self(), ranks[0].comm, &gone, 1, 0, &none),
             DEVRT_ABORTED);
  TestRanks rest = {ranks[0], ranks[2]};
  for (TestRank& r : rest) {
    const devrt_comm parent = r.comm;
    OK(table().comm_shrink(self(), parent, &gone, 1, 1, &r.comm));
  }
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_EQ(Poll(rest[i].comm), DEVRT_COMM_READY);
    OK(sim().poke(self(), cells[2 * i], "\4\0\0\0\0\0\0\0", 8));
    Submit(rest[i], {Add(cells[2 * i])});
  }
  SyncAll(rest);
  EXPECT_EQ(Peek(cells[0]), 8);
  const uint32_t wrong[] = {0, 7};
  for (const uint32_t w : wrong) {
    ExpectCode(table().comm_shrink(self(), rest[0].comm, &w, 1, 0, &none),
               DEVRT_INVALID_ARGUMENT);
  }
}

TEST_F(CollectiveComm, FinishWaitsForAllRanks) {
  const TestRanks ranks = Make(2);
  const std::vector<int64_t*> cells = Cells(2);
  Submit(ranks[0], {Add(cells[0])});
  OK(table().comm_finish(self(), ranks[0].comm));
  EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_PENDING);
  ExpectCode(TrySubmit(ranks[0], {Add(cells[0])}), DEVRT_FAILED_PRECONDITION);
  Submit(ranks[1], {Add(cells[1])});
  OK(table().comm_finish(self(), ranks[1].comm));
  SyncAll(ranks);
  EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_READY);
  EXPECT_EQ(Poll(ranks[1].comm), DEVRT_COMM_READY);
  EXPECT_EQ(Peek(cells[0]), 2);
  Destroy(ranks);
}

TEST_F(CollectiveComm, RegistersMemoryOfItsDevice) {
  const TestRanks ranks = Make(2);
  int64_t* const cell = NewCell();
  void* handle = nullptr;
  OK(table().buffer_register(self(), ranks[0].comm, cell, 8, &handle));
  OK(table().buffer_deregister(self(), ranks[0].comm, handle));
  ExpectCode(table().buffer_deregister(self(), ranks[0].comm, handle),
             DEVRT_INVALID_ARGUMENT);
  int64_t local = 0;
  for (void* const bad :
       {static_cast<void*>(&local), static_cast<void*>(cell)}) {
    ExpectCode(table().buffer_register(self(), ranks[0].comm, bad,
                                       bad == cell ? 0 : 8, &handle),
               DEVRT_INVALID_ARGUMENT);
  }
}

}  // namespace
}  // namespace devrt::test
