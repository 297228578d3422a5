// SPDX-License-Identifier: Apache-2.0
//
// The life of the provider's communicators: how they begin, what they refuse,
// how they end (K-C6, K-C8, K-C9, K-C13, K-C16, K-C18).
#include <cuda.h>

#include <thread>

#include "tests/collectives/nccl/nccl_fixture.h"

namespace devrt::collectives {
namespace {

using ::testing::HasSubstr;

class NcclLife : public NcclTest {};

// False for a library without the functions that devrt can do without.
bool IsWhole() { return std::getenv("DEVRT_TEST_ONLY_REQUIRED") == nullptr; }

devrt_collective_v0 AllReduce(Rank* rank, uint64_t count = 4) {
  const void* const src = rank->Upload(std::vector<char>(4 * count, 0));
  return Op(DEVRT_COLLECTIVE_ALL_REDUCE, src, rank->Allocate(4 * count), count,
            DEVRT_FLOAT32);
}

TEST_F(NcclLife, TellsWhatStandsBehindTheTable) {
  devrt_collectives_info_v0 info = {};
  info.struct_size = sizeof info;
  ASSERT_EQ(Text(Call<&devrt_collectives_v0::info>(&info)), "");
  const bool is_nccl = BackendName() == "cuda";
  EXPECT_STREQ(info.provider, is_nccl ? "nccl" : "rccl");
  EXPECT_EQ(info.version, 23203u);
  EXPECT_STREQ(info.text, "2.32.3");
  EXPECT_THAT(info.path, HasSubstr("ccl"));

  constexpr uint32_t kAlways =
      DEVRT_COLLECTIVES_STREAM_ORDERED | DEVRT_COLLECTIVES_ABORT;
  EXPECT_TRUE((TheProvider().table->flags & kAlways) == kAlways);
  // Nothing stands behind a captured collective yet.
  EXPECT_FALSE(Has(DEVRT_COLLECTIVES_CAPTURE));
  EXPECT_EQ(Has(DEVRT_COLLECTIVES_SHARED_DEVICE), is_nccl);
  // A missing function takes its flag away.
  const bool is_whole = IsWhole();
  EXPECT_EQ(Has(DEVRT_COLLECTIVES_SPLIT), is_whole);
  EXPECT_EQ(Has(DEVRT_COLLECTIVES_SHRINK), is_whole);
  EXPECT_EQ(Has(DEVRT_COLLECTIVES_REVOKE), is_whole);
  EXPECT_EQ(Has(DEVRT_COLLECTIVES_REGISTER), is_whole);
}

TEST_F(NcclLife, WithoutAFunctionIsUnimplemented) {
  if (Has(DEVRT_COLLECTIVES_SPLIT)) GTEST_SKIP() << "the library has all";
  std::vector<Rank> ranks = MakeRanks(1);
  Connect(&ranks);
  devrt_comm child = nullptr;
  const devrt_comm_options_v0 options = Named("child");
  EXPECT_THAT(Text(Call<&devrt_collectives_v0::comm_split>(ranks[0].comm, 0, 0,
                                                           &options, &child)),
              HasSubstr("has no ncclCommSplit"));
  EXPECT_EQ(TheLastError().code, DEVRT_UNIMPLEMENTED);
  const uint32_t gone = 1;
  EXPECT_EQ(Code(Call<&devrt_collectives_v0::comm_shrink>(ranks[0].comm, &gone,
                                                          1u, 0u, &child)),
            DEVRT_UNIMPLEMENTED);
  EXPECT_EQ(Code(Call<&devrt_collectives_v0::comm_revoke>(ranks[0].comm)),
            DEVRT_UNIMPLEMENTED);
  void* handle = nullptr;
  EXPECT_EQ(Code(Call<&devrt_collectives_v0::buffer_register>(
                ranks[0].comm, ranks[0].Allocate(4), uint64_t{4}, &handle)),
            DEVRT_UNIMPLEMENTED);
}

TEST_F(NcclLife, BeginsPendingUntilAllRanksHaveCome) {
  std::vector<Rank> ranks = MakeRanks(2);
  const Id id = NewId();
  ASSERT_EQ(Text(Begin(&ranks[0], id, 2, 0)), "");
  EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_PENDING);
  const auto op = AllReduce(&ranks[0]);
  EXPECT_EQ(Text(ranks[0].Submit({op})),
            "communicator \"test\" (rank 0 of 2, " + BackendName() +
                ":0) is pending: poll it until it is ready");
  EXPECT_EQ(TheLastError().code, DEVRT_FAILED_PRECONDITION);
  ASSERT_EQ(Text(Begin(&ranks[1], id, 2, 1)), "");
  EXPECT_EQ(Text(WaitReady(ranks[0].comm)), "");
  EXPECT_EQ(Text(WaitReady(ranks[1].comm)), "");
}

// Nothing is left of a rank that waits in vain.
TEST_F(NcclLife, CanEndBeforeItIsReady) {
  fake_nccl_knobs knobs = {};
  knobs.init_never = 1;
  Set(knobs);
  std::vector<Rank> ranks = MakeRanks(1);
  ASSERT_EQ(Text(Begin(&ranks[0], NewId(), 1, 0)), "");
  EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_PENDING);
  EXPECT_EQ(Text(ranks[0].Abort()), "");
  EXPECT_EQ(fake_nccl_live(), 0);
  EXPECT_EQ(Text(ranks[0].Destroy()), "");
}

