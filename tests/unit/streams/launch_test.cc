// SPDX-License-Identifier: Apache-2.0
//
// Launch: the user's own kernels.

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>

#include "devrt/devrt.h"
#include "tests/support/mtia_fixture.h"
#include "tests/support/spy_backend.h"
#include "tests/support/status_matchers.h"

namespace devrt::testing {
namespace {

using LaunchTest = MtiaTest;

TEST_F(LaunchTest, TheFunctionIsTheKernel) {
  InEverySchedule([] {
    Cell x(dev(1));
    Stream s = NewStream(dev(1));
    int64_t* p = x.ptr();
    ASSERT_OK(Launch(s, {ReadWrite(p, 8)}, [p](const LaunchContext& k) {
      EXPECT_TRUE(k.on_host());
      EXPECT_EQ(k.device(), MtiaTest::dev(1));
      EXPECT_EQ(k.native_stream(), nullptr);
      *k.Local(p) = 7;
    }));
    ASSERT_OK(s.Synchronize());
    EXPECT_EQ(x.Peek(), 7);
  });
}

TEST_F(LaunchTest, FailuresAreAssertions) {
  enum How { kStatus, kFail, kThrow };
  for (How how : {kStatus, kFail, kThrow}) {
    InEverySchedule([how] {
      Stream s = NewStream();
      ASSERT_OK(Launch(s, {}, [how](const LaunchContext& k) -> absl::Status {
        if (how == kStatus) return absl::DataLossError("seven is odd");
        if (how == kFail) k.Fail("seven is odd");
        if (how == kThrow) throw std::runtime_error("seven is odd");
        return absl::OkStatus();
      }));
      absl::Status status = s.Synchronize();
      EXPECT_STATUS(status, kInternal, "seven is odd");
      EXPECT_EQ(GetErrorInfo(status)->native_code, 710);
    });
  }
}

// It runs on a thread of the simulator's or on any thread that calls devrt.
TEST_F(LaunchTest, PthreadExitIsAnAssertion) {
  InEverySchedule([] {
    Stream s = NewStream();
    ASSERT_OK(Launch(
        s, {}, [](const LaunchContext&) { pthread_exit(nullptr); },
        LaunchOptions(), CallSite{"somebody.cc", 7}));
    absl::Status status = s.Synchronize();
    EXPECT_STATUS(status, kInternal, "the kernel called pthread_exit");
    EXPECT_STATUS(status, kInternal, "submitted at somebody.cc:7");
    EXPECT_EQ(GetErrorInfo(status)->native_code, 710);
  });
}

TEST_F(LaunchTest, CancellationWaitsForTheProgramsOwnCode) {
  InEverySchedule([] {
    Stream s = NewStream();
    std::string ran;
    std::thread([&] {
      const pthread_t self = pthread_self();
      EXPECT_OK(Launch(s, {}, [&, self](const LaunchContext&) {
        pthread_cancel(self);
        pthread_testcancel();
        ran += 'a';
      }));
      EXPECT_OK(s.Synchronize());
      ran += 'b';
      pthread_testcancel();
      ran += 'c';
    }).join();
    EXPECT_EQ(ran, "ab");
    EXPECT_OK(dev().Synchronize());
  });
}

// Where it enqueues by itself it runs on the program's own thread.
TEST_F(LaunchTest, OffTheHostTheFunctionMayEndItsThread) {
  SpyBackend& spy = SpyBackend::Get();
  spy.Reset();
  Stream s = Must(Stream::Create(spy.device(1)));
  bool returned = false;
  std::thread([&] {
    (void)Launch(s, {}, [](const LaunchContext&) { pthread_exit(nullptr); });
    returned = true;
  }).join();
  EXPECT_FALSE(returned);
  EXPECT_EQ(spy.Count("context_enter"), 1);
  EXPECT_EQ(spy.Count("context_exit"), 1);
  EXPECT_OK(s.Synchronize());
}

TEST_F(LaunchTest, TheFunctionIsDestroyedOnceInEveryCase) {
  InEverySchedule([] {
    auto owned = std::make_shared<int>(0);
    {
      Stream s = NewStream();
      ASSERT_OK(Launch(s, {}, [owned](const LaunchContext&) {}));
      ASSERT_OK(s.Synchronize());
      ASSERT_OK(CommitFault(s, FaultForm::kTrap));
      // Discarded by the fault, or refused because it is known already.
      (void)Launch(s, {}, [owned](const LaunchContext&) {});
      EXPECT_FALSE(s.Synchronize().ok());
      StreamRef gone = [] { return NewStream(dev(1)).ref(); }();
      EXPECT_STATUS(Launch(gone, {}, [owned](const LaunchContext&) {}),
                    kInvalidArgument, "destroyed");
    }
    Reset("");
    EXPECT_EQ(owned.use_count(), 1);
  });
}

// A worker of threaded mode destroys the function behind the operation's end.
TEST_F(LaunchTest, ResetWaitsForAFunctionThatIsBeingDestroyed) {
  Reset("mode=threaded");
  std::atomic<bool> destroyed{false};
  {
    std::shared_ptr<int> owned(new int, [&](int* p) {
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      delete p;
      destroyed = true;
    });
    Stream s = NewStream();
    ASSERT_OK(
        Launch(s, {}, [held = std::move(owned)](const LaunchContext&) {}));
    ASSERT_OK(s.Synchronize());
  }
  Reset("");
  EXPECT_TRUE(destroyed);
}

// Overlapping kernels see each other's writes or not: the declared ranges make
// a lost update reachable.
TEST_F(LaunchTest, UnorderedUpdatesMayBeLost) {
  ExpectOutcomes({1, 2}, [] {
    Cell x(dev());
    Stream s = NewStream();
    Stream t = NewStream();
    int64_t* p = x.ptr();
    for (StreamRef stream : {s.ref(), t.ref()}) {
      EXPECT_OK(Launch(stream, {ReadWrite(p, 8)},
                       [p](const LaunchContext& k) { ++*k.Local(p); }));
    }
    EXPECT_OK(dev().Synchronize());
    return x.Peek();
  });
}

TEST_F(LaunchTest, UnorderedReductionsAreNotLost) {
  ExpectOutcomes({2}, [] {
    Cell x(dev());
    Stream s = NewStream();
    Stream t = NewStream();
    int64_t* p = x.ptr();
    for (StreamRef stream : {s.ref(), t.ref()}) {
      EXPECT_OK(Launch(stream, {Reduction(p, 8)}, [p](const LaunchContext& k) {
        __atomic_fetch_add(k.Local(p), 1, __ATOMIC_RELAXED);
      }));
    }
    EXPECT_OK(dev().Synchronize());
    return x.Peek();
  });
}

// It has work: the next stream is another one.
TEST_F(LaunchTest, AStreamWithAKernelIsNotHandedOut) {
  Reset("mode=threaded");
  std::mutex mutex;
  std::unique_lock<std::mutex> lock(mutex);
  {
    Stream s = NewStream();
    ASSERT_OK(Launch(s, {}, [&mutex](const LaunchContext&) {
      const std::lock_guard<std::mutex> until_released(mutex);
    }));
  }
  {
    Stream next = NewStream();
    EXPECT_TRUE(Must(next.Query()));
    EXPECT_EQ(Must(sim().Stats()).created_streams, 2u);
  }
  lock.unlock();
  ASSERT_OK(dev().Synchronize());
}

}  // namespace
}  // namespace devrt::testing
