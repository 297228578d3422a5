// SPDX-License-Identifier: Apache-2.0
//
// Several ranks on one device: which libraries can, and with which settings.
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "tests/collectives/nccl/nccl_fixture.h"

namespace devrt::collectives {
namespace {

// Begins a communicator that may share its device.
class NcclSharedDevice : public NcclTest {
 protected:
  std::string Begin() {
    std::vector<Rank> ranks = MakeRanks(1);
    const Id id = NewId();
    const devrt_comm_options_v0 options = Named("test", true);
    std::string text = Text(Call<&devrt_collectives_v0::comm_begin>(
        0u, 1u, 0u, static_cast<const void*>(id.bytes), id.size, &options,
        &ranks[0].comm));
    code_ = TheLastError().code;
    return text;
  }
  // The refusal of this version of the library.
  void ExpectRefused(const std::string& reason) {
    EXPECT_EQ(Begin(), "several ranks on one device: " + reason);
    EXPECT_EQ(code_, DEVRT_UNIMPLEMENTED);
  }

 private:
  devrt_code code_ = DEVRT_OK;
};

// Runs of their own: a library is loaded once, and tells its version then.
TEST_F(NcclSharedDevice, NeedsAVersion) {
  const char* const version = std::getenv("DEVRT_FAKE_NCCL_VERSION");
  if (version == nullptr) GTEST_SKIP() << "the library has one version here";
  const bool is_new = std::string(version) == "23000";
  EXPECT_EQ(Has(DEVRT_COLLECTIVES_SHARED_DEVICE), is_new);
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  if (is_new) {
    EXPECT_EQ(Begin(), "");
  } else {
    ExpectRefused("NCCL 2.29.99 is too old: 2.30 is needed");
  }
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

TEST_F(NcclSharedDevice, NeedsSettingsOfTheLibrary) {
  if (BackendName() != "cuda") {
    ExpectRefused("RCCL 2.32.3 cannot do that");
    return;
  }
  ExpectRefused("NCCL 2.32.3 needs NCCL_MULTI_RANK_GPU_ENABLE=1");
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  setenv("NCCL_NVLS_ENABLE", "1", 1);
  ExpectRefused("NCCL 2.32.3 needs NCCL_NVLS_ENABLE not to be 1");
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  EXPECT_EQ(Begin(), "");
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
  unsetenv("NCCL_NVLS_ENABLE");
}

// NCCL itself hangs: found with 2.32.3 on one GPU.
TEST_F(NcclSharedDevice, RefusesOneStreamForTwoRanks) {
  if (!Has(DEVRT_COLLECTIVES_SHARED_DEVICE)) GTEST_SKIP() << "it has none";
  setenv("NCCL_MULTI_RANK_GPU_ENABLE", "1", 1);
  const Device device = Must(Devices(BackendName()))[0];
  std::vector<Rank> ranks;
  for (int i = 0; i < 2; ++i) ranks.emplace_back(device);
  const Id id = NewId();
  const devrt_comm_options_v0 options = Named("test", true);
  for (uint32_t i = 0; i < 2; ++i) {
    ASSERT_EQ(Text(Call<&devrt_collectives_v0::comm_begin>(
                  0u, 2u, i, static_cast<const void*>(id.bytes), id.size,
                  &options, &ranks[i].comm)),
              "");
  }
  ASSERT_EQ(Text(WaitReady(CommsOf(ranks))), "");
  std::vector<devrt_collective_v0> ops;
  for (Rank& rank : ranks) {
    ops.push_back(Op(DEVRT_COLLECTIVE_ALL_REDUCE,
                     rank.Upload(std::vector<char>(64, 1)), rank.Allocate(64),
                     64, DEVRT_UINT8));
  }
  // On two streams the fake library cannot run them: it computes on the one
  // engine of the device.
  const devrt_stream own = std::exchange(ranks[1].stream, ranks[0].stream);
  EXPECT_EQ(Text(SubmitTogether(&ranks, ops)),
            "communicator \"test\" (rank 0 of 2, cuda:0) and communicator "
            "\"test\" (rank 1 of 2, cuda:0) have one stream, in which the "
            "second operation begins when the first has ended, which waits for "
            "the second: give each rank of the device a stream");
  ranks[1].stream = own;
  for (Rank& rank : ranks) EXPECT_EQ(Text(rank.Synchronize()), "");
  for (Rank& rank : ranks) EXPECT_EQ(Text(rank.Abort()), "");
  unsetenv("NCCL_MULTI_RANK_GPU_ENABLE");
}

}  // namespace
}  // namespace devrt::collectives
