// SPDX-License-Identifier: Apache-2.0
//
// Strategy directed: one operation is held until another is complete.
#include <string>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

class Directed : public EngineTest {
 protected:
  static std::string Config(int seed, const std::string& hold = "0.0",
                            const std::string& until = "0.1") {
    return "strategy=directed,hold=" + hold + ",until=" + until +
           ",seed=" + std::to_string(seed);
  }
  // cell = 1, then *cell = *cell * 2 + 1 on `a` and *cell = 10 on `b`.
  static int64_t Race() {
    devrt_stream a = NewStream(), b = NewStream();
    int64_t* const cell = NewCell(0, 1);
    MulAdd(a, cell, 2, 1);
    Put(b, cell, 10);
    Sync(a);
    Sync(b);
    return Peek(cell);
  }
};

TEST_F(Directed, HoldsBeforeBeginOrBetweenReadAndEnd) {
  int read_late = 0, read_early = 0;
  for (int seed = 0; seed < 40; ++seed) {
    Reset(Config(seed));
    const int64_t value = Race();
    // The held operation ends last, with the new value or with the old one.
    EXPECT_TRUE(value == 21 || value == 3) << value;
    ++(value == 21 ? read_late : read_early);
  }
  EXPECT_GT(read_late, 5);
  EXPECT_GT(read_early, 5);
}

TEST_F(Directed, HoldsTheLaterOperation) {
  for (int seed = 0; seed < 20; ++seed) {
    Reset(Config(seed, "0.1", "0.0"));
    EXPECT_EQ(Race(), 10);
  }
}

TEST_F(Directed, AnOperationOfOnePhaseIsHeldBeforeItBegins) {
  for (int seed = 0; seed < 20; ++seed) {
    Reset(Config(seed) + ",split_limit=0");
    EXPECT_EQ(Race(), 21);
  }
}

TEST_F(Directed, WhatIsHeldGoesIfNothingElseCanMove) {
  for (int seed = 0; seed < 20; ++seed) {
    for (const char* until : {"0.1", "0.77", "5.0"}) {
      Reset(Config(seed, "0.0", until));
      devrt_stream a = NewStream(), b = NewStream();
      int64_t* const cell = NewCell(0, 1);
      MulAdd(a, cell, 2, 1);
      Wait(b, Mark(a));
      Put(b, cell, 10);
      Sync(b);
      EXPECT_EQ(Peek(cell), 10);
    }
  }
}

TEST_F(Directed, AWaitForOtherWorkDoesNotEndTheHold) {
  for (int seed = 0; seed < 20; ++seed) {
    Reset(Config(seed, "0.1", "0.2") + ",split_limit=0");
    devrt_stream other = NewStream();
    MulAdd(other, NewCell(0, 1), 2, 1);
    Sync(other);  // the only operation that can move
    EXPECT_EQ(Race(), 21);
  }
}

TEST_F(Directed, AFaultOfTheOtherOperationEndsTheHold) {
  for (int seed = 0; seed < 20; ++seed) {
    Reset(Config(seed));
    devrt_stream a = NewStream(), b = NewStream(1);
    MulAdd(a, NewCell(0, 1), 2, 1);
    OK(probe().fault(self(), b, DEVRT_FAULT_TRAP));
    EXPECT_NE(Take(ops().device_sync(self(), 1)).code, DEVRT_OK);
    Sync(a);
  }
}

TEST_F(Directed, ATokenRepeatsTheRunWithoutTheNames) {
  for (int seed = 0; seed < 20; ++seed) {
    Reset(Config(seed));
    const int64_t value = Race();
    const uint64_t hash = TraceHash();
    const std::string token = Text(sim().token);
    EXPECT_NE(token.find(":directed:"), std::string::npos) << token;
    Reset("");
    OK(sim().replay(self(), token.data(), token.size()));
    EXPECT_EQ(Race(), value);
    EXPECT_EQ(TraceHash(), hash);
  }
}

TEST_F(Directed, EachMistakeInTheNamesIsOneError) {
  for (const char* config :
       {"strategy=directed", "strategy=directed,hold=0.1",
        "strategy=directed,until=0.1", "hold=0.1", "strategy=random,until=0.1",
        "strategy=directed,hold=0.1,until=0.1",
        "strategy=directed,hold=0,until=0.1",
        "strategy=directed,hold=0.x,until=0.1",
        "strategy=directed,hold=0.1.2,until=0.1"}) {
    const Result result =
        Take(sim().reset(self(), config, std::string(config).size()));
    EXPECT_EQ(result.code, DEVRT_INVALID_ARGUMENT) << config;
    EXPECT_TRUE(result.text.find("hold") != std::string::npos ||
                result.text.find("until") != std::string::npos)
        << result.text;
  }
}

}  // namespace
}  // namespace devrt::test