TEST_F(NcclLife, RefusesWrongBeginnings) {
  std::vector<Rank> ranks = MakeRanks(1);
  const Id id = NewId();
  const devrt_comm_options_v0 options = Named("test");
  devrt_comm comm = nullptr;
  const auto begin = [&](uint32_t device, uint32_t count, uint32_t rank,
                         uint64_t size) {
    return Text(Call<&devrt_collectives_v0::comm_begin>(
        device, count, rank, static_cast<const void*>(id.bytes), size, &options,
        &comm));
  };
  EXPECT_THAT(begin(99, 1, 0, id.size), HasSubstr("device is 99, expected"));
  EXPECT_THAT(begin(0, 2, 2, id.size), HasSubstr("rank is 2 of 2"));
  EXPECT_THAT(begin(0, 1, 0, 3), HasSubstr("the id has 3 bytes"));
  EXPECT_EQ(TheLastError().code, DEVRT_INVALID_ARGUMENT);
  uint64_t room = 8;
  char bytes[8];
  EXPECT_THAT(Text(Call<&devrt_collectives_v0::unique_id>(
                  static_cast<void*>(bytes), &room)),
              HasSubstr("has 8 bytes, expected 128"));
  EXPECT_EQ(comm, nullptr);
}

// K-C6
TEST_F(NcclLife, RefusesWrongOperationsAndEnqueuesNothing) {
  std::vector<Rank> ranks = MakeRanks(2);
  Connect(&ranks);
  Rank& rank = ranks[0];
  char* const a = static_cast<char*>(rank.Allocate(64));
  char* const b = static_cast<char*>(rank.Allocate(64));
  const devrt_collective_v0 good =
      Op(DEVRT_COLLECTIVE_ALL_REDUCE, a, b, 4, DEVRT_FLOAT32);
  struct Case {
    devrt_collective_v0 op;
    devrt_code code;
    const char* text;
  };
  const auto F = DEVRT_FLOAT32;
  const Case cases[] = {
      {Op(10, a, b, 4, F), DEVRT_INVALID_ARGUMENT, "op is 10, expected"},
      {Op(DEVRT_COLLECTIVE_ALL_REDUCE, a, b, 4, DEVRT_INT16),
       DEVRT_UNIMPLEMENTED, "does not have it for dtype 0:16"},
      {Op(DEVRT_COLLECTIVE_ALL_REDUCE, a, b, 4, DEVRT_BOOL),
       DEVRT_UNIMPLEMENTED, "and reduction 0"},
      {Op(DEVRT_COLLECTIVE_ALL_REDUCE, a, b, 4, F, 7), DEVRT_UNIMPLEMENTED,
       "and reduction 7"},
      {Op(DEVRT_COLLECTIVE_BROADCAST, a, b, 4, F, 0, 2), DEVRT_INVALID_ARGUMENT,
       "the root or peer is 2, expected 0 to 1"},
      {Op(DEVRT_COLLECTIVE_REDUCE, a, b, 4, F, 0, -1), DEVRT_INVALID_ARGUMENT,
       "the root or peer is -1"},
      {Op(DEVRT_COLLECTIVE_SEND, a, nullptr, 4, F, 0, 0),
       DEVRT_INVALID_ARGUMENT, "the peer is this rank itself"},
      {Op(DEVRT_COLLECTIVE_ALL_REDUCE, nullptr, b, 4, F),
       DEVRT_INVALID_ARGUMENT, "src is NULL"},
      {Op(DEVRT_COLLECTIVE_RECV, a, nullptr, 4, F, 0, 1),
       DEVRT_INVALID_ARGUMENT, "dst is NULL"},
      {Op(DEVRT_COLLECTIVE_ALL_REDUCE, a, a + 4, 4, F), DEVRT_INVALID_ARGUMENT,
       "src and dst overlap"},
      {Op(DEVRT_COLLECTIVE_ALL_GATHER, a + 16, a, 4, F), DEVRT_INVALID_ARGUMENT,
       "src and dst overlap"},
      {Op(DEVRT_COLLECTIVE_ALL_TO_ALL, a, a, 4, F), DEVRT_UNIMPLEMENTED,
       "no all-to-all in place"},
      {Op(DEVRT_COLLECTIVE_ALL_REDUCE, a, b, UINT64_MAX / 4, F),
       DEVRT_INVALID_ARGUMENT, "more than addresses can name"},
  };
  Set({});
  for (const Case& c : cases) {
    EXPECT_THAT(Text(rank.Submit({good, c.op})), HasSubstr(c.text));
    EXPECT_EQ(TheLastError().code, c.code) << c.text;
  }
  devrt_collective_v0 small = good;
  small.struct_size = 8;
  EXPECT_THAT(Text(rank.Submit({small})), HasSubstr("struct_size"));
  devrt_submission_v0 none = rank.Submission({});
  none.comm = nullptr;
  EXPECT_THAT(Text(Call<&devrt_collectives_v0::submit>(
                  static_cast<const devrt_submission_v0*>(&none), 1u)),
              HasSubstr("comm is NULL"));
  EXPECT_EQ(fake_nccl_calls(), 0u);
  EXPECT_EQ(Poll(rank.comm), DEVRT_COMM_READY);
}

