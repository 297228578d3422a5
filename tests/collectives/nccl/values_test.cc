// SPDX-License-Identifier: Apache-2.0
//
// Results of the provider's operations, for every dtype and reduction that it
// says it has (K-C1, K-C2, K-C3, K-C5).
#include <algorithm>
#include <cstdint>

#include "tests/collectives/nccl/nccl_values.h"

namespace devrt::collectives {
namespace {

constexpr uint32_t kRanks = 3;

class NcclValues : public NcclTest {};

TEST_F(NcclValues, AreThoseOfTheDefinitions) {
  std::vector<Rank> ranks = MakeRanks(kRanks);
  Connect(&ranks);
  CheckAllDtypes(&ranks);
}

TEST_F(NcclValues, AreForTheDtypesOfTheLibrary) {
  const bool is_nccl = BackendName() == "cuda";
  for (uint32_t op : {DEVRT_COLLECTIVE_ALL_GATHER, DEVRT_COLLECTIVE_SEND}) {
    EXPECT_TRUE(Supports(op, DEVRT_BOOL, 0));
    EXPECT_TRUE(Supports(op, DEVRT_FLOAT16, 0));
    EXPECT_TRUE(Supports(op, DEVRT_BFLOAT16, 0));
    EXPECT_EQ(Supports(op, DEVRT_FLOAT8_E4M3FN, 0), is_nccl);
    EXPECT_EQ(Supports(op, DEVRT_FLOAT8_E5M2, 0), is_nccl);
    EXPECT_FALSE(Supports(op, DEVRT_INT16, 0));
    EXPECT_FALSE(Supports(op, DEVRT_COMPLEX64, 0));
  }
  constexpr uint32_t kReduces = DEVRT_COLLECTIVE_ALL_REDUCE;
  EXPECT_FALSE(Supports(kReduces, DEVRT_BOOL, DEVRT_COLLECTIVE_SUM));
  EXPECT_FALSE(Supports(kReduces, DEVRT_BOOL, DEVRT_COLLECTIVE_AVG));
  EXPECT_TRUE(Supports(kReduces, DEVRT_BOOL, DEVRT_COLLECTIVE_MAX));
  EXPECT_TRUE(Supports(kReduces, DEVRT_FLOAT16, DEVRT_COLLECTIVE_AVG));
  EXPECT_FALSE(Supports(kReduces, DEVRT_FLOAT32, 5));
  EXPECT_FALSE(Supports(DEVRT_COLLECTIVE_COUNT, DEVRT_FLOAT32, 0));
}

TEST_F(NcclValues, AreAlikeInPlace) {
  std::vector<Rank> ranks = MakeRanks(kRanks);
  Connect(&ranks);
  for (uint32_t op : {DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_COLLECTIVE_REDUCE,
                      DEVRT_COLLECTIVE_BROADCAST, DEVRT_COLLECTIVE_ALL_GATHER,
                      DEVRT_COLLECTIVE_REDUCE_SCATTER, DEVRT_COLLECTIVE_GATHER,
                      DEVRT_COLLECTIVE_SCATTER}) {
    std::vector<int32_t*> outputs;
    for (uint32_t i = 0; i < kRanks; ++i) {
      // The input lies where the operation in place has it.
      std::vector<int32_t> all(kRanks * kCount, -1);
      const bool writes_parts =
          op == DEVRT_COLLECTIVE_ALL_GATHER || op == DEVRT_COLLECTIVE_GATHER;
      const uint64_t own = i * kCount;
      const auto input = Input<int32_t>(i, InputCount(op, kRanks));
      std::copy(
          input.begin(), input.end(),
          all.begin() + static_cast<std::ptrdiff_t>(writes_parts ? own : 0));
      auto* const base = static_cast<int32_t*>(ranks[i].Upload(Bytes(all)));
      const bool reads_parts = op == DEVRT_COLLECTIVE_REDUCE_SCATTER ||
                               op == DEVRT_COLLECTIVE_SCATTER;
      int32_t* const dst = reads_parts ? base + own : base;
      outputs.push_back(dst);
      ASSERT_EQ(Text(ranks[i].Submit({Op(op, writes_parts ? base + own : base,
                                         dst, kCount, DEVRT_INT32, 0, 1)})),
                "");
    }
    for (uint32_t i = 0; i < kRanks; ++i) {
      const auto expected = Bytes(Expected<int32_t>(op, 0, i, 1, kRanks));
      EXPECT_EQ(ranks[i].Download(outputs[i], expected.size()), expected)
          << "op " << op << " rank " << i;
    }
  }
}

// Sends and receives of one group complete in whatever order they stand.
TEST_F(NcclValues, OfAGroupDoNotWaitForEachOther) {
  std::vector<Rank> ranks = MakeRanks(2);
  Connect(&ranks);
  std::vector<void*> got;
  std::vector<std::vector<devrt_collective_v0>> ops(2);
  for (uint32_t i = 0; i < 2; ++i) {
    const auto peer = static_cast<int32_t>(1 - i);
    const void* const mine = ranks[i].Upload(Bytes(Input<float>(i, kCount)));
    got.push_back(ranks[i].Allocate(kCount * sizeof(float)));
    const auto send = Op(DEVRT_COLLECTIVE_SEND, mine, nullptr, kCount,
                         DEVRT_FLOAT32, 0, peer);
    const auto receive = Op(DEVRT_COLLECTIVE_RECV, nullptr, got[i], kCount,
                            DEVRT_FLOAT32, 0, peer);
    ops[i] = {send, receive};
    if (i == 1) std::swap(ops[i][0], ops[i][1]);
  }
  // One call for both communicators.
  const devrt_submission_v0 both[] = {ranks[0].Submission(ops[0]),
                                      ranks[1].Submission(ops[1])};
  ASSERT_EQ(Text(Call<&devrt_collectives_v0::submit>(&both[0], 2u)), "");
  for (uint32_t i = 0; i < 2; ++i) {
    const auto expected = Bytes(Input<float>(1 - i, kCount));
    EXPECT_EQ(ranks[i].Download(got[i], expected.size()), expected);
  }
}

TEST_F(NcclValues, OfSixteenOperationsAreInOneNativeGroup) {
  std::vector<Rank> ranks = MakeRanks(2);
  Connect(&ranks);
  std::vector<std::vector<void*>> outputs(2);
  for (uint32_t i = 0; i < 2; ++i) {
    std::vector<devrt_collective_v0> ops;
    for (int k = 0; k < 16; ++k) {
      const void* const src = ranks[i].Upload(Bytes(Input<float>(i, kCount)));
      outputs[i].push_back(ranks[i].Allocate(kCount * sizeof(float)));
      ops.push_back(Op(DEVRT_COLLECTIVE_BROADCAST, src, outputs[i].back(),
                       kCount, DEVRT_FLOAT32, 0, k % 2));
    }
    Set({});
    ASSERT_EQ(Text(ranks[i].Submit(ops)), "");
    EXPECT_EQ(fake_nccl_calls(), 18u);
  }
  for (uint32_t i = 0; i < 2; ++i) {
    for (uint32_t k = 0; k < 16; ++k) {
      const auto expected = Bytes(Input<float>(k % 2, kCount));
      EXPECT_EQ(ranks[i].Download(outputs[i][k], expected.size()), expected);
    }
  }
}

// A group of two ranks and, on other devices, of communicators that have one
// rank: the fake requires their device to be current.
TEST_F(NcclValues, OfAGroupOnSeveralDevices) {
  for (const bool alone_first : {false, true}) {
    std::vector<Rank> ranks = MakeRanks(4);
    const uint32_t alone[] = {alone_first ? 0u : 1u, 3};
    std::vector<uint32_t> number(4, 0);
    const Id id = NewId();
    uint32_t met = 0;
    for (uint32_t i = 0; i < 4; ++i) {
      const bool is_alone = i == alone[0] || i == alone[1];
      number[i] = is_alone ? 0 : met++;
      ASSERT_EQ(Text(Begin(&ranks[i], is_alone ? NewId() : id, is_alone ? 1 : 2,
                           number[i])),
                "");
    }
    ASSERT_EQ(Text(WaitReady(CommsOf(ranks))), "");
    std::vector<devrt_collective_v0> ops;
    std::vector<void*> got;
    for (uint32_t i = 0; i < 4; ++i) {
      const void* const mine =
          ranks[i].Upload(Bytes(Input<float>(number[i], kCount)));
      got.push_back(ranks[i].Allocate(kCount * sizeof(float)));
      ops.push_back(Op(DEVRT_COLLECTIVE_ALL_REDUCE, mine, got[i], kCount,
                       DEVRT_FLOAT32, DEVRT_COLLECTIVE_SUM));
    }
    ASSERT_EQ(Text(SubmitTogether(&ranks, ops)), "");
    for (uint32_t i = 0; i < 4; ++i) {
      const bool is_alone = i == alone[0] || i == alone[1];
      const auto expected =
          Bytes(Expected<float>(DEVRT_COLLECTIVE_ALL_REDUCE,
                                DEVRT_COLLECTIVE_SUM, 0, 0, is_alone ? 1 : 2));
      EXPECT_EQ(ranks[i].Download(got[i], expected.size()), expected) << i;
    }
  }
}

// The handle of a default stream is the same number on each device: the fake
// requires the device to be current, so that NCCL asks the right stream whether
// it captures.
TEST_F(NcclValues, OfAGroupOnDefaultStreams) {
  for (const uint32_t kind : {DEVRT_STREAM_LEGACY, DEVRT_STREAM_PER_THREAD}) {
    std::vector<Rank> ranks = MakeRanks(3);
    Connect(&ranks);
    std::vector<devrt_collective_v0> ops;
    std::vector<void*> got;
    for (uint32_t i = 0; i < 3; ++i) {
      const void* const mine = ranks[i].Upload(Bytes(Input<float>(i, kCount)));
      ASSERT_EQ(Text(ranks[i].Synchronize()), "");
      got.push_back(ranks[i].Allocate(kCount * sizeof(float)));
      ops.push_back(Op(DEVRT_COLLECTIVE_ALL_REDUCE, mine, got[i], kCount,
                       DEVRT_FLOAT32, DEVRT_COLLECTIVE_SUM));
    }
    std::vector<devrt_stream> own;
    for (Rank& rank : ranks) {
      own.push_back(std::exchange(rank.stream, rank.MakeStream(kind)));
    }
    EXPECT_EQ(Text(SubmitTogether(&ranks, ops)), "");
    for (uint32_t i = 0; i < 3; ++i) {
      EXPECT_EQ(Text(ranks[i].Synchronize()), "");
      ranks[i].stream = own[i];
      const auto expected = Bytes(Expected<float>(
          DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_COLLECTIVE_SUM, 0, 0, 3));
      EXPECT_EQ(ranks[i].Download(got[i], expected.size()), expected) << i;
    }
  }
}

TEST_F(NcclValues, OfNoElementsNeedNoCall) {
  std::vector<Rank> ranks = MakeRanks(2);
  Connect(&ranks);
  Set({});
  for (uint32_t op = 0; op < DEVRT_COLLECTIVE_COUNT; ++op) {
    ASSERT_EQ(Text(ranks[0].Submit(
                  {Op(op, nullptr, nullptr, 0, DEVRT_FLOAT32, 0, 1)})),
              "");
  }
  EXPECT_EQ(fake_nccl_calls(), 0u);
  EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_READY);
}

}  // namespace
}  // namespace devrt::collectives
