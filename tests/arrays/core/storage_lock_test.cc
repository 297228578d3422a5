// SPDX-License-Identifier: Apache-2.0

#include "arrays/storage/storage_lock.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace devrt::internal {
namespace {

void OnThreads(int threads, const std::function<void()>& body) {
  std::vector<std::thread> running;
  for (int i = 0; i < threads; ++i) running.emplace_back(body);
  for (std::thread& thread : running) thread.join();
}

TEST(StorageLockTest, OneThreadAtATimeHasIt) {
  constexpr int kThreads = 4, kTimes = 4000;
  StorageLock lock;
  int count = 0, inside = 0, most = 0;
  OnThreads(kThreads, [&] {
    for (int i = 0; i < kTimes; ++i) {
      const StorageLockHolder hold(&lock);
      most = std::max(most, ++inside);
      if (i % 64 == 0) std::this_thread::yield();  // with the lock
      ++count;
      --inside;
    }
  });
  EXPECT_EQ(count, kThreads * kTimes);
  EXPECT_EQ(most, 1);
}

// A lost wake-up would leave a thread asleep.
TEST(StorageLockTest, ThreadsThatSleepGetItOneAfterTheOther) {
  constexpr int kThreads = 3, kRounds = 20;
  for (int round = 0; round < kRounds; ++round) {
    StorageLock lock;
    std::atomic<int> begun{0};
    int had_it = 0;
    lock.Lock();
    std::thread holder([&] {
      OnThreads(kThreads, [&] {
        ++begun;
        const StorageLockHolder hold(&lock);
        ++had_it;
      });
    });
    while (begun != kThreads) std::this_thread::yield();
    for (int i = 0; i < 200; ++i) std::this_thread::yield();  // they sleep
    EXPECT_EQ(had_it, 0);
    lock.Unlock();
    holder.join();
    EXPECT_EQ(had_it, kThreads);
  }
}

}  // namespace
}  // namespace devrt::internal
