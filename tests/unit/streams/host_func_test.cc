// SPDX-License-Identifier: Apache-2.0
//
// Host functions: C41, C43 to C46.  What they may do: host_func_inside_test.cc.

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "devrt/devrt.h"
#include "tests/support/mtia_fixture.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

// Returns once `condition` holds, or after ten seconds.
template <typename Condition>
void Eventually(Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
  while (!condition() && std::chrono::steady_clock::now() < end) {
    std::this_thread::yield();
  }
}

using HostFuncTest = MtiaTest;

// C41
TEST_F(HostFuncTest, RunsOnceBetweenItsNeighbours) {
  InEverySchedule([] {
    OpLog log;
    Stream s = NewStream();
    std::atomic<int> calls{0};
    std::string before;
    ASSERT_OK(log.Mark(s, 'a'));
    ASSERT_OK(LaunchHostFunc(s, [&](absl::Status status) {
      EXPECT_TRUE(status.ok());
      before = log.text();
      ++calls;
    }));
    ASSERT_OK(log.Mark(s, 'b'));
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(before, "a");
    EXPECT_EQ(log.text(), "ab");
  });
}

// C41
TEST_F(HostFuncTest, RunsThoughItsStreamIsDestroyed) {
  InEverySchedule([] {
    std::atomic<int> calls{0};
    Flag gate = NewFlag();
    {
      Stream s = NewStream();
      ASSERT_OK(gate.WaitOn(s));
      ASSERT_OK(LaunchHostFunc(s, [&](absl::Status) { ++calls; }));
    }
    EXPECT_EQ(calls, 0);
    ASSERT_OK(gate.Set());
    ASSERT_OK(dev().Synchronize());
    EXPECT_EQ(calls, 1);
  });
}

// C41
TEST_F(HostFuncTest, AnEmptyFunctionIsRefused) {
  Stream s = NewStream();
  EXPECT_STATUS(LaunchHostFunc(s, HostFunc()), kInvalidArgument,
                "empty function");
  EXPECT_TRUE(*s.Query());
}

// The thread is the backend's, and others' functions run there, too.
// C41
TEST_F(HostFuncTest, PthreadExitEndsOnlyTheFunction) {
  InEverySchedule([] {
    LogCapture log;
    Stream s = NewStream();
    std::string ran;
    for (const char letter : {'a', 'b'}) {
      ASSERT_OK(LaunchHostFunc(
          s,
          [&ran, letter](absl::Status) {
            ran += letter;
            pthread_exit(nullptr);
          },
          CallSite{"somebody.cc", 7}));
    }
    ASSERT_OK(LaunchHostFunc(s, [&](absl::Status) { ran += 'c'; }));
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(ran, "abc");
    ASSERT_EQ(log.lines().size(), 2u);
    EXPECT_EQ(log.lines()[0].text,
              "a host function of mtia:0, launched at somebody.cc:7, called "
              "pthread_exit: it has ended there, and the stream goes on; "
              "return from the function instead");
  });
}

// C41
TEST_F(HostFuncTest, ExceptionsNameTheLaunch) {
  LogCapture log;
  Stream s = NewStream();
  ASSERT_OK(LaunchHostFunc(
      s, [](absl::Status) { throw std::runtime_error("odd"); },
      CallSite{"somebody.cc", 8}));
  ASSERT_OK(s.Synchronize());
  ASSERT_EQ(log.lines().size(), 1u);
  EXPECT_EQ(log.lines()[0].text,
            "a host function of mtia:0, launched at somebody.cc:8, threw: odd");
}

// C41
TEST_F(HostFuncTest, ItsThreadIsNotTheProgramsToCancel) {
  InEverySchedule([] {
    Stream s = NewStream();
    std::string ran;
    ASSERT_OK(LaunchHostFunc(s, [&](absl::Status) {
      pthread_cancel(pthread_self());
      pthread_testcancel();
      ran += 'a';
    }));
    ASSERT_OK(LaunchHostFunc(s, [&](absl::Status) { ran += 'b'; }));
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(ran, "ab");
  });
}

// A thread that is cancelled while it waits for the device ends afterwards,
// with the device in order.
// C41
TEST_F(HostFuncTest, AWaitingThreadIsCancelledBehindItsWait) {
  for (const char* mode : {"virtual", "threaded"}) {
    SCOPED_TRACE(mode);
    Reset(std::string("mode=") + mode);
    Stream s = NewStream();
    std::promise<void> begun;
    std::promise<void> cancelled;
    std::string ran;
    ASSERT_OK(LaunchHostFunc(s, [&](absl::Status) {
      begun.set_value();
      cancelled.get_future().wait();
      ran += 'a';
    }));
    std::thread waiter([&] {
      EXPECT_OK(s.Synchronize());
      ran += 'b';
      pthread_testcancel();
      ran += 'c';
    });
    begun.get_future().wait();
    pthread_cancel(waiter.native_handle());
    cancelled.set_value();
    waiter.join();
    EXPECT_EQ(ran, "ab");
    EXPECT_OK(LaunchHostFunc(s, [&](absl::Status) { ran += 'd'; }));
    EXPECT_OK(dev().Synchronize());
    EXPECT_EQ(ran, "abd");
  }
}

