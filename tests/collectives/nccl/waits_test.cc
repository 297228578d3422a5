// SPDX-License-Identifier: Apache-2.0
//
// Submissions that may wait for other ranks: what they compute, what ends them,
// and how their communicators end (K-C10, K-C11, K-C13, K-C16).
#include <atomic>

#include "tests/collectives/nccl/nccl_fixture.h"
#include "tests/collectives/nccl/nccl_values.h"

namespace devrt::collectives {
namespace {

using ::testing::HasSubstr;

class NcclWaits : public NcclTest {
 protected:
  void SetUp() override {
    NcclTest::SetUp();
    if (!Has(DEVRT_COLLECTIVES_SPLIT)) GTEST_SKIP() << "no ncclCommSplit";
  }
  // Ready ranks, whose submissions wait from now on.
  static std::vector<Rank> Ready(uint32_t count) {
    std::vector<Rank> ranks = MakeRanks(count);
    Connect(&ranks, /*waits=*/true);
    fake_nccl_knobs knobs = {};
    knobs.calls_wait = 1;
    Set(knobs);
    return ranks;
  }
};

devrt_collective_v0 AllReduce(Rank* rank) {
  const void* const src = rank->Upload(std::vector<char>(16, 1));
  return Op(DEVRT_COLLECTIVE_ALL_REDUCE, src, rank->Allocate(16), 4,
            DEVRT_INT32);
}

// A thread that submits, and its answer.
class Submitting {
 public:
  template <typename Submit>
  explicit Submitting(Submit submit)
      : thread_([this, submit] {
          text_ = Text(submit());
          code_ = TheLastError().code;
          is_done_ = true;
        }) {}
  ~Submitting() { Join(); }
  // Returns after the native calls, of which the last one may wait.
  static void AwaitCalls(unsigned long calls) {
    while (fake_nccl_calls() < calls) std::this_thread::yield();
  }
  bool is_done() const { return is_done_; }
  std::string Join() {
    if (thread_.joinable()) thread_.join();
    return text_;
  }
  devrt_code code() const { return code_; }

