// SPDX-License-Identifier: Apache-2.0
//
// Several host threads: the baton of virtual mode, and threaded mode.
#include <pthread.h>
#include <sched.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <future>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "tests/mtia/engine_fixture.h"

namespace devrt::test {
namespace {

class Threads : public EngineTest {
 protected:
  static constexpr int kThreads = 8;

  template <class F>
  static void Run(int n, F body) {
    std::vector<std::thread> threads;
    for (int i = 0; i < n; ++i) threads.emplace_back([body, i] { body(i); });
    for (std::thread& thread : threads) thread.join();
  }
};

TEST_F(Threads, EachItsOwnStream) {
  for (const std::string config :
       {"", "strategy=random,seed=5", "baton=off", "pin=off", "mode=threaded",
        "mode=threaded,slots=unlimited"}) {
    SCOPED_TRACE(config);
    Reset(config);
    std::vector<int64_t*> cells;
    for (int i = 0; i < kThreads; ++i) cells.push_back(NewCell(i % 2));
    Run(kThreads, [&cells](int i) {
      const uint32_t device = static_cast<uint32_t>(i) % 2;
      devrt_stream s = NewStream(device);
      for (int k = 0; k < 50; ++k) MulAdd(s, cells[i], 1, 1);
      devrt_event e = Mark(s, device);
      while (!EventDone(e)) {
      }
      Sync(s);
      OK(ops().event_destroy(self(), e));
      OK(ops().stream_destroy(self(), s));
    });
    for (int64_t* const x : cells) EXPECT_EQ(Peek(x), 50);
    EXPECT_EQ(Stats().live_streams, 0u);
  }
}

// C12, S3: one per thread, ordered with legacy; its work outlives the thread.
TEST_F(Threads, PerThreadStreams) {
  for (const std::string config : {"", "mode=threaded"}) {
    Reset(config);
    int64_t* const x = NewCell(0, 1);
    devrt_flag flag = NewFlag();
    devrt_stream mine = Special(DEVRT_STREAM_PER_THREAD);
    devrt_stream theirs = nullptr;
    void* native = nullptr;
    void* their_native = nullptr;
    std::thread([&] {
      theirs = Special(DEVRT_STREAM_PER_THREAD);
      OK(ops().stream_native(self(), theirs, &their_native));
      Hold(theirs, flag);
      MulAdd(theirs, x, 3, 0);
    }).join();
    OK(ops().stream_native(self(), mine, &native));
    EXPECT_NE(mine, theirs);
    EXPECT_EQ(native, their_native);
    EXPECT_TRUE(Done(mine));
    ExpectCode(ops().stream_sync(self(), theirs), DEVRT_INVALID_ARGUMENT);
    MulAdd(Legacy(), x, 1, 1);
    Set(flag);
    Sync(Legacy());
    EXPECT_EQ(Peek(x), 4);
  }
}

// The holder of the baton blocks where devrt cannot see it.
TEST_F(Threads, HolderBlockedOutside) {
  std::mutex mutex;
  std::condition_variable changed;
  int turn = 0;
  int64_t* const x = NewCell();
  const auto begin = std::chrono::steady_clock::now();
  Run(4, [&](int i) {
    devrt_stream s = NewStream();
    for (int round = 0; round < 5; ++round) {
      std::unique_lock<std::mutex> lock(mutex);
      changed.wait(lock, [&] { return turn % 4 == i; });
      MulAdd(s, x, 1, 1);
      Sync(s);
      ++turn;
      changed.notify_all();
    }
  });
  EXPECT_EQ(Peek(x), 20);
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(5));
}

// Asleep until `wakes`, then busy until `goes`; what the machine does at the
// end of a thread comes behind it.
struct End {
  std::atomic<int>* tid;
  std::atomic<bool>*wakes, *is_awake, *goes;
  ~End() {
    *tid = gettid();
    while (!*wakes) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    *is_awake = true;
    while (!*goes) std::this_thread::yield();
  }
};

// A join by other means than pthread_join may return before the thread's end,
// which needs the baton: a reset lets it go first.
TEST_F(Threads, AResetBesideAThreadAtItsEnd) {
  for (const std::string config : {"", "strategy=random,seed=5"}) {
    SCOPED_TRACE(config);
    Reset(config);
    std::atomic<int> tid{0};
    std::atomic<bool> wakes{false}, is_awake{false}, goes{false};
    std::thread thread([&] {
      thread_local End end{&tid, &wakes, &is_awake, &goes};
      Sync(Special(DEVRT_STREAM_PER_THREAD));
    });
    UntilAsleep(tid);
    NewStream();  // takes the baton from it
    wakes = true;
    while (!is_awake) std::this_thread::yield();
    goes = true;
    UntilAsleep(tid);
    Reset(config);
    thread.join();
    EXPECT_EQ(Stats().live_streams, 0u);
    Run(2, [](int) { Sync(Special(DEVRT_STREAM_PER_THREAD)); });
  }
}

// One thread waits for the device, another sets the flag.
TEST_F(Threads, FlagSetByAnotherThread) {
  for (const std::string config :
       {"", "strategy=alap", "baton=off", "mode=threaded"}) {
    SCOPED_TRACE(config);
    Reset(config);
    devrt_stream s = NewStream();
    devrt_flag flag = NewFlag();
    int64_t* const x = NewCell();
    Hold(s, flag);
    Put(s, x, 1);
    std::thread setter([flag] { Set(flag); });
    Sync(s);
    EXPECT_EQ(Peek(x), 1);
    setter.join();
  }
}

// A thread polls until another thread has recorded and the device moved.
TEST_F(Threads, PollAcrossThreads) {
  for (const std::string config : {"", "strategy=lifo", "mode=threaded"}) {
    SCOPED_TRACE(config);
    Reset(config);
    devrt_stream s = NewStream();
    devrt_flag flag = NewFlag();
    Hold(s, flag);
    devrt_event e = Mark(s);
    std::atomic<bool> polled{false};
    std::thread poller([&] {
      while (!EventDone(e)) polled = true;
    });
    while (!polled) std::this_thread::yield();
    Set(flag);
    poller.join();
  }
}

// Two threads that take turns: `waiting` in a thread of its own, `spinning` in
// this one, again and again until the other has ended.  Returns how often; the
// other is in its first call when this one begins.
class Fairness : public Threads {
 protected:
  static constexpr int kTooOften = 100'000;