// C43
TEST_F(HostFuncTest, WaitingForALaterOperationIsReported) {
  for (const char* mode : {"virtual", "threaded"}) {
    SCOPED_TRACE(mode);
    Reset(std::string("watchdog=50ms,mode=") + mode);
    Stream s = NewStream();
    std::promise<void> later;
    ASSERT_OK(
        LaunchHostFunc(s, [&](absl::Status) { later.get_future().wait(); }));
    std::atomic<bool> ran{false};
    ASSERT_OK(LaunchHostFunc(s, [&](absl::Status) { ran = true; }));
    absl::Status status = s.Synchronize();
    EXPECT_STATUS(status, kFailedPrecondition, "deadlock");
    EXPECT_STATUS(status, kFailedPrecondition, "host function");
    EXPECT_FALSE(ran);
    later.set_value();
    EXPECT_OK(s.Synchronize());
    EXPECT_TRUE(ran);
  }
}

// C44
TEST_F(HostFuncTest, UnorderedFunctionsRunInAnyOrder) {
  ExpectOutcomes({1, 2}, [] {
    Stream a = NewStream();
    Stream b = NewStream();
    std::atomic<int64_t> first{0};
    auto arrive = [&first](int64_t who) {
      int64_t none = 0;
      first.compare_exchange_strong(none, who);
    };
    EXPECT_OK(LaunchHostFunc(a, [&](absl::Status) { arrive(1); }));
    EXPECT_OK(LaunchHostFunc(b, [&](absl::Status) { arrive(2); }));
    EXPECT_OK(dev().Synchronize());
    return first.load();
  });
}

// C45
TEST_F(HostFuncTest, AfterAFaultEachIsCalledOnceWithTheError) {
  InEverySchedule([] {
    // The fault is known only after the first two were accepted.
    Flag gate = NewFlag();
    std::atomic<int> calls[3] = {};
    std::atomic<int> failed[3] = {};
    Stream s = NewStream();
    Stream t = NewStream();
    ASSERT_OK(gate.WaitOn(s));
    ASSERT_OK(CommitFault(s, FaultForm::kAssert));
    const auto launch = [&](StreamRef stream, int i) {
      return LaunchHostFunc(stream, [&, i](absl::Status why) {
        ++calls[i];
        if (!why.ok()) ++failed[i];
      });
    };
    ASSERT_OK(launch(s, 0));
    ASSERT_OK(launch(s, 1));
    ASSERT_OK(launch(t, 2));
    ASSERT_OK(gate.Set());
    EXPECT_FALSE(dev().Synchronize().ok());
    // Waiting threads are released before the functions are called
    // (docs/reference/semantics.md 2.5).
    Eventually([&] { return calls[0] + calls[1] + calls[2] == 3; });
    for (int i = 0; i < 3; ++i) EXPECT_EQ(calls[i], 1) << i;
    EXPECT_EQ(failed[0], 1);
    EXPECT_EQ(failed[1], 1);
    EXPECT_LE(failed[2], 1);  // t's may have run before
    // Nothing is taken any more.
    EXPECT_FALSE(launch(t, 2).ok());
    EXPECT_EQ(calls[2], 1);
  });
}

// C45
TEST_F(HostFuncTest, ClosuresAreNotLost) {
  InEverySchedule([] {
    auto owned = std::make_shared<int>(1);
    {
      Stream s = NewStream();
      ASSERT_OK(CommitFault(s, FaultForm::kNullWrite));
      (void)LaunchHostFunc(s, [owned](absl::Status) {});
      EXPECT_FALSE(s.Synchronize().ok());
    }
    Reset("");
    // The backend's thread gives it back in its own time; whoever calls next
    // cleans up.
    Eventually([&] {
      EXPECT_OK(NewStream().Synchronize());
      return owned.use_count() == 1;
    });
    EXPECT_EQ(owned.use_count(), 1);
  });
}

// C46
TEST_F(HostFuncTest, CopiedBytesAreVisibleInside) {
  InEverySchedule([] {
    Cell x(dev());
    auto pinned = AllocateHost(dev(), 8);
    ASSERT_OK(pinned);
    auto* host = static_cast<int64_t*>(*pinned);
    *host = 0;
    Stream s = NewStream();
    int64_t seen = 0;
    ASSERT_OK(Put(s, x, 42));
    ASSERT_OK(CopyAsync(s, host, x.ptr(), 8));
    ASSERT_OK(LaunchHostFunc(s, [&](absl::Status) { seen = *host; }));
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(seen, 42);
    EXPECT_OK(FreeHost(host));
  });
}

}  // namespace
}  // namespace devrt::testing
