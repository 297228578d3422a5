// SPDX-License-Identifier: Apache-2.0
//
// A system that has no more threads for us (EAGAIN) delays work; nothing is
// thrown, lost or left behind.
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>

#include <atomic>
#include <cerrno>
#include <string>
#include <thread>

#include "tests/mtia/engine_fixture.h"
#include "tests/support/sanitizers.h"

#define DEVRT_TEST_OWNS_PTHREAD_CREATE (!DEVRT_TEST_TSAN && !DEVRT_TEST_ASAN)

namespace devrt::test {
namespace {

std::atomic<bool> g_refuse{false};
std::atomic<int> g_refused{0};

class ThreadShortage : public EngineTest {
 protected:
  void SetUp() override {
    if (!DEVRT_TEST_OWNS_PTHREAD_CREATE) {
      GTEST_SKIP() << "the sanitizer has a pthread_create of its own";
    }
    EngineTest::SetUp();
    g_refused = 0;
  }
};

TEST_F(ThreadShortage, WorkersAreAskedForAgain) {
  Reset("mode=threaded");
  std::atomic<bool> over{false};
  // Ends the shortage once several requests were refused.
  std::thread relief([&over] {
    while (g_refused < 3 && !over) std::this_thread::yield();
    g_refuse = false;
  });
  g_refuse = true;
  devrt_stream s = NewStream(), t = NewStream();
  int64_t* const x = NewCell();
  Put(s, x, 3);
  OK(probe().flag_wait(self(), t, NewFlag(), 1'000));
  Sync(s);
  Sync(t);
  over = true;
  relief.join();
  EXPECT_EQ(Peek(x), 3);
}

// Without a thread of its own it runs in the calling one.
TEST_F(ThreadShortage, HostFunctionsRunAllTheSame) {
  sigset_t before, after;
  pthread_sigmask(SIG_BLOCK, nullptr, &before);
  g_refuse = true;
  devrt_stream s = NewStream();
  std::atomic<int> calls{0};
  OK(ops().host_func(
      self(), s,
      [](void* arg, devrt_status) {
        ExpectCode(ops().device_sync(self(), 0), DEVRT_FAILED_PRECONDITION);
        ++*static_cast<std::atomic<int>*>(arg);
      },
      &calls));
  Sync(s);
  g_refuse = false;
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(g_refused, 1);
  pthread_sigmask(SIG_BLOCK, nullptr, &after);
  for (int signal = 1; signal < 32; ++signal) {
    EXPECT_EQ(sigismember(&before, signal), sigismember(&after, signal));
  }
}

}  // namespace
}  // namespace devrt::test

#if DEVRT_TEST_OWNS_PTHREAD_CREATE
extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attr,
                              void* (*start)(void*), void* arg) noexcept {
  if (devrt::test::g_refuse) {
    ++devrt::test::g_refused;
    return EAGAIN;
  }
  using Create =
      int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create =
      reinterpret_cast<Create>(dlsym(RTLD_NEXT, "pthread_create"));
  return create(thread, attr, start, arg);
}
#endif
