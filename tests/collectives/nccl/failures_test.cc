// SPDX-License-Identifier: Apache-2.0
//
// Failures of the provider's communicators: asynchronous errors, aborts, and a
// fault at every native call (K-C10, K-C11, K-C12, K-C20).
#include <atomic>

#include "tests/collectives/nccl/nccl_fixture.h"

namespace devrt::collectives {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

class NcclFailures : public NcclTest {};

constexpr int kSystemError = 2;
constexpr int kRemoteError = 6;

// With memory of the rank, which is written before and after by the stream.
devrt_collective_v0 AllReduce(Rank* rank) {
  const void* const src = rank->Upload(std::vector<char>(16, 1));
  return Op(DEVRT_COLLECTIVE_ALL_REDUCE, src, rank->Allocate(16), 4,
            DEVRT_INT32);
}

TEST_F(NcclFailures, OfTheLibraryAreToldByEveryPoll) {
  std::vector<Rank> ranks = MakeRanks(1);
  Connect(&ranks);
  fake_nccl_knobs knobs = {};
  knobs.async_after = 2;
  knobs.async_code = kRemoteError;
  Set(knobs);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(Text(ranks[0].Submit({AllReduce(&ranks[0])})), "");
    EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_READY);
  }
  ASSERT_EQ(Text(ranks[0].Submit({AllReduce(&ranks[0])})), "");
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(Text(WaitReady(ranks[0].comm)),
              "ncclCommGetAsyncError: remote process exited "
              "(ncclRemoteError)");
    EXPECT_EQ(TheLastError().code, DEVRT_UNAVAILABLE);
    EXPECT_EQ(TheLastError().native, kRemoteError);
    EXPECT_EQ(TheLastError().name, "ncclRemoteError");
    EXPECT_EQ(TheLastError().entry, "ncclCommGetAsyncError");
  }
  EXPECT_THAT(Text(ranks[0].Submit({AllReduce(&ranks[0])})),
              HasSubstr(":0) failed: ncclCommGetAsyncError: remote process"));
  EXPECT_EQ(TheLastError().code, DEVRT_ABORTED);
  EXPECT_EQ(Code(ranks[0].Finish()), DEVRT_ABORTED);
  EXPECT_EQ(Text(ranks[0].Abort()), "");
  EXPECT_EQ(Code(WaitReady(ranks[0].comm)), DEVRT_UNAVAILABLE);
  ASSERT_EQ(Text(ranks[0].Destroy()), "");

  // Another communicator of the device works.
  Set({});
  Connect(&ranks);
  EXPECT_EQ(Text(ranks[0].Submit({AllReduce(&ranks[0])})), "");
}

TEST_F(NcclFailures, MeanTheCodesOfDevrt) {
  for (const auto& [native, code] :
       {std::pair<int, devrt_code>{1, DEVRT_INTERNAL},
        {2, DEVRT_UNAVAILABLE},
        {3, DEVRT_INTERNAL},
        {4, DEVRT_INVALID_ARGUMENT},
        {5, DEVRT_FAILED_PRECONDITION},
        {6, DEVRT_UNAVAILABLE},
        {8, DEVRT_DEADLINE_EXCEEDED},
        {77, DEVRT_INTERNAL}}) {
    std::vector<Rank> ranks = MakeRanks(1);
    Connect(&ranks);
    fake_nccl_knobs knobs = {};
    knobs.fail_at = 1;
    knobs.fail_code = native;
    Set(knobs);
    EXPECT_THAT(Text(ranks[0].Submit({AllReduce(&ranks[0])})),
                HasSubstr("ncclAllReduce: "));
    EXPECT_EQ(TheLastError().code, code) << native;
    EXPECT_EQ(TheLastError().native, native);
    // A call that was refused has enqueued nothing.
    EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_READY);
    EXPECT_EQ(Text(ranks[0].Submit({AllReduce(&ranks[0])})), "");
  }
}

