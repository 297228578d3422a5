// SPDX-License-Identifier: Apache-2.0
//
// Work that can never complete is reported at once, and nothing is lost.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Blocks a thread or a host function outside of devrt.
struct Gate {
  std::mutex mutex;
  std::condition_variable changed;
  bool open = false;
  std::atomic<int> arrived{0};

  void Wait() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [this] { return open; });
  }
  void Open() {
    const std::lock_guard<std::mutex> lock(mutex);
    open = true;
    changed.notify_all();
  }
  void Arrive() { ++arrived; }
};

constexpr const char* kModes[] = {"", ",strategy=alap", ",mode=threaded"};

class Deadlock : public EngineTest {
 protected:
  static void HostFunc(devrt_stream s, std::function<void()> body) {
    auto owned = std::make_unique<std::function<void()>>(std::move(body));
    OK(ops().host_func(
        self(), s,
        [](void* arg, devrt_status error) {
          const std::unique_ptr<std::function<void()>> run(
              static_cast<std::function<void()>*>(arg));
          OK(error);
          (*run)();
        },
        owned.release()));
  }
  // Warnings of the watchdog so far.
  static size_t Warnings() {
    const std::vector<std::string> logs = host().logs();
    return static_cast<size_t>(
        std::count_if(logs.begin(), logs.end(), [](const std::string& text) {
          return text.find("(watchdog)") != text.npos;
        }));
  }
  static void SleepALittle() {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
};

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

TEST_F(Deadlock, PollingForBlockedWorkEndsWithAnError) {
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
  for (const std::string config : {"", "baton=off", "mode=threaded"}) {
    SCOPED_TRACE(config);
    Reset(config);
    devrt_stream a = NewStream(), b = NewStream();
    Gate gate;
    HostFunc(a, [&gate] { gate.Wait(); });
    HostFunc(b, [&gate] { gate.Arrive(); });
    const Result error = Take(ops().device_sync(self(), 0));
    EXPECT_EQ(error.code, DEVRT_FAILED_PRECONDITION);
    EXPECT_THAT(error.text, HasSubstr("deadlock: host#0 device_sync"));
    EXPECT_THAT(error.text, HasSubstr("host function"));
    EXPECT_THAT(error.text, HasSubstr("has not returned"));
    EXPECT_EQ(Text(sim().deadlock_report), error.text);
    // Other work goes on meanwhile.
    devrt_stream c = NewStream();
    int64_t* const x = NewCell();
    Put(c, x, 1);
    Sync(c);
    EXPECT_EQ(Peek(x), 1);
    gate.Open();
    OK(ops().device_sync(self(), 0));
    EXPECT_EQ(gate.arrived, 1);
  }
}

// A host function waits for a later operation of its stream.
// C43
TEST_F(Deadlock, HostFunctionWaitsForALaterHostFunction) {
  for (const std::string config : {"", "mode=threaded"}) {
    SCOPED_TRACE(config);
    Reset(config);
    devrt_stream s = NewStream();
    Gate gate;
    HostFunc(s, [&gate] { gate.Wait(); });
    HostFunc(s, [&gate] { gate.Open(); });
    const Result error = Take(ops().stream_sync(self(), s));
    EXPECT_EQ(error.code, DEVRT_FAILED_PRECONDITION);
    EXPECT_THAT(error.text, HasSubstr("s1 op 1 host function"));
    gate.Open();
    Sync(s);
  }
}

// A thread that may still act is no deadlock, however slow it is: the watchdog
// warns, once, and the wait goes on.
TEST_F(Deadlock, SlowHostFunctionIsNone) {
  for (const std::string config : kModes) {
    SCOPED_TRACE(config);
    Reset("watchdog=20ms" + config);
    devrt_stream s = NewStream();
    const size_t before = Warnings();
    HostFunc(s, [before] {
      while (Warnings() == before) SleepALittle();
    });
    Sync(s);
    EXPECT_EQ(Text(sim().deadlock_report), "");
  }
}

TEST_F(Deadlock, SlowThreadIsNone) {
  for (const std::string config : kModes) {
    for (const bool sleeps : {true, false}) {
      SCOPED_TRACE(config);
      Reset("watchdog=20ms" + config);
      devrt_stream s = NewStream();
      devrt_flag flag = NewFlag();
      Hold(s, flag);
      const size_t before = Warnings();
      std::thread setter([&] {
        while (Warnings() == before) {
          if (sleeps) SleepALittle();
        }
        Set(flag);
      });
      Sync(s);
      setter.join();
      EXPECT_EQ(Warnings(), before + 1);
      EXPECT_EQ(Text(sim().deadlock_report), "");
    }
  }
}

// A thread that polls while a slow thread may still act is no deadlock, even
// after as many polls as prove one for a thread alone.
TEST_F(Deadlock, PollingForASlowThreadIsNone) {
  Reset("watchdog=1ms");
  devrt_stream s = NewStream();
  devrt_flag flag = NewFlag();
  Hold(s, flag);
  const size_t before = Warnings();
  std::thread setter([&] {
    while (Warnings() == before) SleepALittle();
    Set(flag);
  });
  while (!Done(s)) {
  }
  setter.join();
}

// Threads that sleep until another one wakes them cannot help: a main thread
// in join, a thread at a mutex that never used the machine.
TEST_F(Deadlock, ParkedThreadsCannotHelp) {
  for (const std::string config : kModes) {
    SCOPED_TRACE(config);
    Reset("watchdog=20ms" + config);
    devrt_stream s = NewStream();
    devrt_flag flag = NewFlag();
    Hold(s, flag);
    std::mutex mutex;
    std::promise<void> never;
    Result first, second;
    mutex.lock();
    std::thread at_mutex([&mutex] { mutex.lock(), mutex.unlock(); });
    std::thread at_future([&never] { never.get_future().wait(); });
    std::thread a([&] { first = Take(ops().stream_sync(self(), s)); });
    std::thread b([&] { second = Take(ops().device_sync(self(), 0)); });
    a.join();
    b.join();
    EXPECT_THAT(first.text, HasSubstr("deadlock"));
    EXPECT_THAT(second.text, HasSubstr("deadlock"));
    mutex.unlock();
    never.set_value();
    at_mutex.join();
    at_future.join();
    Set(flag);
    Sync(s);
  }
}

// Alone, a thread is told at once, whatever the watchdog.
TEST_F(Deadlock, SingleThreadGetsAnImmediateError) {
  constexpr std::chrono::seconds kLimit(20);
  Reset("watchdog=60s,queue_depth=1000");
  const auto begin = std::chrono::steady_clock::now();
  devrt_stream s = NewStream();
  devrt_flag flag = NewFlag();
  Hold(s, flag);
  for (int i = 0; i < 999; ++i) OK(probe().spin(self(), s, 1));
  ExpectCode(probe().spin(self(), s, 1), DEVRT_FAILED_PRECONDITION);
  ExpectCode(ops().stream_sync(self(), s), DEVRT_FAILED_PRECONDITION);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLimit);
  Set(flag);
  Sync(s);
}

