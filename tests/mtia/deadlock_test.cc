// SPDX-License-Identifier: Apache-2.0
//
// Work that can never complete is reported at once, and nothing is lost.
#include <atomic>
#include <chrono>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class Deadlock : public EngineTest {};

TEST_F(Deadlock, SyncBehindAFlag) {
  devrt_stream s = NewStream();
  devrt_flag flag = NewFlag();
  int64_t* const x = NewCell();
  {
    const ScopedCallSite site("a.cc", 71);
    Hold(s, flag);
  }
  Put(s, x, 1);
  Result error;
  {
    const ScopedCallSite site("a.cc", 88);
    error = Take(ops().stream_sync(self(), s));
  }
  EXPECT_EQ(error.code, DEVRT_FAILED_PRECONDITION);
  EXPECT_THAT(error.text,
              HasSubstr("host#0 stream_sync {s1, 2} (a.cc:88) -> s1 op 1 "
                        "kernel \"flag_wait\" (a.cc:71) -> flag#1, which no "
                        "submitted operation sets"));
  EXPECT_EQ(Text(sim().deadlock_report), error.text);
  Set(flag);
  Sync(s);
  EXPECT_EQ(Peek(x), 1);
}

TEST_F(Deadlock, TheCycleIsPrinted) {
  devrt_stream a = NewStream(), b = NewStream();
  devrt_flag flag = NewFlag();
  Hold(a, flag);
  Wait(b, Mark(a));
  OK(probe().flag_set_async(self(), b, flag, 1));
  const Result error = Take(ops().device_sync(self(), 0));
  EXPECT_THAT(error.text, HasSubstr("flag#1 -> s2 op 1 kernel \"flag_set\""));
  EXPECT_THAT(error.text, HasSubstr("(the cycle)"));
  Set(flag);
  OK(ops().device_sync(self(), 0));
}

TEST_F(Deadlock, Polling) {
  devrt_stream s = NewStream();
  devrt_flag flag = NewFlag();
  Hold(s, flag);
  uint32_t done = 0;
  Result error;
  int polls = 0;
  for (; error.code == DEVRT_OK && polls < 1'000'000; ++polls) {
    error = Take(ops().stream_query(self(), s, &done));
  }
  EXPECT_THAT(error.text, HasSubstr("polls for work that cannot complete"));
  Set(flag);
  EXPECT_TRUE(Done(s) || (Done(s), Done(s)));
}

// C44: two host functions that wait for each other; C43.
TEST_F(Deadlock, HostFunctionsThatWaitForEachOther) {
  devrt_stream a = NewStream(), b = NewStream();
  struct Pair {
    std::atomic<bool> go{false};
    std::atomic<int> ended{0};
  } pair;
  OK(ops().host_func(
      self(), a,
      [](void* arg, devrt_status) {
        auto* const p = static_cast<Pair*>(arg);
        while (!p->go) {
        }
        ++p->ended;
      },
      &pair));
  OK(ops().host_func(
      self(), b,
      [](void* arg, devrt_status) { ++static_cast<Pair*>(arg)->ended; },
      &pair));
  const Result error = Take(ops().device_sync(self(), 0));
  EXPECT_EQ(error.code, DEVRT_FAILED_PRECONDITION);
  EXPECT_THAT(error.text, HasSubstr("host function"));
  EXPECT_THAT(error.text, HasSubstr("has not returned"));
  // Other work goes on meanwhile.
  devrt_stream c = NewStream();
  int64_t* const x = NewCell();
  Put(c, x, 1);
  Sync(c);
  EXPECT_EQ(Peek(x), 1);
  pair.go = true;
  OK(ops().device_sync(self(), 0));
  EXPECT_EQ(pair.ended, 2);
}

TEST_F(Deadlock, FlagTimeouts) {
  for (const std::string config :
       {"", "strategy=random,seed=3", "strategy=alap", "mode=threaded"}) {
    Reset(config);
    devrt_stream s = NewStream();
    devrt_flag flag = NewFlag();
    OK(probe().flag_wait(self(), s, flag, 1'000'000));
    if (config != "mode=threaded") {
      EXPECT_FALSE(Done(s));
    }
    Sync(s);
  }
}

TEST_F(Deadlock, StepLimit) {
  Reset("step_limit=50");
  devrt_stream s = NewStream();
  for (int i = 0; i < 100; ++i) OK(probe().spin(self(), s, 10));
  EXPECT_THAT(Take(ops().stream_sync(self(), s)).text, HasSubstr("step limit"));
}

TEST_F(Deadlock, ThreadedWatchdog) {
  Reset("mode=threaded");
  devrt_stream s = NewStream();
  devrt_flag flag = NewFlag();
  Hold(s, flag);
  const Result error = Take(ops().stream_sync(self(), s));
  EXPECT_EQ(error.code, DEVRT_FAILED_PRECONDITION);
  EXPECT_THAT(error.text, HasSubstr("flag#1"));
  Set(flag);
  Sync(s);
}

}  // namespace
}  // namespace devrt::test