// K-C11
TEST_F(NcclFailures, AbortFromAnotherThreadEndsAWait) {
  std::vector<Rank> ranks = MakeRanks(2);
  Connect(&ranks);
  ASSERT_EQ(Text(ranks[0].Submit({AllReduce(&ranks[0])})), "");
  std::atomic<bool> waits{false};
  std::thread waiter([&] {
    waits = true;
    EXPECT_EQ(Text(ranks[0].Synchronize()), "");
  });
  while (!waits) std::this_thread::yield();
  EXPECT_EQ(Text(ranks[0].Abort()), "");
  waiter.join();
  EXPECT_EQ(Text(ranks[0].Abort()), "");
  EXPECT_THAT(Text(WaitReady(ranks[0].comm)), HasSubstr("it was aborted"));
  EXPECT_EQ(TheLastError().code, DEVRT_ABORTED);
  EXPECT_THAT(Text(ranks[0].Submit({AllReduce(&ranks[0])})),
              HasSubstr("failed: it was aborted"));
  EXPECT_EQ(TheLastError().code, DEVRT_ABORTED);
}

// Collectives that differ hang, as in NCCL, until the ranks are aborted.
TEST_F(NcclFailures, OperationsThatDifferEndByAnAbort) {
  for (const uint32_t kind :
       {DEVRT_COLLECTIVE_BROADCAST, DEVRT_COLLECTIVE_ALL_REDUCE}) {
    std::vector<Rank> ranks = MakeRanks(2);
    Connect(&ranks);
    devrt_collective_v0 other = AllReduce(&ranks[1]);
    other.op = kind;
    other.count = kind == DEVRT_COLLECTIVE_ALL_REDUCE ? 2 : 4;
    const int before = fake_nccl_differing();
    ASSERT_EQ(Text(SubmitTogether(&ranks, {AllReduce(&ranks[0]), other})), "");
    const auto end =
        std::chrono::steady_clock::now() + std::chrono::seconds(30);
    while (fake_nccl_differing() == before &&
           std::chrono::steady_clock::now() < end) {
      std::this_thread::yield();
    }
    EXPECT_EQ(fake_nccl_differing(), before + 1);
    for (Rank& rank : ranks) EXPECT_EQ(Text(rank.Abort()), "");
    for (Rank& rank : ranks) EXPECT_EQ(Text(rank.Synchronize()), "");
  }
}

// K-C12: the caller's thread hangs, and nobody else.
TEST_F(NcclFailures, AbortThatNeverReturnsHoldsNobodyElse) {
  std::vector<Rank> ranks = MakeRanks(2);
  Connect(&ranks);
  fake_nccl_knobs knobs = {};
  knobs.abort_hangs = 1;
  Set(knobs);
  std::thread aborter([&] { EXPECT_EQ(Text(ranks[0].Abort()), ""); });
  while (fake_nccl_calls() == 0) std::this_thread::yield();
  EXPECT_EQ(Text(ranks[0].Abort()), "");
  EXPECT_EQ(Code(WaitReady(ranks[0].comm)), DEVRT_ABORTED);
  EXPECT_EQ(Code(ranks[0].Submit({AllReduce(&ranks[0])})), DEVRT_ABORTED);
  EXPECT_THAT(Text(ranks[0].Destroy()),
              HasSubstr("cannot be destroyed: its abort has not returned"));
  EXPECT_EQ(TheLastError().code, DEVRT_FAILED_PRECONDITION);
  EXPECT_EQ(Poll(ranks[1].comm), DEVRT_COMM_READY);
  fake_nccl_let_go();
  aborter.join();
  EXPECT_EQ(Text(ranks[0].Destroy()), "");
}

// Polls, submissions and an abort at once; for ThreadSanitizer.
TEST_F(NcclFailures, AbortMayRunBesideOtherCalls) {
  for (int round = 0; round < 20; ++round) {
    std::vector<Rank> ranks = MakeRanks(1);
    Connect(&ranks);
    const auto op = AllReduce(&ranks[0]);
    std::atomic<int> calls{0};
    std::thread poller([&] {
      uint32_t state = 0;
      while (Code(Call<&devrt_collectives_v0::comm_poll>(ranks[0].comm,
                                                         &state)) == DEVRT_OK) {
        ++calls;
      }
    });
    std::thread submitter([&] {
      while (Code(ranks[0].Submit({op})) == DEVRT_OK) ++calls;
    });
    while (calls < 5) std::this_thread::yield();
    EXPECT_EQ(Text(ranks[0].Abort()), "");
    poller.join();
    submitter.join();
    EXPECT_EQ(fake_nccl_live(), 0);
  }
}

