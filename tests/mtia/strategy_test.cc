// SPDX-License-Identifier: Apache-2.0
//
// What the random strategies reach, in small programs with a mistake of order.
#include <functional>
#include <set>
#include <string>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

class Strategies : public EngineTest {
 protected:
  static constexpr const char* kRandomOnes[] = {"random", "pos", "pct"};

  // The results of `program` under 200 seeds.
  static std::set<int64_t> Results(const std::string& config,
                                   const std::function<int64_t()>& program) {
    std::set<int64_t> results;
    for (int seed = 0; seed < 200; ++seed) {
      Reset("strategy=" + config + ",seed=" + std::to_string(seed));
      results.insert(program());
    }
    return results;
  }
};

TEST_F(Strategies, ReachBothOrdersAndTheLostUpdates) {
  for (const std::string strategy : kRandomOnes) {
    const std::set<int64_t> results = Results(strategy, [] {
      devrt_stream a = NewStream(), b = NewStream();
      int64_t* const cell = NewCell(0, 1);
      MulAdd(a, cell, 2, 0);
      MulAdd(b, cell, 1, 3);
      OK(ops().device_sync(self(), 0));
      return Peek(cell);
    });
    EXPECT_EQ(results, (std::set<int64_t>{2, 4, 5, 8})) << strategy;
  }
}

// The host writes a source again, after `calls` calls more, and before the
// copy has read it.
TEST_F(Strategies, ReachACopyThatIsLateForManyCalls) {
  for (const std::string strategy : {"pos", "pct", "pct,changes=0"}) {
    const std::set<int64_t> results = Results(strategy, [] {
      devrt_stream a = NewStream(), b = NewStream();
      int64_t* const cell = NewCell();
      void* pinned = nullptr;
      OK(ops().host_alloc(self(), 0, 8, 0, &pinned));
      auto* const host = static_cast<int64_t*>(pinned);
      *host = 1;
      OK(ops().copy_async(self(), a, cell, host, 8, DEVRT_COPY_INFER));
      for (int i = 0; i < 12; ++i) MulAdd(b, NewCell(), 1, 1);
      *host = 2;
      OK(ops().device_sync(self(), 0));
      return Peek(cell);
    });
    EXPECT_EQ(results, (std::set<int64_t>{1, 2})) << strategy;
  }
}

// pct without changes lets one stream go to its end before the other.
TEST_F(Strategies, TheNumberOfChangesCounts) {
  const auto program = [] {
    devrt_stream a = NewStream(), b = NewStream();
    devrt_flag flag = NewFlag();
    int64_t* const cell = NewCell(0, 1);
    Hold(a, flag);
    Hold(b, flag);
    for (int i = 0; i < 3; ++i) {
      MulAdd(a, cell, 2, 0);
      MulAdd(b, cell, 1, 1);
    }
    Set(flag);
    OK(ops().device_sync(self(), 0));
    return Peek(cell);
  };
  const std::set<int64_t> none = Results("pct,changes=0", program);
  EXPECT_EQ(none, (std::set<int64_t>{11, 32}));
  const size_t one = Results("pct,changes=1", program).size();
  EXPECT_GT(one, none.size());
  EXPECT_GT(Results("pct,changes=3", program).size(), one);
}

TEST_F(Strategies, TheNumberOfChangesIsNoPartOfTheToken) {
  const auto token = [](const std::string& changes) {
    Reset("strategy=pct,changes=" + changes);
    return Text(sim().token);
  };
  EXPECT_EQ(token("1"), token("2"));
}

}  // namespace
}  // namespace devrt::test