// A call that the library does not end at once.
TEST_F(NcclLife, IsPendingAfterASlowSubmit) {
  std::vector<Rank> ranks = MakeRanks(1);
  Connect(&ranks);
  fake_nccl_knobs knobs = {};
  knobs.slow = 1;
  Set(knobs);
  const auto op = AllReduce(&ranks[0]);
  for (const bool is_group : {false, true}) {
    const std::vector<devrt_collective_v0> ops(is_group ? 2 : 1, op);
    ASSERT_EQ(Text(ranks[0].Submit(ops)), "");
    EXPECT_THAT(Text(ranks[0].Submit({op})), HasSubstr("is pending"));
    EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_PENDING);
    EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_READY);
  }
  EXPECT_EQ(Text(ranks[0].Submit({op})), "");
}

TEST_F(NcclLife, FinishesWhenAllRanksDo) {
  std::vector<Rank> ranks = MakeRanks(2);
  for (int round = 0; round < 3; ++round) {
    Connect(&ranks);
    for (Rank& rank : ranks) {
      ASSERT_EQ(Text(rank.Submit({AllReduce(&rank)})), "");
    }
    ASSERT_EQ(Text(ranks[0].Finish()), "");
    EXPECT_EQ(Poll(ranks[0].comm), DEVRT_COMM_PENDING);
    ASSERT_EQ(Text(ranks[1].Finish()), "");
    for (Rank& rank : ranks) {
      ASSERT_EQ(Text(WaitReady(rank.comm)), "");
      EXPECT_THAT(Text(rank.Submit({AllReduce(&rank)})),
                  HasSubstr("has ended"));
      EXPECT_EQ(TheLastError().code, DEVRT_FAILED_PRECONDITION);
      ASSERT_EQ(Text(rank.Destroy()), "");
      EXPECT_STREQ(fake_nccl_last_call(), "ncclCommDestroy");
    }
    EXPECT_EQ(fake_nccl_live(), 0);
  }
}