// ---- A fault at every native call -------------------------------------------

// The errors of a trial, which goes on after them as a program might.
struct Trial {
  int faults = 0;  // errors with the code of the fault
  std::string unexpected;

  bool Ok(devrt_status status, const char* what) {
    if (status == nullptr) return true;
    const std::string text = Text(status);
    const LastError& last = TheLastError();
    if (last.native == kSystemError && last.code == DEVRT_UNAVAILABLE) {
      ++faults;
    } else if (last.code != DEVRT_ABORTED) {
      unexpected += std::string(what) + ": " + text + "\n";
    }
    return false;
  }
};

bool ConnectIn(Trial* run, std::vector<Rank>* ranks) {
  Id id;
  if (!run->Ok(Call<&devrt_collectives_v0::unique_id>(
                   static_cast<void*>(id.bytes), &id.size),
               "unique_id")) {
    return false;
  }
  bool ok = true;
  for (uint32_t i = 0; i < ranks->size() && ok; ++i) {
    ok = run->Ok(Begin(&(*ranks)[i], id, 2, i), "comm_begin");
  }
  return ok && run->Ok(WaitReady(CommsOf(*ranks)), "comm_poll");
}

bool WorkIn(Trial* run, std::vector<Rank>* ranks) {
  bool ok = true;
  std::vector<devrt_collective_v0> ops;
  for (Rank& rank : *ranks) {
    ops.push_back(AllReduce(&rank));
    ok = ok && run->Ok(rank.Submit({ops.back()}), "submit");
  }
  ok = ok && run->Ok(SubmitTogether(ranks, ops), "submit of several");
  for (Rank& rank : *ranks) {
    // The stream of a rank that waits is held: HIP's copies would wait, too.
    if (!ok) break;
    const auto op = AllReduce(&rank);
    const auto gather =
        Op(DEVRT_COLLECTIVE_GATHER, op.src, op.dst, 1, DEVRT_INT32, 0, 1);
    ok = ok && run->Ok(rank.Submit({op, gather}), "submit of a group");
  }
  return ok;
}

bool RegisterIn(Trial* run, Rank* rank) {
  if (!Has(DEVRT_COLLECTIVES_REGISTER)) return true;
  void* handle = nullptr;
  return run->Ok(Call<&devrt_collectives_v0::buffer_register>(
                     rank->comm, rank->Allocate(16), uint64_t{16}, &handle),
                 "buffer_register") &&
         run->Ok(
             Call<&devrt_collectives_v0::buffer_deregister>(rank->comm, handle),
             "buffer_deregister");
}

// A shrink without a rank that is gone, after a revoke.
bool ShrinkIn(Trial* run, const devrt_comm (&parents)[2]) {
  if (!Has(DEVRT_COLLECTIVES_SHRINK) || !Has(DEVRT_COLLECTIVES_REVOKE)) {
    return true;
  }
  devrt_comm children[2] = {};
  bool ok = true;
  for (devrt_comm parent : parents) {
    ok = ok && run->Ok(Call<&devrt_collectives_v0::comm_revoke>(parent),
                       "comm_revoke");
    ok = ok && run->Ok(WaitReady(parent), "comm_poll after a revoke");
  }
  for (uint32_t i = 0; i < 2 && ok; ++i) {
    ok = run->Ok(Call<&devrt_collectives_v0::comm_shrink>(parents[i], nullptr,
                                                          0u, 0u, &children[i]),
                 "comm_shrink");
  }
  ok = ok && run->Ok(WaitReady({children[0], children[1]}),
                     "comm_poll of a shrunk one");
  for (devrt_comm parent : parents) {
    ok = ok && run->Ok(WaitReady(parent), "comm_poll of its parent");
  }
  for (devrt_comm parent : parents) {
    if (ok) break;
    (void)run->Ok(Call<&devrt_collectives_v0::comm_abort>(parent),
                  "comm_abort of a parent");
  }
  for (devrt_comm child : children) {
    if (child == nullptr) continue;
    (void)run->Ok(Call<&devrt_collectives_v0::comm_destroy>(child),
                  "comm_destroy of a shrunk one");
  }
  return ok;
}

