// SPDX-License-Identifier: Apache-2.0
//
// The key `faults`: what its rules hit, and that a token repeats them.
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class FaultRules : public EngineTest {
 protected:
  // The error of the stream after `spins` kernels.
  static Result Spins(int spins, devrt_stream s) {
    for (int i = 0; i < spins; ++i) OK(probe().spin(self(), s, 10));
    return Take(ops().stream_sync(self(), s));
  }
  static std::string Token() {
    uint64_t size = 0;
    OK(sim().token(self(), nullptr, 0, &size));
    std::string text(size, '\0');
    OK(sim().token(self(), text.data(), size, &size));
    return text;
  }
};

TEST_F(FaultRules, TheNthOperationFaults) {
  for (const std::string mode : {"", ",strategy=lifo", ",mode=threaded"}) {
    SCOPED_TRACE(mode);
    Reset("faults=kernel_fault:nth=3" + mode);
    devrt_stream s = NewStream();
    EXPECT_EQ(Spins(2, s).code, DEVRT_OK);
    const Result failed = Spins(1, s);
    EXPECT_EQ(failed.native_code, 719);
    EXPECT_THAT(failed.text, HasSubstr("injected"));
    // It stays.
    EXPECT_EQ(Take(ops().stream_sync(self(), s)).native_code, 719);
  }
}

TEST_F(FaultRules, ByDeviceNameAndNumber) {
  Reset("faults=kernel_fault:device=1:op=fill:native=710");
  devrt_stream s = NewStream(1);
  EXPECT_EQ(Spins(3, s).code, DEVRT_OK);
  void* memory = nullptr;
  OK(ops().alloc(self(), 1, 8, 0, &memory));
  OK(ops().fill_async(self(), s, memory, 0, 8));
  EXPECT_EQ(Take(ops().stream_sync(self(), s)).native_code, 710);
}

TEST_F(FaultRules, ANameMayHaveTheMarksOfTheGrammar) {
  const std::string rules = "kernel_fault:op=[a::b<c, d>+e]:nth=2";
  Reset("faults=" + rules);
  uint64_t size = 0;
  OK(sim().config(self(), nullptr, 0, &size));
  std::string config(size, '\0');
  OK(sim().config(self(), config.data(), size, &size));
  EXPECT_THAT(config, HasSubstr("faults=" + rules));
  devrt_stream s = NewStream();
  EXPECT_EQ(Spins(3, s).code, DEVRT_OK);
  const auto launch = [&] {
    Launch(
        s, [](const devrt_kernel_context_v0*) {}, {}, "a::b<c, d>+e");
    return Take(ops().stream_sync(self(), s)).native_code;
  };
  EXPECT_EQ(launch(), 0);
  EXPECT_EQ(launch(), 719);
}

