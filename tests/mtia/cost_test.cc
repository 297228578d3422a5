// SPDX-License-Identifier: Apache-2.0
//
// How long operations take in virtual time.
#include <set>
#include <string>
#include <vector>

#include "backends/mtia/engine/collective_cost.h"
#include "devrt/backends/abi/devrt_tensor.h"
#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

class Cost : public EngineTest {
 protected:
  // The durations of the operations so far that have an engine.
  static std::vector<uint64_t> Durations() {
    std::vector<uint64_t> all;
    OK(sim().timeline(
        self(),
        [](void* arg, const devrt_sim_op_v1* op) {
          if (op->engine == DEVRT_SIM_ENGINE_NONE) return;
          static_cast<std::vector<uint64_t>*>(arg)->push_back(op->end_ns -
                                                              op->begin_ns);
        },
        &all));
    return all;
  }
  // The durations of a copy, a fill, a kernel and a declared duration.
  static std::vector<uint64_t> Run(const std::string& config) {
    Reset(config);
    OK(sim().timeline_enable(self(), 1));
    devrt_stream s = NewStream();
    int64_t* const a = NewCell();
    OK(ops().copy_async(self(), s, a, NewCell(), 8, DEVRT_COPY_INFER));
    OK(ops().fill_async(self(), s, a, 1, 8));
    Launch(s, [](const devrt_kernel_context_v0*) {});
    OK(probe().spin(self(), s, 5000));
    Sync(s);
    return Durations();
  }
};

TEST_F(Cost, SmallCopiesAndFillsTakeTheirFixedTime) {
  EXPECT_EQ(Run("kernel=7us,copy=3us"),
            (std::vector<uint64_t>{3000, 3000, 7000, 5000}));
}

TEST_F(Cost, BytesComeOnTop) {
  Reset("copy=3us,local=1GB/s");
  OK(sim().timeline_enable(self(), 1));
  void* block = nullptr;
  OK(ops().alloc(self(), 0, 2000, 0, &block));
  devrt_stream s = NewStream();
  OK(ops().fill_async(self(), s, block, 1, 2000));
  Sync(s);
  EXPECT_EQ(Durations(), std::vector<uint64_t>{5000});
}

// The race detector asks in each creation of a stream.
TEST_F(Cost, AQueryOfANativeStreamTakesNoTime) {
  const auto time = [](bool asks) {
    Reset("strategy=hw,seed=1");
    devrt_stream s = NewStream();
    void* native = nullptr;
    if (asks) OK(ops().stream_native(self(), s, &native));
    uint64_t now = 0;
    OK(sim().now_ns(self(), &now));
    return now;
  };
  EXPECT_EQ(time(true), time(false));
}

TEST_F(Cost, EachSeedButZeroHasDurationsOfItsOwn) {
  const std::vector<uint64_t> usual = Run("copy=3us");
  std::set<std::vector<uint64_t>> all;
  for (int seed = 1; seed <= 10; ++seed) {
    const std::string config = "copy=3us,seed=" + std::to_string(seed);
    const std::vector<uint64_t> durations = Run(config);
    EXPECT_EQ(durations, Run(config));
    for (size_t i = 0; i < 3; ++i) {
      EXPECT_GE(durations[i], usual[i] * 3 / 4);
      EXPECT_LE(durations[i], usual[i] * 5 / 4);
    }
    EXPECT_EQ(durations[3], 5000u);  // what a kernel declares
    all.insert(durations);
    EXPECT_EQ(Run(config + ",jitter=0"), usual);
  }
  EXPECT_EQ(all.size(), 10u);
}

// Which of two kernels of one size ends first depends on the seed.
TEST_F(Cost, SeedsOfHwDifferInTheOrderOfOperations) {
  const auto results = [](const std::string& more) {
    std::set<int64_t> values;
    for (int seed = 0; seed < 20; ++seed) {
      Reset("strategy=hw,seed=" + std::to_string(seed) + more);
      devrt_stream a = NewStream(), b = NewStream();
      int64_t* const cell = NewCell();
      for (int i = 0; i < 4; ++i) {
        MulAdd(a, cell, 2, 1);
        MulAdd(b, cell, 3, 0);
      }
      OK(ops().device_sync(self(), 0));
      values.insert(Peek(cell));
    }
    return values.size();
  };
  EXPECT_GT(results(""), 1u);
  EXPECT_EQ(results(",jitter=0"), 1u);
}

using mtia::CollectiveCost;
using mtia::CollectiveSkew;
using mtia::Communicator;
using mtia::Config;
using mtia::Op;
using mtia::VTime;

// The communicator of one rank on each of the devices.
Communicator OnDevices(const std::vector<uint32_t>& devices) {
  Communicator comm;
  comm.places.resize(devices.size());
  for (size_t r = 0; r < devices.size(); ++r) {
    comm.places[r].device = devices[r];
  }
  return comm;
}

VTime TimeOf(uint32_t op, uint64_t count, Communicator comm) {
  devrt_collective_v0 call = {};
  call.op = op;
  call.dtype = DEVRT_FLOAT32;
  call.count = count;
  return CollectiveCost(call, Config(), &comm);
}

TEST(CollectiveCostTest, ARingForManyBytesAndATreeForFew) {
  const Communicator node = OnDevices({0, 1, 2, 3, 4, 5, 6, 7});
  // 2 GB: 14 steps of 3 us, and twice 7/8 of the bytes at 400 GB/s.
  EXPECT_EQ(TimeOf(DEVRT_COLLECTIVE_ALL_REDUCE, 500'000'000, node),
            14 * 3'000u + 8'750'000u);
  // 8 B: up and down a tree of depth 3.
  EXPECT_EQ(TimeOf(DEVRT_COLLECTIVE_ALL_REDUCE, 2, node), 6 * 3'000u);
  EXPECT_EQ(TimeOf(DEVRT_COLLECTIVE_BROADCAST, 0, node), 3 * 3'000u);
  EXPECT_EQ(TimeOf(DEVRT_COLLECTIVE_ALL_GATHER, 100'000, node),
            7 * 3'000u + 7'000u);
  // One rank moves nothing.
  EXPECT_EQ(TimeOf(DEVRT_COLLECTIVE_ALL_REDUCE, 1'000, OnDevices({3})), 1u);
}

TEST(CollectiveCostTest, BetweenNodesTheBytesPassTheNic) {
  const Communicator near = OnDevices({6, 7});
  const Communicator far = OnDevices({7, 8});
  constexpr uint64_t kMany = 100'000;  // 400 kB
  EXPECT_EQ(TimeOf(DEVRT_COLLECTIVE_SEND, kMany, near), 3'000u + 1'000u);
  EXPECT_EQ(TimeOf(DEVRT_COLLECTIVE_SEND, kMany, far), 3'000u + 8'000u);
}

TEST(CollectiveCostTest, TheSkewIsBoundedAndDependsOnTheSeed) {
  Config config;
  Op op;
  op.index = 5;
  EXPECT_EQ(CollectiveSkew(op, 1, config), 0u);
  config.seed = 7;
  bool differ = false;
  for (uint32_t r = 0; r < 20; ++r) {
    const VTime skew = CollectiveSkew(op, r, config);
    EXPECT_LE(skew, config.collective_skew);
    EXPECT_EQ(skew, CollectiveSkew(op, r, config));
    differ = differ || skew != CollectiveSkew(op, 0, config);
  }
  EXPECT_TRUE(differ);
}

}  // namespace
}  // namespace devrt::test