bool SplitIn(Trial* run, std::vector<Rank>* ranks) {
  if (!Has(DEVRT_COLLECTIVES_SPLIT)) return true;
  const devrt_comm_options_v0 options = Named("child");
  devrt_comm children[2] = {};
  bool ok = true;
  for (uint32_t i = 0; i < 2 && ok; ++i) {
    ok = run->Ok(Call<&devrt_collectives_v0::comm_split>(
                     (*ranks)[i].comm, 0, 0, &options, &children[i]),
                 "comm_split");
  }
  ok = ok &&
       run->Ok(WaitReady({children[0], children[1]}), "comm_poll of a child");
  for (Rank& rank : *ranks) {
    ok = ok && run->Ok(WaitReady(rank.comm), "comm_poll of a parent");
  }
  ok = ok && ShrinkIn(run, children);
  // A child that the library still makes ends after its parent.
  for (Rank& rank : *ranks) {
    if (!ok) (void)run->Ok(rank.Abort(), "comm_abort");
  }
  for (devrt_comm child : children) {
    if (child == nullptr) continue;
    (void)run->Ok(Call<&devrt_collectives_v0::comm_destroy>(child),
                  "comm_destroy of a child");
  }
  return ok;
}

void EndIn(Trial* run, std::vector<Rank>* ranks, bool ok) {
  for (Rank& rank : *ranks) ok = ok && run->Ok(rank.Finish(), "comm_finish");
  for (Rank& rank : *ranks) {
    ok = ok && run->Ok(WaitReady(rank.comm), "comm_poll at the end");
  }
  for (Rank& rank : *ranks) {
    if (!ok && rank.comm != nullptr) (void)run->Ok(rank.Abort(), "comm_abort");
  }
  for (Rank& rank : *ranks) {
    if (rank.comm == nullptr) continue;
    (void)run->Ok(rank.Destroy(), "comm_destroy");
    rank.comm = nullptr;  // gone, with an error too
    EXPECT_EQ(Text(rank.Synchronize()), "");
  }
}

void TryEveryFault(bool waits) {
  for (unsigned long n = 1;; ++n) {
    ASSERT_LT(n, 1000u);
    fake_nccl_knobs knobs = {};
    knobs.fail_at = n;
    knobs.fail_code = kSystemError;
    fake_nccl_set(&knobs);
    Trial run;
    std::vector<Rank> ranks = MakeRanks(2, waits);
    bool ok = ConnectIn(&run, &ranks);
    ok = ok && WorkIn(&run, &ranks);
    ok = ok && RegisterIn(&run, &ranks[0]);
    ok = ok && SplitIn(&run, &ranks);
    EndIn(&run, &ranks, ok);
    EXPECT_EQ(run.unexpected, "") << "call " << n;
    EXPECT_EQ(fake_nccl_live(), 0) << "call " << n;
    EXPECT_EQ(fake_nccl_open_groups(), 0) << "call " << n;
    if (fake_nccl_calls() < n) {
      EXPECT_EQ(run.faults, 0);
      EXPECT_GT(n, 20u);
      break;
    }
    EXPECT_GE(run.faults, 1) << "call " << n;
    if (::testing::Test::HasFailure()) break;
  }
}

// K-C20
TEST_F(NcclFailures, AtEveryNativeCallLeaveNothing) {
  TryEveryFault(/*waits=*/false);
  if (Has(DEVRT_COLLECTIVES_SPLIT)) TryEveryFault(/*waits=*/true);
}

}  // namespace
}  // namespace devrt::collectives