 private:
  std::string text_;
  devrt_code code_ = DEVRT_OK;
  std::atomic<bool> is_done_{false};
  std::thread thread_;
};

TEST_F(NcclWaits, HaveTheValuesOfTheDefinitions) {
  std::vector<Rank> ranks = Ready(3);
  for (uint32_t op = 0; op < DEVRT_COLLECTIVE_SEND; ++op) {
    CheckOp<int32_t>(&ranks, op, DEVRT_INT32, 0);
  }
}

TEST_F(NcclWaits, EndWhenAllRanksHaveCome) {
  std::vector<Rank> ranks = Ready(2);
  const std::vector<devrt_collective_v0> ops = {AllReduce(&ranks[0]),
                                                AllReduce(&ranks[1])};
  Submitting first([&] { return ranks[0].Submit({ops[0]}); });
  Submitting::AwaitCalls(1);
  // Nobody who looks has to wait.
  EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_READY);
  EXPECT_FALSE(first.is_done());
  EXPECT_EQ(Text(ranks[1].Submit({ops[1]})), "");
  EXPECT_EQ(first.Join(), "");
  const std::vector<char> sum = ranks[0].Download(ops[0].dst, 16);
  EXPECT_EQ(sum, std::vector<char>(16, 2));
}

// K-C11.  The fake ends the process if a communicator is freed that a call is
// in.
TEST_F(NcclWaits, EndByAnAbort) {
  std::vector<Rank> ranks = Ready(2);
  const int live = fake_nccl_live();
  const auto op = AllReduce(&ranks[0]);
  Submitting first([&] { return ranks[0].Submit({op}); });
  Submitting::AwaitCalls(1);
  EXPECT_EQ(Text(ranks[0].Abort()), "");
  EXPECT_THAT(first.Join(), HasSubstr("ncclAllReduce of communicator \"test\" "
                                      "(rank 0 of 2, "));
  EXPECT_THAT(first.Join(), HasSubstr(" was ended: it was aborted"));
  EXPECT_EQ(first.code(), DEVRT_CANCELLED);
  EXPECT_EQ(fake_nccl_live(), live / 2);
  EXPECT_EQ(Code(WaitReady(ranks[0].comm)), DEVRT_ABORTED);
  EXPECT_EQ(Text(ranks[0].Synchronize()), "");
}

// K-C10: of three ranks of a group one does not come.
TEST_F(NcclWaits, OfAGroupEndByAnAbortOfOne) {
  std::vector<Rank> ranks = Ready(3);
  const std::vector<devrt_collective_v0> ops = {AllReduce(&ranks[0]),
                                                AllReduce(&ranks[1])};
  Submitting group([&] {
    devrt_submission_v0 submissions[] = {ranks[0].Submission({}),
                                         ranks[1].Submission({})};
    for (size_t i = 0; i < 2; ++i) {
      submissions[i].op_count = 1;
      submissions[i].ops = &ops[i];
    }
    return Call<&devrt_collectives_v0::submit>(
        static_cast<const devrt_submission_v0*>(&submissions[0]), 2u);
  });
  Submitting::AwaitCalls(4);  // the group's beginning, two operations, its end
  EXPECT_EQ(Text(ranks[0].Abort()), "");
  EXPECT_NE(group.Join(), "");
  // The group was of the other rank, too, and its part is lost.
  EXPECT_EQ(Code(ranks[1].Submit({ops[1]})), DEVRT_ABORTED);
  EXPECT_EQ(Text(ranks[1].Abort()), "");
}

// K-C13
TEST_F(NcclWaits, EndByARevokeAndLeaveAParent) {
  if (!Has(DEVRT_COLLECTIVES_REVOKE)) GTEST_SKIP() << "no ncclCommRevoke";
  std::vector<Rank> ranks = Ready(2);
  const auto op = AllReduce(&ranks[0]);
  Submitting first([&] { return ranks[0].Submit({op}); });
  Submitting::AwaitCalls(1);
  for (Rank& rank : ranks) {
    EXPECT_EQ(Text(Call<&devrt_collectives_v0::comm_revoke>(rank.comm)), "");
  }
  EXPECT_THAT(first.Join(), HasSubstr("was ended: it was revoked"));
  EXPECT_EQ(first.code(), DEVRT_CANCELLED);
  EXPECT_EQ(Text(WaitReady(CommsOf(ranks))), "");
  EXPECT_THAT(Text(ranks[0].Submit({op})), HasSubstr("was revoked"));
  const devrt_comm_options_v0 options = Named("child");
  std::vector<devrt_comm> children(2);
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(Text(Call<&devrt_collectives_v0::comm_split>(
                  ranks[i].comm, 0, 0, &options, &children[i])),
              "");
  }
  ASSERT_EQ(Text(WaitReady(children)), "");
  for (uint32_t i = 0; i < 2; ++i) std::swap(ranks[i].comm, children[i]);
  CheckOp<int32_t>(&ranks, DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_INT32, 0);
  for (devrt_comm parent : children) {
    EXPECT_EQ(Text(Call<&devrt_collectives_v0::comm_destroy>(parent)), "");
  }
  // The children share nothing with their parents.
  CheckOp<int32_t>(&ranks, DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_INT32, 0);
}

// K-C13
TEST_F(NcclWaits, AreOfTheShrunkCommunicatorToo) {
  if (!Has(DEVRT_COLLECTIVES_SHRINK)) GTEST_SKIP() << "no ncclCommShrink";
  std::vector<Rank> ranks = Ready(3);
  const auto op = AllReduce(&ranks[0]);
  const uint32_t gone = 2;
  std::vector<devrt_comm> children(2);
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(Text(Call<&devrt_collectives_v0::comm_shrink>(
                  ranks[i].comm, &gone, 1u, 1u, &children[i])),
              "");
  }
  ASSERT_EQ(Text(WaitReady(children)), "");
  for (uint32_t i = 0; i < 2; ++i) {
    EXPECT_EQ(Text(ranks[i].Destroy()), "");
    ranks[i].comm = children[i];
  }
  const unsigned long calls = fake_nccl_calls();
  Submitting first([&] { return ranks[0].Submit({op}); });
  Submitting::AwaitCalls(calls + 1);
  EXPECT_EQ(Text(ranks[0].Abort()), "");
  EXPECT_EQ(Code(WaitReady(ranks[0].comm)), DEVRT_ABORTED);
}

// A shrink relies on the end, and so does the free of the communicator.
TEST_F(NcclWaits, HaveEndedForTheSecondCallerToo) {
  std::vector<Rank> ranks = Ready(1);
  fake_nccl_knobs knobs = {};
  knobs.abort_hangs = 1;
  Set(knobs);
  const auto end = [&] {
    return Call<&devrt_collectives_v0::comm_revoke>(ranks[0].comm);
  };
  if (!Has(DEVRT_COLLECTIVES_REVOKE)) GTEST_SKIP() << "no ncclCommRevoke";
  Submitting first(end);
  Submitting::AwaitCalls(1);
  Submitting second(end);
  const auto late =
      std::chrono::steady_clock::now() + std::chrono::milliseconds(200);
  while (!second.is_done() && std::chrono::steady_clock::now() < late) {
    std::this_thread::yield();
  }
  EXPECT_FALSE(second.is_done());
  fake_nccl_let_go();
  EXPECT_EQ(first.Join(), "");
  EXPECT_EQ(second.Join(), "");
  EXPECT_EQ(Text(ranks[0].Abort()), "");
}