  template <class Waiting, class Spinning>
  static int Turns(Waiting waiting, Spinning spinning) {
    std::atomic<int> tid{0};
    std::atomic<bool> ended{false};
    std::thread other([&] {
      tid = gettid();
      waiting();
      ended = true;
    });
    UntilAsleep(tid);
    int turns = 0;
    while (!ended && turns < kTooOften) spinning(), ++turns;
    other.join();
    return turns;
  }
};

// A query of a complete stream changes nothing, and yet other threads that poll
// or yield go on. Each run and a replay do so in one way.
TEST_F(Fairness, PollerOfACompleteStream) {
  const auto run = [](bool yields) {
    devrt_stream held = NewStream(), complete = NewStream();
    devrt_flag flag = NewFlag();
    Hold(held, flag);
    const int turns = Turns(
        [held, yields] {
          for (int i = 0; i < 20; ++i) {
            if (yields) {
              OK(sim().yield(self()));
            } else {
              EXPECT_FALSE(Done(held));
            }
          }
        },
        [complete] { EXPECT_TRUE(Done(complete)); });
    EXPECT_LT(turns, kTooOften);
    Set(flag);
    return TraceHash();
  };
  for (const std::string strategy : kStrategies) {
    const std::string config = "strategy=" + strategy + ",seed=7,watchdog=60s";
    for (const bool yields : {true, false}) {
      SCOPED_TRACE(strategy + (yields ? " yields" : " polls"));
      Reset(config);
      const uint64_t hash = run(yields);
      const std::string token = Text(sim().token);
      Reset(config);
      EXPECT_EQ(run(yields), hash);
      OK(sim().replay(self(), token.data(), token.size()));
      EXPECT_EQ(run(yields), hash);
      EXPECT_EQ(Text(sim().token), token);
    }
  }
}

// Threads that wait for each other in Yield go on in turns, though no call of
// theirs changes the machine.
TEST_F(Fairness, ThreadsThatYieldToEachOther) {
  constexpr int kTurns = 50;
  for (const std::string strategy : kStrategies) {
    SCOPED_TRACE(strategy);
    Reset("strategy=" + strategy + ",seed=7,watchdog=60s");
    std::atomic<int> turn{0};
    std::atomic<int> yields{0};
    Run(3, [&turn, &yields](int i) {
      for (int next = i; next < kTurns; next += 3) {
        while (turn != next) OK(sim().yield(self())), ++yields;
        ++turn;
      }
    });
    EXPECT_LT(yields, 10 * kTurns);
  }
}

// A thread that polls goes on while another one waits for what it does then.
TEST_F(Fairness, AThreadThatWaitsBesideOneThatPolls) {
  for (const std::string strategy : kStrategies) {
    for (const int polls : {3, 20, 300}) {
      for (const int others : {0, 3, 18}) {
        SCOPED_TRACE(strategy + " " + std::to_string(polls) + " " +
                     std::to_string(others));
        Reset("strategy=" + strategy + ",seed=7,watchdog=60s");
        devrt_stream s = NewStream();
        devrt_flag flag = NewFlag();
        Hold(s, flag);
        Run(2, [&](int i) {
          for (int k = 0; k < (i == 0 ? polls : others); ++k) Done(s);
          i == 0 ? Set(flag) : Sync(s);
        });
      }
    }
  }
}

// A strategy may prefer one thread, but not for ever.
TEST_F(Fairness, ThreadThatNeverWaits) {
  for (const std::string strategy : kStrategies) {
    SCOPED_TRACE(strategy);
    Reset("strategy=" + strategy + ",seed=7,watchdog=60s");
    int64_t* const x = NewCell();
    devrt_stream mine = NewStream(), theirs = NewStream();
    const int turns = Turns(
        [theirs, x] {
          for (int i = 0; i < 20; ++i) Put(theirs, x, i), Sync(theirs);
        },
        [mine] { EXPECT_TRUE(Done(mine)); });
    EXPECT_LT(turns, kTooOften);
  }
}

// C39, V7.
TEST_F(Threads, ConcurrentUseOfOneEvent) {
  for (const std::string config : {"", "mode=threaded"}) {
    Reset(config);
    devrt_event e = NewEvent();
    Run(kThreads, [e](int i) {
      devrt_stream s = NewStream();
      for (int k = 0; k < 40; ++k) {
        switch ((k + i) % 4) {
          case 0:
            Record(e, s);
            break;
          case 1:
            Wait(s, e);
            break;
          case 2:
            EventDone(e);
            break;
          default:
            OK(ops().event_sync(self(), e));
        }
      }
      Sync(s);
    });
  }
}

// F27: the counter that hands out ids.
TEST_F(Threads, HandlesAreUnique) {
  for (const std::string config : {"", "mode=threaded"}) {
    Reset(config);
    std::mutex mutex;
    std::set<devrt_stream> all;
    Run(kThreads, [&](int) {
      std::vector<devrt_stream> mine;
      for (int i = 0; i < 50; ++i) mine.push_back(NewStream());
      const std::lock_guard<std::mutex> lock(mutex);
      all.insert(mine.begin(), mine.end());
    });
    EXPECT_EQ(all.size(), 50u * kThreads);
  }
}

// C97: the current device is the thread's own and needs no baton.
TEST_F(Threads, CurrentDeviceIsPerThread) {
  Run(kThreads, [](int i) {
    uint32_t device = 9;
    OK(ops().context_current(self(), &device));
    EXPECT_EQ(device, 0u);
    for (int k = 0; k < 1000; ++k) {
      devrt_context before;
      const uint32_t want = static_cast<uint32_t>(i + k) % 2;
      OK(ops().context_enter(self(), want, &before));
      OK(ops().context_current(self(), &device));
      EXPECT_EQ(device, want);
      OK(ops().context_exit(self(), &before));
    }
  });
}

// All joined threads wait for what cannot come: every one is told.
TEST_F(Threads, DeadlockOfTwoThreads) {
  devrt_stream s = NewStream();
  devrt_flag flag = NewFlag();
  Hold(s, flag);
  Run(2, [s](int) {
    ExpectCode(ops().stream_sync(self(), s), DEVRT_FAILED_PRECONDITION);
  });
  Set(flag);
  Sync(s);
}

// The cores that the calling thread may use.
cpu_set_t Cores() {
  cpu_set_t cores;
  EXPECT_EQ(sched_getaffinity(0, sizeof cores, &cores), 0);
  return cores;
}

MATCHER_P(SameCores, expected, "") { return CPU_EQUAL(&arg, &expected); }

// Pinning is undone when a thread is alone again.
TEST_F(Threads, AffinityIsRestored) {
  const cpu_set_t before = Cores();
  NewStream();
  Run(3, [](int) { Sync(NewStream()); });
  NewStream();
  EXPECT_THAT(Cores(), SameCores(before));
}

// A new thread inherits the one core of the pinned thread that makes it.  That
// core is not taken for the cores of the program.
TEST_F(Threads, AnInheritedCoreIsNotKept) {
  const cpu_set_t before = Cores();
  NewStream();
  std::promise<void> is_alone;
  std::thread late;
  Run(1, [&](int) {
    NewStream();  // pins this thread and the first one
    late = std::thread([&] {
      is_alone.get_future().wait();
      Sync(NewStream());
    });
  });
  NewStream();
  EXPECT_THAT(Cores(), SameCores(before));
  is_alone.set_value();
  late.join();
  NewStream();
  EXPECT_THAT(Cores(), SameCores(before));
}

// An inherited core is dropped, though others have been kept on another one
// since.
TEST_F(Threads, ACoreOfAnEarlierTimeIsNotKept) {
  const cpu_set_t before = Cores();
  NewStream();
  std::promise<void> is_late;
  std::thread late;
  for (int core = 0; core < CPU_SETSIZE; ++core) {
    if (!CPU_ISSET(static_cast<uint32_t>(core), &before)) continue;
    Run(1, [&](int) {
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(static_cast<uint32_t>(core), &one);
      sched_setaffinity(0, sizeof one, &one);
      sched_setaffinity(0, sizeof before, &before);
      NewStream();  // keeps this thread and the first one, most often there
      if (late.joinable()) return;
      late = std::thread([&] {
        is_late.get_future().wait();
        NewStream();
        Reset("pin=off");
        EXPECT_THAT(Cores(), SameCores(before));
      });
    });
  }
  is_late.set_value();
  late.join();
}

// A thread that joins when no other is left has the cores of the program.
TEST_F(Threads, ALoneThreadLeavesAnInheritedCore) {
  const cpu_set_t before = Cores();
  std::promise<void> is_alone;
  std::thread late;
  Run(1, [&](int) {
    Reset("");  // without the first thread, which calls nothing meanwhile
    Run(1, [&](int) {
      NewStream();
      late = std::thread([&] {
        is_alone.get_future().wait();
        NewStream();
        EXPECT_THAT(Cores(), SameCores(before));
      });
    });
  });
  is_alone.set_value();
  late.join();
}

// Each thread gets the cores back that it had itself.
TEST_F(Threads, AffinityIsRestoredForEachThread) {
  const cpu_set_t before = Cores();
  if (CPU_COUNT(&before) < 2) GTEST_SKIP() << "one core";
  Run(1, [&](int) {
    Reset("");  // without the first thread
    cpu_set_t own = before;
    CPU_CLR(static_cast<uint32_t>(sched_getcpu()), &own);
    ASSERT_EQ(sched_setaffinity(0, sizeof own, &own), 0);
    Run(1, [&](int) {
      sched_setaffinity(0, sizeof before, &before);
      NewStream();
    });
    NewStream();
    EXPECT_THAT(Cores(), SameCores(own));
  });
}

// One core is for the baton: in threaded mode threads have all of theirs.
TEST_F(Threads, ThreadedModePinsNoThread) {
  const cpu_set_t before = Cores();
  Reset("mode=threaded");
  NewStream();
  Run(3, [&before](int) {
    Sync(NewStream());
    EXPECT_THAT(Cores(), SameCores(before));
  });
}

}  // namespace
}  // namespace devrt::test
