// SPDX-License-Identifier: Apache-2.0
//
// The provider of NCCL on GPUs: one rank on each of the first one, two or four,
// in one process.  Skipped without a GPU or without a libnccl.so.2, which
// DEVRT_NCCL_LIBRARY can name.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "tests/collectives/nccl/nccl_values.h"
#include "tests/hardware/cuda_test.h"

namespace devrt::hardware {
namespace {

using namespace devrt::collectives;  // NOLINT: the fixture of the provider

class HardwareNccl : public CudaTest,
                     public ::testing::WithParamInterface<uint32_t> {
 protected:
  void SetUp() override {
    CudaTest::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const auto provider =
        collectives::internal::OpenNccl(Must(GetBackend("cuda")));
    if (absl::IsUnavailable(provider.status())) {
      GTEST_SKIP() << provider.status();
    }
    ASSERT_OK(provider);
    if (devices.size() < GetParam()) {
      GTEST_SKIP() << "this machine has " << devices.size() << " GPUs";
    }
    devrt_collectives_info_v0 info = {};
    info.struct_size = sizeof info;
    ASSERT_EQ(Text(Call<&devrt_collectives_v0::info>(&info)), "");
    std::printf("NCCL %s from %s, flags %u\n", info.text, info.path,
                provider->table->flags);
  }
  std::vector<Rank> Ranks() { return MakeRanks(GetParam()); }
  static double MillisecondsSince(std::chrono::steady_clock::time_point begin) {
    return std::chrono::duration<double, std::milli>(
               std::chrono::steady_clock::now() - begin)
        .count();
  }
};

TEST_P(HardwareNccl, HasTheValuesOfTheDefinitions) {
  std::vector<Rank> ranks = Ranks();
  Connect(&ranks);
  CheckAllDtypes(&ranks);
}

// Work before and behind the operation on its stream, without a wait between.
TEST_P(HardwareNccl, KeepsTheOrderOfTheStream) {
  std::vector<Rank> ranks = Ranks();
  Connect(&ranks);
  constexpr uint64_t kBytes = 16 << 20;
  std::vector<void*> outputs;
  for (Rank& rank : ranks) {
    const void* const src = rank.Upload(std::vector<char>(kBytes, 1));
    outputs.push_back(rank.Allocate(kBytes));
    ASSERT_EQ(Text(rank.Submit({Op(DEVRT_COLLECTIVE_ALL_REDUCE, src,
                                   outputs.back(), kBytes, DEVRT_UINT8)})),
              "");
  }
  for (Rank& rank : ranks) ASSERT_EQ(Text(WaitReady(rank.comm)), "");
  const auto sum = static_cast<char>(ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ(ranks[i].Download(outputs[i], kBytes),
              std::vector<char>(kBytes, sum));
  }
}

// K-C2: the last element is behind what 32 bits can count.
TEST_P(HardwareNccl, TakesMoreElementsThan31Bits) {
  constexpr uint64_t kElements = (uint64_t{1} << 31) + 1;
  std::vector<Rank> ranks = Ranks();
  Connect(&ranks);
  size_t total = 0;
  DRIVER_OK(DRIVER_CALL(cuDeviceTotalMem)(&total, 0));
  if (total < 4 * kElements) GTEST_SKIP() << "takes devices of 8 GiB";
  std::vector<char*> buffers;
  for (Rank& rank : ranks) {
    buffers.push_back(static_cast<char*>(rank.Allocate(kElements)));
    ASSERT_EQ(Text(rank.Fill(buffers.back(), 3, kElements)), "");
    ASSERT_EQ(Text(rank.Submit({Op(DEVRT_COLLECTIVE_ALL_REDUCE, buffers.back(),
                                   buffers.back(), kElements, DEVRT_UINT8)})),
              "");
  }
  for (Rank& rank : ranks) ASSERT_EQ(Text(WaitReady(rank.comm)), "");
  const auto sum = static_cast<char>(3 * ranks.size());
  for (size_t i = 0; i < ranks.size(); ++i) {
    EXPECT_EQ(ranks[i].Download(buffers[i] + kElements - 2, 2),
              std::vector<char>(2, sum));
  }
}

TEST_P(HardwareNccl, RestoresTheContext) {
  for (const bool has_context : {false, true}) {
    DRIVER_OK(DRIVER_CALL(cuCtxSetCurrent)(nullptr));
    if (has_context) NewContext(0);  // and makes it current
    const CUcontext before = CurrentContext();
    {
      std::vector<Rank> ranks = Ranks();
      Connect(&ranks);
      EXPECT_EQ(CurrentContext(), before) << "comm_begin, comm_poll";
      CheckOp<float>(&ranks, DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_FLOAT32, 0);
      EXPECT_EQ(CurrentContext(), before) << "submit";
      EXPECT_NE(Text(ranks[0].Submit({Op(99, nullptr, nullptr, 1, 0)})), "");
      EXPECT_EQ(CurrentContext(), before) << "a submit that is refused";
      for (Rank& rank : ranks) ASSERT_EQ(Text(rank.Finish()), "");
      for (Rank& rank : ranks) ASSERT_EQ(Text(WaitReady(rank.comm)), "");
      EXPECT_EQ(CurrentContext(), before) << "comm_finish";
    }
    EXPECT_EQ(CurrentContext(), before) << "comm_destroy";
  }
  DRIVER_OK(DRIVER_CALL(cuCtxSetCurrent)(nullptr));
}

// A rank whose peers do not come, where there are any.
TEST_P(HardwareNccl, AbortEndsAWait) {
  std::vector<Rank> ranks = Ranks();
  Connect(&ranks);
  const void* const src = ranks[0].Upload(std::vector<char>(64, 1));
  ASSERT_EQ(Text(ranks[0].Submit({Op(DEVRT_COLLECTIVE_ALL_REDUCE, src,
                                     ranks[0].Allocate(64), 64, DEVRT_UINT8)})),
            "");
  std::atomic<bool> waits{false};
  std::thread waiter([&] {
    waits = true;
    EXPECT_EQ(Text(ranks[0].Synchronize()), "");
  });
  while (!waits) std::this_thread::yield();
  for (Rank& rank : ranks) EXPECT_EQ(Text(rank.Abort()), "");
  waiter.join();
  for (Rank& rank : ranks) ASSERT_EQ(Text(rank.Destroy()), "");
  // Another communicator of the devices works.
  Connect(&ranks);
  CheckOp<float>(&ranks, DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_FLOAT32, 0);
}

TEST_P(HardwareNccl, SplitsIntoReadyChildren) {
  if (!Has(DEVRT_COLLECTIVES_SPLIT)) GTEST_SKIP() << "no ncclCommSplit";
  std::vector<Rank> ranks = Ranks();
  Connect(&ranks);
  const devrt_comm_options_v0 options = Named("child");
  std::vector<devrt_comm> children(ranks.size(), nullptr);
  for (size_t i = 0; i < ranks.size(); ++i) {
    ASSERT_EQ(
        Text(Call<&devrt_collectives_v0::comm_split>(
            ranks[i].comm, 0, static_cast<int32_t>(i), &options, &children[i])),
        "");
  }
  for (Rank& rank : ranks) EXPECT_EQ(Text(WaitReady(rank.comm)), "");
  for (devrt_comm child : children) ASSERT_EQ(Text(WaitReady(child)), "");
  std::vector<devrt_comm> parents;
  for (size_t i = 0; i < ranks.size(); ++i) {
    parents.push_back(std::exchange(ranks[i].comm, children[i]));
  }
  CheckOp<float>(&ranks, DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_FLOAT32, 0);
  for (Rank& rank : ranks) EXPECT_EQ(Text(rank.Destroy()), "");
  for (size_t i = 0; i < ranks.size(); ++i) ranks[i].comm = parents[i];
}

// ---- Submissions that may wait for other ranks ------------------------------

TEST_P(HardwareNccl, HasTheValuesIfSubmissionsMayWait) {
  if (!Has(DEVRT_COLLECTIVES_SPLIT)) GTEST_SKIP() << "no ncclCommSplit";
  std::vector<Rank> ranks = Ranks();
  Connect(&ranks, /*waits=*/true);
  CheckAllDtypes(&ranks);
  for (Rank& rank : ranks) ASSERT_EQ(Text(rank.Finish()), "");
  ASSERT_EQ(Text(WaitReady(CommsOf(ranks))), "");
}

// Three native communicators of a rank stand against one (decision 43).  The
// first round loads what the library needs once.
TEST_P(HardwareNccl, PrintsWhatTheirCommunicatorsCost) {
  if (!Has(DEVRT_COLLECTIVES_SPLIT)) GTEST_SKIP() << "no ncclCommSplit";
  const auto free_mib = [this] {
    return static_cast<double>(Must(devices[0].GetMemoryInfo()).free_bytes) /
           (1 << 20);
  };
  for (int round = 0; round < 3; ++round) {
    for (const bool waits : {false, true}) {
      std::vector<Rank> ranks = Ranks();
      const double before = free_mib();
      const auto begin = std::chrono::steady_clock::now();
      Connect(&ranks, waits);
      const double took = MillisecondsSince(begin);
      const double made = free_mib();
      CheckOp<float>(&ranks, DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_FLOAT32, 0);
      std::printf(
          "%zu ranks whose submissions %s: made in %.0f ms, device 0 has %.0f "
          "MiB less, and %.0f MiB after the first operation\n",
          ranks.size(), waits ? "may wait" : "do not wait", took, before - made,
          before - free_mib());
      for (Rank& rank : ranks) ASSERT_EQ(Text(rank.Finish()), "");
      ASSERT_EQ(Text(WaitReady(CommsOf(ranks))), "");
    }
  }
}

// The first submission connects the ranks, of which one never comes.
TEST_P(HardwareNccl, AbortEndsASubmission) {
  if (!Has(DEVRT_COLLECTIVES_SPLIT)) GTEST_SKIP() << "no ncclCommSplit";
  std::vector<Rank> ranks = Ranks();
  for (int round = 0; round < 3; ++round) {
    Connect(&ranks, /*waits=*/true);
    const void* const src = ranks[0].Upload(std::vector<char>(64, 1));
    void* const dst = ranks[0].Allocate(64);
    std::atomic<bool> is_done{false};
    std::string text;
    std::thread submitter([&] {
      text = Text(ranks[0].Submit(
          {Op(DEVRT_COLLECTIVE_ALL_REDUCE, src, dst, 64, DEVRT_UINT8)}));
      is_done = true;
    });
    auto begin = std::chrono::steady_clock::now();
    while (!is_done && MillisecondsSince(begin) < 500) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    const bool waited = !is_done;
    begin = std::chrono::steady_clock::now();
    EXPECT_EQ(Text(ranks[0].Abort()), "");
    submitter.join();
    const double took = MillisecondsSince(begin);
    std::printf("the submission %s; its abort took %.0f ms; \"%s\"\n",
                waited ? "waited" : "did not wait", took, text.c_str());
    // A rank alone waits for nobody.  Its abort then frees the library's
    // communicator, for which NCCL 2.28 took 1.9 s.
    if (waited && ranks.size() > 1) {
      EXPECT_LT(took, 1000);
      EXPECT_NE(text, "");
    }
    for (size_t i = 1; i < ranks.size(); ++i) {
      EXPECT_EQ(Text(ranks[i].Abort()), "");
    }
    EXPECT_EQ(Text(ranks[0].Synchronize()), "");
    for (Rank& rank : ranks) ASSERT_EQ(Text(rank.Destroy()), "");
  }
  Connect(&ranks, /*waits=*/true);
  CheckOp<float>(&ranks, DEVRT_COLLECTIVE_ALL_REDUCE, DEVRT_FLOAT32, 0);
}

INSTANTIATE_TEST_SUITE_P(Ranks, HardwareNccl, ::testing::Values(1u, 2u, 4u),
                         [](const ::testing::TestParamInfo<uint32_t>& param) {
                           return "of_" + std::to_string(param.param);
                         });

}  // namespace
}  // namespace devrt::hardware