// With threads that only sleep until they are woken, the end of a wait is as
// certain as without them, and the watchdog does not matter.
TEST_F(Deadlock, IsReportedAtOnceWhereNoOtherThreadCanAct) {
  constexpr std::chrono::seconds kLimit(20);
  Reset("watchdog=600s");
  const auto begin = std::chrono::steady_clock::now();
  std::promise<void> never;
  std::thread parked([&never] { never.get_future().wait(); });
  devrt_stream a = NewStream(), b = NewStream();
  devrt_flag flag = NewFlag();
  Hold(a, flag);
  ExpectCode(ops().stream_sync(self(), a), DEVRT_FAILED_PRECONDITION);
  // A poll, and a host function that waits for a later one.
  Result error;
  for (uint32_t done = 0; error.code == DEVRT_OK;) {
    error = Take(ops().stream_query(self(), a, &done));
  }
  EXPECT_THAT(error.text, HasSubstr("polls for work that cannot complete"));
  Gate gate;
  HostFunc(b, [&gate] { gate.Wait(); });
  ExpectCode(ops().stream_sync(self(), b), DEVRT_FAILED_PRECONDITION);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kLimit);
  gate.Open();
  Set(flag);
  OK(ops().device_sync(self(), 0));
  never.set_value();
  parked.join();
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