// K-C8
TEST_F(NcclLife, SplitsByColorAndKey) {
  if (!Has(DEVRT_COLLECTIVES_SPLIT)) GTEST_SKIP() << "no ncclCommSplit";
  std::vector<Rank> ranks = MakeRanks(4);
  Connect(&ranks);
  // Rank 3 has no child; ranks 0 and 2 change places.
  constexpr int32_t kColors[] = {7, 0, 7, -1};
  constexpr int32_t kKeys[] = {5, 0, 1, 0};
  constexpr devrt_comm kUnset = nullptr;
  std::vector<devrt_comm> children(4, kUnset);
  const devrt_comm_options_v0 options = Named("child");
  for (uint32_t i = 0; i < 4; ++i) {
    ASSERT_EQ(Text(Call<&devrt_collectives_v0::comm_split>(
                  ranks[i].comm, kColors[i], kKeys[i], &options, &children[i])),
              "");
    if (i == 0) {
      EXPECT_EQ(Poll(children[0]), DEVRT_COMM_PENDING);
      // The library may still write into it.
      EXPECT_THAT(Text(Call<&devrt_collectives_v0::comm_destroy>(children[0])),
                  HasSubstr("the library makes it still"));
      EXPECT_THAT(Text(Call<&devrt_collectives_v0::comm_abort>(children[0])),
                  HasSubstr("cannot be aborted: the library makes it still"));
    }
  }
  EXPECT_EQ(children[3], nullptr);
  for (const Rank& rank : ranks) EXPECT_EQ(Text(WaitReady(rank.comm)), "");
  for (uint32_t i = 0; i < 3; ++i) {
    ASSERT_EQ(Text(WaitReady(children[i])), "");
    // The text of a refusal tells the place.
    const devrt_collective_v0 wrong =
        Op(DEVRT_COLLECTIVE_SEND, nullptr, nullptr, 1, DEVRT_FLOAT32, 0, 99);
    devrt_submission_v0 submission = ranks[i].Submission({});
    submission.comm = children[i];
    submission.op_count = 1;
    submission.ops = &wrong;
    constexpr const char* kPlaces[] = {"(rank 1 of 2,", "(rank 0 of 1,",
                                       "(rank 0 of 2,"};
    EXPECT_THAT(Text(Call<&devrt_collectives_v0::submit>(
                    static_cast<const devrt_submission_v0*>(&submission), 1u)),
                HasSubstr(std::string("communicator \"child\" ") + kPlaces[i]));
    EXPECT_EQ(Text(Call<&devrt_collectives_v0::comm_destroy>(children[i])), "");
  }
  EXPECT_THAT(Text(Call<&devrt_collectives_v0::comm_split>(
                  ranks[0].comm, -2, 0, &options, &children[0])),
              HasSubstr("color is -2"));
}

// Overwrites what returned functions have left on the stack.
[[gnu::noinline]] void OverwriteStack() {
  volatile char bytes[1 << 16];
  for (volatile char& byte : bytes) byte = 0x55;
}

// The library writes that a rank has no child when the others have come.
TEST_F(NcclLife, KeepsThePlaceOfNoChild) {
  if (!Has(DEVRT_COLLECTIVES_SPLIT)) GTEST_SKIP() << "no ncclCommSplit";
  std::vector<Rank> ranks = MakeRanks(2);
  Connect(&ranks);
  const devrt_comm_options_v0 options = Named("child");
  devrt_comm children[2] = {};
  const auto split = [&](int i, int32_t color) {
    return Text(Call<&devrt_collectives_v0::comm_split>(
        ranks[i].comm, color, 0, &options, &children[i]));
  };
  EXPECT_EQ(split(0, -1), "");
  OverwriteStack();
  std::thread([&] { EXPECT_EQ(split(1, 0), ""); }).join();
  for (const Rank& rank : ranks) EXPECT_EQ(Text(WaitReady(rank.comm)), "");
  EXPECT_EQ(children[0], nullptr);
  EXPECT_EQ(Text(WaitReady(children[1])), "");
  EXPECT_EQ(Text(Call<&devrt_collectives_v0::comm_destroy>(children[1])), "");
}