TEST_F(FaultRules, ALostDeviceFailsAndOthersWork) {
  Reset("faults=device_lost:device=1:at=50us");
  devrt_stream other = NewStream(0);
  devrt_stream s = NewStream(1);
  EXPECT_EQ(Spins(1, s).code, DEVRT_OK);
  OK(probe().spin(self(), s, 100'000));
  const Result lost = Take(ops().stream_sync(self(), s));
  EXPECT_EQ(lost.native_code, 46) << lost.text;
  EXPECT_THAT(lost.text, HasSubstr("injected"));
  EXPECT_EQ(Take(ops().device_sync(self(), 1)).native_code, 46);
  EXPECT_EQ(Spins(1, other).code, DEVRT_OK);
  uint32_t count = 0;
  OK(ops().device_count(self(), &count));
  EXPECT_EQ(count, 2u);
}

TEST_F(FaultRules, ALinkThatIsDownFaultsTheInitiator) {
  Reset("faults=link_down:link=0-1");
  void* here = nullptr;
  void* there = nullptr;
  OK(ops().alloc(self(), 0, 8, 0, &here));
  OK(ops().alloc(self(), 1, 8, 0, &there));
  devrt_stream s = NewStream(0);
  OK(ops().fill_async(self(), s, here, 1, 8));
  Sync(s);
  OK(ops().copy_peer_async(self(), s, there, 1, here, 0, 8));
  EXPECT_EQ(Take(ops().stream_sync(self(), s)).native_code, 220);
  OK(ops().device_sync(self(), 1));
}

TEST_F(FaultRules, AHangIsADeadlockOrATimeout) {
  Reset("faults=hang:nth=2");
  devrt_stream s = NewStream();
  EXPECT_EQ(Spins(1, s).code, DEVRT_OK);
  const Result stuck = Spins(1, s);
  EXPECT_EQ(stuck.code, DEVRT_FAILED_PRECONDITION);
  EXPECT_THAT(stuck.text, HasSubstr("which hangs by a rule"));
  Reset("faults=hang:timeout=1ms");
  s = NewStream();
  const Result timeout = Spins(1, s);
  EXPECT_EQ(timeout.native_code, 702);
  EXPECT_THAT(timeout.text, HasSubstr("injected: it never ended"));
}

TEST_F(FaultRules, ASlowOperationTakesLonger) {
  const auto time = [&](const std::string& config) {
    Reset(config);
    devrt_stream s = NewStream();
    OK(probe().spin(self(), s, 1000));
    OK(probe().spin(self(), s, 1000));
    Sync(s);
    uint64_t now = 0;
    OK(sim().now_ns(self(), &now));
    return now;
  };
  const uint64_t usual = time("host_call=0");
  EXPECT_EQ(time("host_call=0,faults=slow:factor=10:nth=2"), usual + 9000);
  EXPECT_EQ(time("host_call=0,faults=slow:factor=10"), usual + 18000);
}

TEST_F(FaultRules, AStaleQuerySaysNotReadyOnce) {
  Reset("faults=stale_query:times=0");
  devrt_stream s = NewStream();
  EXPECT_TRUE(Done(s)) << "nothing was ever submitted";
  OK(probe().spin(self(), s, 10));
  Sync(s);
  EXPECT_TRUE(Done(s)) << "the thread knows it";
  devrt_event event = Mark(s);
  // The record ends, and nobody has learnt so.
  while (true) {
    uint64_t steps = 0;
    uint64_t hash = 0;
    OK(sim().yield(self()));
    OK(sim().trace_hash(self(), &hash, &steps));
    devrt_sim_stats_v1 stats = {};
    stats.struct_size = sizeof stats;
    OK(sim().stats(self(), &stats));
    if (stats.pending_ops == 0) break;
  }
  EXPECT_FALSE(EventDone(event));
  EXPECT_TRUE(EventDone(event));
  EXPECT_TRUE(EventDone(event));
}

// The answer is a step, so that a trace tells the runs apart.
TEST_F(FaultRules, AStaleAnswerIsInTheTrace) {
  const auto trace = [&](const std::string& config) {
    Reset(config);
    devrt_stream s = NewStream();
    OK(probe().spin(self(), s, 10));
    while (Stats().pending_ops != 0) OK(sim().yield(self()));
    Done(s);
    uint64_t steps = 0;
    uint64_t hash = 0;
    OK(sim().trace_hash(self(), &hash, &steps));
    return hash;
  };
  EXPECT_EQ(trace("faults=stale_query"), trace("faults=stale_query"));
  EXPECT_NE(trace("faults=stale_query"), trace("faults=stale_query:nth=2"));
}

TEST_F(FaultRules, FragmentationRefusesThoughBytesAreFree) {
  Reset("faults=fragmentation:bytes=1024:nth=2");
  void* small = nullptr;
  void* memory = nullptr;
  OK(ops().alloc(self(), 0, 8, 0, &small));
  OK(ops().alloc(self(), 0, 1024, 0, &memory));
  const Result refused = Take(ops().alloc(self(), 0, 2048, 0, &memory));
  EXPECT_EQ(refused.code, DEVRT_RESOURCE_EXHAUSTED);
  EXPECT_THAT(refused.text, HasSubstr("injected fragmentation: mtia:0 has"));
  OK(ops().alloc(self(), 0, 2048, 0, &memory));
}

TEST_F(FaultRules, EccIsAnErrorOrABitThatFlips) {
  Reset("faults=ecc");
  devrt_stream s = NewStream();
  EXPECT_EQ(Spins(1, s).native_code, 214);
  Reset("faults=ecc:mode=flip:nth=2");
  s = NewStream();
  void* memory = nullptr;
  OK(ops().alloc(self(), 0, 8, 0, &memory));
  for (const unsigned char expected : {4, 5, 4}) {
    OK(ops().fill_async(self(), s, memory, 4, 8));
    Sync(s);
    unsigned char byte = 0;
    OK(sim().peek(self(), memory, &byte, 1));
    EXPECT_EQ(byte, expected);
  }
}

TEST_F(FaultRules, FiredRulesAreCounted) {
  Reset("faults=slow:nth=2:times=2+kernel_fault:nth=9");
  devrt_stream s = NewStream();
  Spins(1, s);
  EXPECT_EQ(Stats().faults_fired, 0u);
  Spins(4, s);
  EXPECT_EQ(Stats().faults_fired, 2u);
  Reset("faults=device_lost:device=1:at=50us");
  EXPECT_EQ(Stats().faults_fired, 0u);
  s = NewStream(1);
  OK(probe().spin(self(), s, 100'000));
  Take(ops().stream_sync(self(), s));
  EXPECT_EQ(Stats().faults_fired, 1u);
}

TEST_F(FaultRules, OfTwoFaultsTheFirstIsReported) {
  Reset("faults=kernel_fault:native=710+ecc");
  const Result failed = Spins(1, NewStream());
  EXPECT_EQ(failed.native_code, 710);
  EXPECT_THAT(failed.text, Not(HasSubstr("corrected")));
}

TEST_F(FaultRules, ADurationDoesNotWrap) {
  std::string rules;
  for (int i = 0; i < 5; ++i) rules += "slow:factor=1000000+";
  Reset("faults=" + rules);
  uint64_t before = 0;
  uint64_t after = 0;
  OK(sim().now_ns(self(), &before));
  EXPECT_EQ(Spins(1, NewStream()).code, DEVRT_OK);
  OK(sim().now_ns(self(), &after));
  EXPECT_GT(after - before, uint64_t{1} << 60);
}

// A chance is a decision: a token repeats what was drawn.
TEST_F(FaultRules, ATokenRepeatsADraw) {
  const auto run = [&] {
    devrt_stream s = NewStream();
    int spins = 1;
    while (Spins(1, s).code == DEVRT_OK && spins < 1000) ++spins;
    return spins;
  };
  const std::string config = "faults=kernel_fault:p=0.1,strategy=random,seed=";
  std::vector<int> lengths;
  for (int seed = 1; seed <= 20; ++seed) {
    Reset(config + std::to_string(seed));
    const int spins = run();
    lengths.push_back(spins);
    const std::string token = Token();
    OK(sim().replay(self(), token.data(), token.size()));
    EXPECT_EQ(run(), spins) << seed;
  }
  EXPECT_NE(*std::min_element(lengths.begin(), lengths.end()),
            *std::max_element(lengths.begin(), lengths.end()));
}

// The rules belong to the configuration of a token.
TEST_F(FaultRules, ATokenIsOfItsRules) {
  Reset("faults=kernel_fault:nth=2");
  const std::string token = Token();
  Reset("faults=kernel_fault:nth=3");
  ExpectCode(sim().replay(self(), token.data(), token.size()),
             DEVRT_FAILED_PRECONDITION);
}

// JSON and files are read by the reader of the layer
// (tests/layers/faults_rules_test.cc).
TEST_F(FaultRules, JsonAndAFileAreRulesToo) {
  Reset(R"(seed=3,faults={"faults": [{"class": "kernel_fault", "nth": 2},)"
        R"( {"class": "slow", "op": "a,b", "factor": 3}]},devices=2)");
  EXPECT_EQ(Spins(3, NewStream()).code, DEVRT_INTERNAL);
  const std::string token = Token();
  // The configuration has one text, however the rules are written.
  Reset("faults=kernel_fault:nth=2+slow:op=[a,b]:factor=3");
  OK(sim().replay(self(), token.data(), token.size()));
  const std::string path = ::testing::TempDir() + "/devrt_mtia_faults";
  std::ofstream(path) << R"({"faults": [{"class": "kernel_fault"}]})";
  Reset("faults=" + path);
  EXPECT_EQ(Spins(1, NewStream()).code, DEVRT_INTERNAL);
  std::remove(path.c_str());
  const std::string gone = "faults=" + path;
  const Result result = Take(sim().reset(self(), gone.data(), gone.size()));
  EXPECT_EQ(result.code, DEVRT_INVALID_ARGUMENT);
  EXPECT_THAT(result.text, HasSubstr("cannot be read: No such file"));
  const std::string folder = "faults=" + ::testing::TempDir();
  const Result refused =
      Take(sim().reset(self(), folder.data(), folder.size()));
  EXPECT_EQ(refused.code, DEVRT_INVALID_ARGUMENT);
  EXPECT_THAT(refused.text, HasSubstr("cannot be read: Is a directory"));
}

TEST_F(FaultRules, MistakesNameTheChoices) {
  const auto refused = [&](const std::string& config) {
    const Result result =
        Take(sim().reset(self(), config.data(), config.size()));
    EXPECT_EQ(result.code, DEVRT_INVALID_ARGUMENT) << config;
    return result.text;
  };
  EXPECT_THAT(refused("faults=hangs"),
              HasSubstr("the classes are kernel_fault, fragmentation"));
  EXPECT_THAT(refused("faults=oom"), HasSubstr("layer faults"));
  EXPECT_THAT(refused("faults=hang:factor=2"),
              HasSubstr("unknown key \"factor\""));
  EXPECT_THAT(refused("faults=link_down"), HasSubstr("write link=0-1"));
  EXPECT_THAT(refused("faults=link_down:link=0-7"),
              HasSubstr("it names device 7, and devices is 2"));
  EXPECT_THAT(refused("faults=hang,mode=threaded"),
              HasSubstr("it needs mode=virtual"));
  EXPECT_THAT(refused(R"(faults={"faults": [{"class": "oom"}]})"),
              HasSubstr("fault 1: faults of the class \"oom\" are made by the "
                        "layer faults"));
  EXPECT_THAT(refused(R"(faults={"faults": [{"nth": 2}]})"),
              HasSubstr(R"(such as in {"class": "kernel_fault", "nth": 2})"));
}

}  // namespace
}  // namespace devrt::test
