// SPDX-License-Identifier: Apache-2.0
//
// The cost model of collectives beside all-reduces of NCCL: calibrated with two
// GPUs, and compared with tables that others have published, of up to 32 GPUs.
// It prints the error of each row.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>

#include "backends/mtia/engine/collective_cost.h"
#include "devrt/backends/abi/devrt_tensor.h"

namespace devrt::mtia {
namespace {

struct Row {
  uint32_t gpus;
  uint64_t bytes;
  double us;
  const char* source;
};

constexpr uint64_t kGiB = uint64_t{1} << 30;
// NCCL 2.28.9 on two H200, out of place, one thread for both ranks: part
// nccl_benchmarks of docs/evidence/results/2026-11-30-5-d9089e42.json.  Its
// bandwidths are times here: 176, 297 and 346 GB/s.  It has 1 GiB in place
// only, called by PyTorch.  Where a table of others does not say how many GPUs
// it is of, the ratio of its two bandwidths does.
constexpr Row kShort = {2, 8 << 10, 14.3, "ours"};
constexpr Row kLong = {2, 8 * kGiB, 24'826, "ours"};
constexpr Row kBandwidths[] = {
    kShort,
    {2, 256 << 10, 21.0, "ours"},
    {2, 8 << 20, 47.7, "ours"},
    {2, 256 << 20, 904, "ours"},
    {2, kGiB, 3329, "ours, in place, by PyTorch"},
    kLong,
    {8, 1 << 10, 16.4, "H20, one machine: deepseek-ai/DeepEP#303"},
    // 368.76 GB/s on the bus, the best of 8 B to 16 GiB, without NVLink SHARP.
    {8, 16 * kGiB, 81'530, "H100, one machine: NVIDIA/nccl-tests#309"},
    {16, 1 << 9, 46.6, "H20, two machines: NVIDIA/nccl#1244"},
    {32, kGiB, 5'398, "four machines: NVIDIA/nccl#1222, 2.19.3"},
    {32, 16 * kGiB, 85'110, "four machines: NVIDIA/nccl#1222, 2.19.3"},
};

// Eight adapters of 400 Gb/s for eight GPUs, which a ring uses all.
Config Calibrated() {
  Config config;
  config.collective_alpha = static_cast<uint64_t>(kShort.us * 1e3 / 2);
  config.collective_link = static_cast<uint64_t>(
      static_cast<double>(kLong.bytes) / (kLong.us - kShort.us) * 1e6);
  config.collective_nic = 8 * uint64_t{50'000'000'000};
  return config;
}

double ModelUs(const Row& row, const Config& config) {
  Communicator comm;
  comm.places.resize(row.gpus);
  for (uint32_t i = 0; i < row.gpus; ++i) comm.places[i].device = i;
  devrt_collective_v0 call = {};
  call.op = DEVRT_COLLECTIVE_ALL_REDUCE;
  call.dtype = DEVRT_FLOAT32;
  call.count = row.bytes / 4;
  return static_cast<double>(CollectiveCost(call, config, &comm)) / 1e3;
}

// From 1 GiB on the model fits within 15 %.  Of some KiB it is too slow: a step
// of NCCL inside of a kernel is shorter than half an all-reduce of two ranks,
// most of which is the host's part.  In between it is too fast, since two GPUs
// reach the rate of their link with 1 GiB and more only.
TEST(CollectiveCost, FitsTablesOfLargeSizes) {
  const Config config = Calibrated();
  std::printf(
      "collective_alpha=%lluns,collective_link=%.0fGB/s,"
      "collective_nic=%.0fGB/s\n%5s %12s %10s %10s %7s\n",
      static_cast<unsigned long long>(config.collective_alpha),
      static_cast<double>(config.collective_link) / 1e9,
      static_cast<double>(config.collective_nic) / 1e9, "GPUs", "bytes",
      "NCCL us", "model us", "error");
  for (const Row& row : kBandwidths) {
    const double us = ModelUs(row, config);
    const double error = us / row.us - 1;
    std::printf("%5u %12llu %10.1f %10.1f %+6.0f%%  %s\n", row.gpus,
                static_cast<unsigned long long>(row.bytes), row.us, us,
                100 * error, row.source);
    if (row.bytes >= kGiB) {
      EXPECT_LT(std::abs(error), 0.15) << row.source;
    }
    EXPECT_LT(us, 4 * row.us) << row.source;
    EXPECT_GT(us, row.us / 4) << row.source;
  }
}

}  // namespace
}  // namespace devrt::mtia
