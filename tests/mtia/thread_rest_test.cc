// SPDX-License-Identifier: Apache-2.0
//
// Host threads that wait, sleep or compute outside of devrt in virtual mode:
// which of them count as uncontrolled, and what the signal does to waits.
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

#include "tests/mtia/engine_fixture.h"
#include "tests/support/sanitizers.h"

namespace devrt::test {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

class ThreadsRest : public EngineTest {};

// Waits for other threads repeat: real time has no part in them.
TEST_F(ThreadsRest, AJoinIsNotCounted) {
  std::thread([] { Sync(NewStream()); }).join();
  Sync(NewStream());
  Text(sim().token);
  EXPECT_EQ(Stats().uncontrolled, 0u);
  EXPECT_THAT(host().logs(), Not(Contains(HasSubstr("A replay of this run"))));
}

// What real time decides is counted, and the token's reader is told.
TEST_F(ThreadsRest, ASleepIsCounted) {
  NewStream();
  std::atomic<bool> ended{false};
  std::thread other([&ended] {
    Sync(NewStream());
    ended = true;
  });
  while (!ended) std::this_thread::sleep_for(std::chrono::milliseconds(60));
  other.join();
  EXPECT_GT(Stats().uncontrolled, 0u);
  Text(sim().token);
  EXPECT_THAT(host().logs(),
              Contains(AllOf(HasSubstr("A replay of this run may differ"),
                             HasSubstr("slept for a time"))));
  Reset("");
  EXPECT_EQ(Stats().uncontrolled, 0u);
}

TEST_F(ThreadsRest, AComputationLongerThanTheWatchdogIsCounted) {
  Reset("watchdog=50ms");
  NewStream();
  std::atomic<bool> ended{false};
  std::thread other([&ended] {
    Sync(NewStream());
    ended = true;
  });
  while (!ended) {
  }
  other.join();
  EXPECT_GT(Stats().uncontrolled, 0u);
  Text(sim().token);
  EXPECT_THAT(host().logs(),
              Contains(HasSubstr("computed for longer than the watchdog")));
}

// The next machine does not control the thread either.
TEST_F(ThreadsRest, WhatIsNotControlledIsCountedAfterAReset) {
  Reset("watchdog=50ms");
  NewStream();
  std::atomic<bool> ends{false};
  std::thread other([&ends] {
    while (!ends) {
    }
  });
  NewStream();
  Sync(NewStream());
  EXPECT_GT(Stats().uncontrolled, 0u);
  Reset("");
  EXPECT_GT(Stats().uncontrolled, 0u);
  ends = true;
  other.join();
  Reset("");
  EXPECT_EQ(Stats().uncontrolled, 0u);
}

// A thread that waits, of which nothing can be read.
TEST_F(ThreadsRest, AThreadThatCannotBeLookedAtIsCounted) {
  std::thread([] { Sync(NewStream()); }).join();
  Reset("watchdog=50ms");
  NewStream();
  sem_t posted;
  ASSERT_EQ(sem_init(&posted, 0, 0), 0);
  std::atomic<int> tid{0};
  std::thread other([&] {
    tid = gettid();
    sem_wait(&posted);
  });
  UntilAsleep(tid);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  const rlimit none = {0, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  Sync(NewStream());
  setrlimit(RLIMIT_NOFILE, &before);
  EXPECT_GT(Stats().uncontrolled, 0u);
  sem_post(&posted);
  other.join();
  sem_destroy(&posted);
}

// With baton=off nobody waits until all rest, and threads have numbers still.
TEST_F(ThreadsRest, NumbersDifferWithoutBaton) {
  Reset("baton=off");
  devrt_stream s = NewStream();
  devrt_flag flag = NewFlag();
  Hold(s, flag);
  std::mutex mutex;
  std::string texts;
  const auto wait = [&] {
    const Result result = Take(ops().stream_sync(self(), s));
    const std::lock_guard<std::mutex> lock(mutex);
    texts += result.text;
  };
  std::thread one(wait), other(wait);
  one.join();
  other.join();
  EXPECT_THAT(texts, AllOf(HasSubstr("host#1"), HasSubstr("host#2")));
  Set(flag);
  Sync(s);
}

// True if the thread waits for a word of the object.
bool WaitsFor(int tid, const sem_t& object) {
  std::ifstream file("/proc/self/task/" + std::to_string(tid) + "/syscall");
  uint64_t number = 0, word = 0;
  file >> number >> std::hex >> word;
  const auto begin = reinterpret_cast<uint64_t>(&object);
  return number == SYS_futex && word >= begin && word < begin + sizeof object;
}

// A thread that waits in a lock is interrupted by a signal, unless it blocks
// that.  The program sees neither.
TEST_F(ThreadsRest, WaitsAreNotInterrupted) {
#if DEVRT_TEST_TSAN
  GTEST_SKIP() << "ThreadSanitizer delays the signal";
#endif
  for (const bool blocks : {false, true}) {
    SCOPED_TRACE(blocks);
    Reset("");
    sem_t posted;
    ASSERT_EQ(sem_init(&posted, 0, 0), 0);
    int result = -1;
    std::atomic<int> tid{0};
    std::thread waiting([&] {
      sigset_t all;
      sigfillset(&all);
      if (blocks) pthread_sigmask(SIG_SETMASK, &all, nullptr);
      NewStream();
      errno = 0;
      tid = gettid();
      result = sem_wait(&posted);
      EXPECT_EQ(errno, 0);
      NewStream();
    });
    for (int i = 0; i < 20; ++i) Sync(NewStream());
    UntilAsleep(tid);
    for (int i = 0; i < 20; ++i) Sync(NewStream());
    EXPECT_EQ(WaitsFor(tid, posted), blocks);
    sem_post(&posted);
    waiting.join();
    EXPECT_EQ(result, 0);
    EXPECT_EQ(Stats().created_streams, 42u);
    EXPECT_EQ(Stats().uncontrolled, 0u);
    sem_destroy(&posted);
  }
}

// pthread_cancel ends a thread that sleeps in the handler of that signal.
TEST_F(ThreadsRest, ACaughtThreadIsCancelled) {
#if DEVRT_TEST_TSAN
  GTEST_SKIP()
      << "ThreadSanitizer loses sight of the locks of a thread that is "
         "cancelled in a handler of a signal";
#endif
  struct Shared {
    sem_t posted;
    std::atomic<int> tid{0};
  } shared;
  ASSERT_EQ(sem_init(&shared.posted, 0, 0), 0);
  const auto wait = [](void* arg) -> void* {
    auto* const in = static_cast<Shared*>(arg);
    NewStream();
    in->tid = gettid();
    sem_wait(&in->posted);
    return nullptr;
  };
  for (int i = 0; i < 4; ++i) {
    shared.tid = 0;
    pthread_t thread;
    ASSERT_EQ(pthread_create(&thread, nullptr, wait, &shared), 0);
    for (int k = 0; k < 20; ++k) Sync(NewStream());
    UntilAsleep(shared.tid);
    Sync(NewStream());
    ASSERT_EQ(pthread_cancel(thread), 0);
    if (i % 2 == 0) Sync(NewStream());
    void* result = nullptr;
    ASSERT_EQ(pthread_join(thread, &result), 0);
    EXPECT_EQ(result, PTHREAD_CANCELED);
    Sync(NewStream());
  }
  sem_destroy(&shared.posted);
}

}  // namespace
}  // namespace devrt::test