// The answer is all that tells of it.
TEST_F(NcclWaits, FailByTheirAnswer) {
  struct Case {
    int native;
    devrt_code code;
    bool fails;
  };
  for (const Case& c :
       {Case{6, DEVRT_UNAVAILABLE, true}, Case{1, DEVRT_INTERNAL, true},
        Case{4, DEVRT_INVALID_ARGUMENT, false},
        Case{5, DEVRT_FAILED_PRECONDITION, false}}) {
    for (const bool is_group : {false, true}) {
      std::vector<Rank> ranks = MakeRanks(1);
      Connect(&ranks, /*waits=*/true);
      const std::vector<devrt_collective_v0> ops(is_group ? 2 : 1,
                                                 AllReduce(&ranks[0]));
      fake_nccl_knobs knobs = {};
      knobs.fail_at = is_group ? 4 : 1;
      knobs.fail_code = c.native;
      Set(knobs);
      EXPECT_EQ(Code(ranks[0].Submit(ops)), c.code) << c.native;
      EXPECT_EQ(Code(ranks[0].Submit(ops)), c.fails ? DEVRT_ABORTED : DEVRT_OK)
          << c.native;
      EXPECT_EQ(Code(WaitReady(ranks[0].comm)), c.fails ? c.code : DEVRT_OK);
    }
  }
}

TEST_F(NcclWaits, AreNotInAGroupWithOthers) {
  std::vector<Rank> ranks = MakeRanks(1);
  Connect(&ranks, /*waits=*/true);
  std::vector<Rank> others = MakeRanks(1);
  Connect(&others);
  std::vector<Rank> both;
  both.push_back(std::move(ranks[0]));
  both.push_back(std::move(others[0]));
  EXPECT_THAT(
      Text(SubmitTogether(&both, {AllReduce(&both[0]), AllReduce(&both[1])})),
      HasSubstr("and submissions of only one may wait"));
  EXPECT_EQ(TheLastError().code, DEVRT_INVALID_ARGUMENT);
  EXPECT_EQ(Poll(both[0].comm), DEVRT_COMM_READY);
}

// K-C16
TEST_F(NcclWaits, AreCompleteAtTheEndOfAllRanks) {
  std::vector<Rank> ranks = Ready(2);
  ASSERT_EQ(Text(SubmitTogether(&ranks,
                                {AllReduce(&ranks[0]), AllReduce(&ranks[1])})),
            "");
  ASSERT_EQ(Text(ranks[0].Finish()), "");
  EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_PENDING);
  ASSERT_EQ(Text(ranks[1].Finish()), "");
  ASSERT_EQ(Text(WaitReady(CommsOf(ranks))), "");
  for (Rank& rank : ranks) {
    EXPECT_THAT(Text(rank.Submit({AllReduce(&rank)})), HasSubstr("has ended"));
    ASSERT_EQ(Text(rank.Destroy()), "");
    EXPECT_STREQ(fake_nccl_last_call(), "ncclCommDestroy");
  }
  EXPECT_EQ(fake_nccl_live(), 0);
}

// Aborted after each poll of its beginning.
TEST_F(NcclWaits, LeaveNothingOfWhatIsBeingMade) {
  for (int polls = 0; polls < 12; ++polls) {
    std::vector<Rank> ranks = MakeRanks(2, /*waits=*/true);
    fake_nccl_knobs knobs = {};
    knobs.slow = 1;
    Set(knobs);
    const Id id = NewId();
    for (uint32_t i = 0; i < 2; ++i) {
      ASSERT_EQ(Text(Begin(&ranks[i], id, 2, i)), "");
    }
    uint32_t state = 0;
    for (int poll = 0; poll < polls; ++poll) {
      for (Rank& rank : ranks) {
        // A rank that is alone in a step waits for the other one.
        if (poll + 1 == polls && &rank == &ranks[1]) break;
        EXPECT_EQ(
            Text(Call<&devrt_collectives_v0::comm_poll>(rank.comm, &state)),
            "");
      }
    }
    for (Rank& rank : ranks) EXPECT_EQ(Text(rank.Abort()), "");
    EXPECT_EQ(fake_nccl_live(), 0) << polls;
  }
}

}  // namespace
}  // namespace devrt::collectives
