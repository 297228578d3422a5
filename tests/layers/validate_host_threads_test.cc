// SPDX-License-Identifier: Apache-2.0
//
// The actors of host threads, and what the threads tell each other.

#include <gtest/gtest.h>

#include <thread>

#include "layers/validate/host_threads.h"

namespace devrt::race {
namespace {

constexpr uint64_t kStart = 1;
constexpr uint64_t kEnd = 2;

class HostThreadsTest : public ::testing::Test {
 protected:
  HostThreadsTest() { threads_.SetExact(true); }

  // Runs the body on a thread that comes after the calling one, and before what
  // the calling one does next.
  template <typename Body>
  void InThread(Body body) {
    threads_.Release(kStart);
    std::thread([&] {
      threads_.Acquire(kStart);
      body();
      threads_.Release(kEnd);
      threads_.EndCurrent();
    }).join();
    threads_.Acquire(kEnd);
  }
  Epoch Act() { return order_.HostAction(threads_.Current()); }
  bool Knows(Epoch epoch) {
    return order_.ClockOf(threads_.Current()).Knows(epoch);
  }

  Order order_;
  HostThreads threads_{&order_, [] {}};
};

TEST_F(HostThreadsTest, AThreadKnowsWhatItAcquires) {
  const Epoch before = Act();
  threads_.Release(kStart);
  const Epoch after = Act();
  Epoch inside;
  Epoch late;
  std::thread([&] {
    EXPECT_NE(threads_.CurrentNumber(), 0U);
    EXPECT_FALSE(Knows(before));
    threads_.Acquire(kStart);
    EXPECT_TRUE(Knows(before));
    EXPECT_FALSE(Knows(after));
    inside = Act();
    threads_.Release(kEnd);
    late = Act();
  }).join();
  EXPECT_FALSE(Knows(inside));
  threads_.Acquire(kEnd);
  EXPECT_TRUE(Knows(inside));
  EXPECT_FALSE(Knows(late));
}

TEST_F(HostThreadsTest, AnObjectThatIsGoneTellsNothing) {
  const Epoch before = Act();
  threads_.Release(kStart);
  threads_.Forget(kStart);
  std::thread([&] {
    threads_.Acquire(kStart);
    EXPECT_FALSE(Knows(before));
  }).join();
}

TEST_F(HostThreadsTest, NumbersOfJoinedThreadsAreUsedAgain) {
  for (int i = 0; i < 500; ++i) InThread([&] { Act(); });
  EXPECT_LE(order_.size(), 3U);
}

TEST_F(HostThreadsTest, NumbersOfUnknownThreadsAreBounded) {
  for (int i = 0; i < 3000; ++i) {
    std::thread([&] {
      Act();
      threads_.EndCurrent();
    }).join();
  }
  EXPECT_LE(order_.size(), 1100U);
}

// A thread that nobody joined has released a lock.  A later thread has its
// number, and knows its last action.
TEST_F(HostThreadsTest, ANumberThatIsUsedAgainInventsNoKnowledgeOfOthers) {
  constexpr uint64_t kLock = 77;
  const Epoch before = Act();
  threads_.Release(kStart);
  std::thread([&] {
    threads_.Acquire(kStart);
    Act();
    threads_.Release(kLock);
    Act();
    threads_.EndCurrent();
  }).join();
  // As many as it takes until the first number is used again.
  for (int i = 0; i < 1100; ++i) {
    std::thread([&] {
      Act();
      threads_.Release(kEnd);
      threads_.EndCurrent();
    }).join();
  }
  std::thread([&] {
    threads_.Acquire(kEnd);   // knows the numbers of all those threads
    threads_.Acquire(kLock);  // and so this brings no news, it would seem
    EXPECT_TRUE(Knows(before));
    threads_.EndCurrent();
  }).join();
}

TEST_F(HostThreadsTest, WhatOneThreadDoesNotKnowIsNotForgotten) {
  const Epoch before = Act();
  EXPECT_TRUE(threads_.KnownToAll().Knows(before));
  InThread([&] {
    EXPECT_TRUE(threads_.KnownToAll().Knows(before));
    const Epoch inside = Act();
    EXPECT_FALSE(threads_.KnownToAll().Knows(inside));
    EXPECT_TRUE(threads_.KnownToAny().Knows(inside));
  });
}

TEST_F(HostThreadsTest, ObjectsThatAllThreadsKnowAreDropped) {
  const Epoch before = Act();
  for (uint64_t object = 10; object < 20; ++object) threads_.Release(object);
  threads_.ForgetKnown(threads_.KnownToAll());
  EXPECT_EQ(threads_.objects(), 0U);
  std::thread([&] {
    EXPECT_FALSE(Knows(before));
    threads_.Acquire(10);
    EXPECT_TRUE(Knows(before));
  }).join();
}

TEST_F(HostThreadsTest, TooManyObjectsLoseNoOrder) {
  const Epoch before = Act();
  threads_.Release(kStart);
  for (uint64_t object = 10; object < 100'000; ++object) {
    threads_.Release(object);
  }
  std::thread([&] {
    threads_.Acquire(kStart);
    EXPECT_TRUE(Knows(before));
  }).join();
}

TEST_F(HostThreadsTest, AHostFunctionKnowsItsStreamAlone) {
  const Actor stream = order_.AddStream(threads_.Current(), {});
  const Epoch work = order_.Submit(threads_.Current(), stream);
  const Mark before = order_.MarkOfStream(stream);
  const Epoch later = Act();
  EXPECT_FALSE(Knows(work));
  threads_.BeginFunction(before);
  EXPECT_TRUE(Knows(work));
  EXPECT_FALSE(Knows(later));
  threads_.Release(kEnd);
  threads_.EndFunction();
  EXPECT_FALSE(Knows(work));
  EXPECT_TRUE(threads_.Completed().Knows(work));
  threads_.Acquire(kEnd);
  EXPECT_TRUE(Knows(work));
}

TEST_F(HostThreadsTest, ObservedOrderHasOneActor) {
  const Epoch exact = Act();
  threads_.SetExact(false);
  EXPECT_TRUE(Knows(exact));
  const Actor host = threads_.Current();
  EXPECT_EQ(threads_.CurrentNumber(), 0U);
  std::thread([&] { EXPECT_EQ(threads_.Current(), host); }).join();
  const Epoch observed = Act();
  threads_.SetExact(true);
  EXPECT_TRUE(Knows(observed));
  std::thread([&] { EXPECT_TRUE(Knows(observed)); }).join();
}

}  // namespace
}  // namespace devrt::race