// K-C13
TEST_F(NcclLife, ShrinksAfterARankIsLost) {
  if (!Has(DEVRT_COLLECTIVES_SHRINK)) GTEST_SKIP() << "no ncclCommShrink";
  std::vector<Rank> ranks = MakeRanks(3);
  Connect(&ranks);
  // Rank 1 does not come: the others' streams are held.
  std::vector<void*> outputs;
  for (uint32_t i : {0u, 2u}) {
    ASSERT_EQ(Text(ranks[i].Submit({AllReduce(&ranks[i])})), "");
  }
  const uint32_t gone[] = {1};
  devrt_comm children[3] = {};
  for (uint32_t i : {0u, 2u}) {
    ASSERT_EQ(Text(Call<&devrt_collectives_v0::comm_shrink>(
                  ranks[i].comm, &gone[0], 1u, 1u, &children[i])),
              "");
    EXPECT_THAT(Text(ranks[i].Submit({AllReduce(&ranks[i])})),
                HasSubstr("failed: it was shrunk"));
    EXPECT_EQ(TheLastError().code, DEVRT_ABORTED);
  }
  for (uint32_t i : {0u, 2u}) {
    Rank& rank = ranks[i];
    ASSERT_EQ(Text(WaitReady(children[i])), "");
    EXPECT_EQ(Text(rank.Synchronize()), "");
    EXPECT_EQ(Text(rank.Destroy()), "");
    rank.comm = children[i];
    const float one = static_cast<float>(i + 1);
    std::vector<char> bytes(sizeof one);
    std::memcpy(bytes.data(), &one, sizeof one);
    outputs.push_back(rank.Allocate(sizeof one));
    ASSERT_EQ(
        Text(rank.Submit({Op(DEVRT_COLLECTIVE_ALL_REDUCE, rank.Upload(bytes),
                             outputs.back(), 1, DEVRT_FLOAT32)})),
        "");
  }
  for (uint32_t k = 0; k < 2; ++k) {
    float sum = 0;
    std::memcpy(&sum, ranks[2 * k].Download(outputs[k], sizeof sum).data(),
                sizeof sum);
    EXPECT_EQ(sum, 4.0F);
  }
  for (const std::vector<uint32_t>& wrong :
       {std::vector<uint32_t>{0}, {2}, {1, 1}}) {
    devrt_comm child = nullptr;
    EXPECT_THAT(Text(Call<&devrt_collectives_v0::comm_shrink>(
                    ranks[0].comm, wrong.data(),
                    static_cast<uint32_t>(wrong.size()), 0u, &child)),
                HasSubstr("expected other ranks of communicator"));
  }
}

TEST_F(NcclLife, SplitsAfterARevoke) {
  if (!Has(DEVRT_COLLECTIVES_REVOKE)) GTEST_SKIP() << "no ncclCommRevoke";
  std::vector<Rank> ranks = MakeRanks(2);
  Connect(&ranks);
  ASSERT_EQ(Text(ranks[0].Submit({AllReduce(&ranks[0])})), "");
  devrt_comm children[2] = {};
  const devrt_comm_options_v0 options = Named("child");
  for (Rank& rank : ranks) {
    ASSERT_EQ(Text(Call<&devrt_collectives_v0::comm_revoke>(rank.comm)), "");
    EXPECT_THAT(Text(rank.Submit({AllReduce(&rank)})),
                HasSubstr("was revoked"));
    EXPECT_EQ(TheLastError().code, DEVRT_ABORTED);
    EXPECT_EQ(Poll(rank.comm), DEVRT_COMM_READY);
    EXPECT_EQ(Code(rank.Submit({AllReduce(&rank)})), DEVRT_ABORTED);
    EXPECT_EQ(Code(rank.Finish()), DEVRT_ABORTED);
    EXPECT_EQ(Text(rank.Synchronize()), "");
  }
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(Text(Call<&devrt_collectives_v0::comm_split>(
                  ranks[i].comm, 0, 0, &options, &children[i])),
              "");
  }
  for (devrt_comm child : children) {
    EXPECT_EQ(Text(WaitReady(child)), "");
    EXPECT_EQ(Text(Call<&devrt_collectives_v0::comm_destroy>(child)), "");
  }
}

TEST_F(NcclLife, RegistersBuffers) {
  if (!Has(DEVRT_COLLECTIVES_REGISTER)) GTEST_SKIP() << "no ncclCommRegister";
  std::vector<Rank> ranks = MakeRanks(1);
  Connect(&ranks);
  void* handle = nullptr;
  ASSERT_EQ(Text(Call<&devrt_collectives_v0::buffer_register>(
                ranks[0].comm, ranks[0].Allocate(64), uint64_t{64}, &handle)),
            "");
  EXPECT_NE(handle, nullptr);
  EXPECT_EQ(Text(Call<&devrt_collectives_v0::buffer_deregister>(ranks[0].comm,
                                                                handle)),
            "");
}

