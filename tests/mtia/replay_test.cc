// SPDX-License-Identifier: Apache-2.0
//
// Determinism: seeds, trace hashes and replay tokens.
#include <set>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

class Replay : public EngineTest {
 protected:
  // A program with queries whose answers change what it does.
  static int64_t Program() {
    devrt_stream a = NewStream(), b = NewStream(0, DEVRT_STREAM_BLOCKING);
    devrt_stream c = NewStream(1);
    int64_t* const x = NewCell(0, 1);
    for (int i = 0; i < 5; ++i) {
      MulAdd(a, x, 2, 1);
      MulAdd(b, x, 3, 0);
      if (Done(a)) MulAdd(a, x, 5, 0);
      Wait(c, Mark(b));
      MulAdd(Legacy(), x, 1, 7);
      OK(probe().spin(self(), c, 100));
    }
    OK(ops().device_sync(self(), 1));
    OK(ops().device_sync(self(), 0));
    return Peek(x);
  }
  static std::string Config(const std::string& strategy, int seed) {
    return "strategy=" + strategy + ",seed=" + std::to_string(seed);
  }
};

TEST_F(Replay, SameSeedSameTrace) {
  for (const std::string strategy : kStrategies) {
    for (int seed = 0; seed < 20; ++seed) {
      Reset(Config(strategy, seed));
      const int64_t value = Program();
      const uint64_t hash = TraceHash();
      const std::string token = Text(sim().token);
      Reset(Config(strategy, seed));
      EXPECT_EQ(Program(), value);
      EXPECT_EQ(TraceHash(), hash);
      EXPECT_EQ(Text(sim().token), token);
    }
  }
}

TEST_F(Replay, TokensRepeatTheRun) {
  std::set<uint64_t> hashes;
  for (const std::string strategy : kStrategies) {
    for (int seed = 0; seed < 20; ++seed) {
      Reset(Config(strategy, seed));
      const int64_t value = Program();
      const uint64_t hash = TraceHash();
      const std::string token = Text(sim().token);
      EXPECT_EQ(token.substr(0, 5), "dvs1:");
      Reset("");
      OK(sim().replay(self(), token.data(), token.size()));
      EXPECT_EQ(Program(), value) << token;
      EXPECT_EQ(TraceHash(), hash) << token;
      hashes.insert(hash);
    }
  }
  EXPECT_GT(hashes.size(), 20u);
}

TEST_F(Replay, BadTokens) {
  for (const std::string token :
       {"", "dvs1", "dvs2:0:0:hw:", "dvs1:0:0:fast:", "dvs1:x:0:hw:",
        "dvs1:0:0:hw:!", "dvs1:0:0:hw:a:b"}) {
    ExpectCode(sim().replay(self(), token.data(), token.size()),
               DEVRT_INVALID_ARGUMENT);
  }
  const std::string other = "dvs1:1:0:hw:";
  ExpectCode(sim().replay(self(), other.data(), other.size()),
             DEVRT_FAILED_PRECONDITION);
}

TEST_F(Replay, ResetStartsAfresh) {
  devrt_stream s = NewStream();
  devrt_flag flag = NewFlag();
  Hold(s, flag);
  NewCell();
  NewEvent();
  Reset("seed=4");
  const devrt_sim_stats_v1 stats = Stats();
  EXPECT_EQ(stats.live_streams + stats.live_events + stats.live_blocks, 0u);
  EXPECT_EQ(stats.pending_ops, 0u);
  EXPECT_EQ(stats.threads, 1u);
  EXPECT_THAT(Text(sim().config), ::testing::HasSubstr("seed=4"));
  const std::string more = "devices=3";
  ExpectCode(sim().reset(self(), more.data(), more.size()),
             DEVRT_FAILED_PRECONDITION);
  const std::string typo = "strateg=hw";
  ExpectCode(sim().reset(self(), typo.data(), typo.size()),
             DEVRT_INVALID_ARGUMENT);
}

}  // namespace
}  // namespace devrt::test