TEST_F(NcclLife, RefusesTwoRanksOnOneDevice) {
  const std::vector<Device> devices = Must(Devices(BackendName()));
  std::vector<Rank> ranks;
  ranks.emplace_back(devices[0]);
  ranks.emplace_back(devices[0]);
  const Id id = NewId();
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(Text(Begin(&ranks[i], id, 2, i)), "");
  }
  EXPECT_THAT(Text(WaitReady(ranks[0].comm)),
              HasSubstr(IsWhole() ? "some error: Duplicate GPU detected (nccl"
                                  : "some error (nccl"));
  EXPECT_EQ(TheLastError().code, DEVRT_FAILED_PRECONDITION);
  EXPECT_EQ(TheLastError().name, "ncclInvalidUsage");
}

TEST_F(NcclLife, IsForItsOwnBackend) {
  const Backend backend = Must(GetBackend(BackendName()));
  EXPECT_STATUS((BackendName() == "cuda" ? internal::OpenRccl(backend)
                                         : internal::OpenNccl(backend))
                    .status(),
                kInvalidArgument, "not of " + BackendName());
}

// ---- Contexts (K-C18, C103) -------------------------------------------------

CUcontext Current() {
  CUcontext context = nullptr;
  EXPECT_EQ(cuCtxGetCurrent(&context), CUDA_SUCCESS);
  return context;
}

// Every call, and some that fail.
void UseEverything() {
  std::vector<Rank> ranks = MakeRanks(2);
  const CUcontext before = Current();
  const auto check = [&](const char* what) {
    EXPECT_EQ(Current(), before) << what;
  };
  Connect(&ranks);
  check("comm_begin");
  for (Rank& rank : ranks) {
    EXPECT_EQ(Text(rank.Submit({AllReduce(&rank)})), "");
  }
  check("submit");
  EXPECT_NE(Text(ranks[0].Submit({Op(99, nullptr, nullptr, 1, 0)})), "");
  check("a submit that fails");
  void* handle = nullptr;
  (void)Code(Call<&devrt_collectives_v0::buffer_register>(
      ranks[0].comm, ranks[0].Allocate(4), uint64_t{4}, &handle));
  check("buffer_register");
  if (handle != nullptr) {
    (void)Code(
        Call<&devrt_collectives_v0::buffer_deregister>(ranks[0].comm, handle));
    check("buffer_deregister");
  }
  const devrt_comm_options_v0 options = Named("child");
  devrt_comm children[2] = {};
  for (uint32_t i = 0; i < 2; ++i) {
    (void)Code(Call<&devrt_collectives_v0::comm_split>(ranks[i].comm, 0, 0,
                                                       &options, &children[i]));
  }
  check("comm_split");
  for (devrt_comm child : children) {
    if (child == nullptr) continue;
    EXPECT_EQ(Text(WaitReady(child)), "");
    EXPECT_EQ(Text(Call<&devrt_collectives_v0::comm_destroy>(child)), "");
    check("comm_destroy");
  }
  for (Rank& rank : ranks) EXPECT_EQ(Text(WaitReady(rank.comm)), "");
  check("comm_poll");
  EXPECT_EQ(Text(ranks[0].Finish()), "");
  check("comm_finish");
  if (Has(DEVRT_COLLECTIVES_REVOKE)) {
    EXPECT_EQ(Text(Call<&devrt_collectives_v0::comm_revoke>(ranks[1].comm)),
              "");
    check("comm_revoke");
  }
  EXPECT_EQ(Text(ranks[1].Abort()), "");
  check("comm_abort");
}

TEST_F(NcclLife, RestoresTheContext) {
  if (BackendName() != "cuda") {
    GTEST_SKIP() << "HIP keeps a device current, and no context";
  }
  for (const int drops : {0, 1}) {
    fake_nccl_knobs knobs = {};
    knobs.drops_context = drops;
    Set(knobs);
    ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
    UseEverything();
    EXPECT_EQ(Current(), nullptr);
    // That of a device that has no rank.
    CUcontext other = nullptr;
    ASSERT_EQ(cuDevicePrimaryCtxRetain(&other, 3), CUDA_SUCCESS);
    ASSERT_EQ(cuCtxSetCurrent(other), CUDA_SUCCESS);
    UseEverything();
    EXPECT_EQ(Current(), other);
    ASSERT_EQ(cuCtxSetCurrent(nullptr), CUDA_SUCCESS);
    ASSERT_EQ(cuDevicePrimaryCtxRelease(3), CUDA_SUCCESS);
  }
}

}  // namespace
}  // namespace devrt::collectives
