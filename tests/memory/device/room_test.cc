// SPDX-License-Identifier: Apache-2.0
//
// A request is refused only where there is no room: what other threads have
// under way is waited for, and so is what nobody but the device can tell of.

#include <sched.h>

#include <atomic>
#include <functional>
#include <thread>
#include <utility>

#include "devrt/memory/internal/pending_frees.h"
#include "tests/memory/device/cache_fixture.h"
#include "tests/support/spy_backend.h"

namespace devrt::testing {
namespace {

using internal::kMiB;

// Until `done`, but not for ever: what is waited for must not come.
void LetOthersRun(const std::function<bool()>& done) {
  for (int i = 0; i < 200 && !done(); ++i) sched_yield();
}

// ---- What is under way ------------------------------------------------------

std::atomic<bool> g_is_settling{false};
std::atomic<bool> g_is_settled{false};
std::atomic<bool> g_is_back{false};

void SettleSlowly(void*) {
  g_is_settling = true;
  LetOthersRun([] { return g_is_back.load(); });
  g_is_settled = true;
}

class MemoryRoom : public DeviceCacheTest {};

// A block that another thread's poll took out, and has yet to give back.
TEST_F(MemoryRoom, WhatAnotherThreadSettlesIsWaitedFor) {
  Stream s = NewStream();
  Flag gate = NewFlag();
  EXPECT_OK(gate.WaitOn(s));
  internal::PendingFrees pending(&SettleSlowly);
  internal::PendingFree item;
  int block = 0;
  item.block = &block;
  internal::Timeline* const timeline = internal::TimelineOf(s);
  item.uses.push_back({{timeline, timeline->Now()}, s.id()});
  pending.Add(std::move(item));
  EXPECT_FALSE(pending.empty());
  EXPECT_OK(gate.Set());
  EXPECT_OK(s.Synchronize());
  std::thread other([&] { pending.Poll(SIZE_MAX); });
  while (!g_is_settling) sched_yield();
  EXPECT_FALSE(pending.empty());
  pending.WaitForAll();
  EXPECT_TRUE(g_is_settled);
  g_is_back = true;
  other.join();
  EXPECT_TRUE(pending.empty());
}

// A segment on its way to the driver makes room when it is there.
TEST(MemoryRoomOfASpy, WhatGoesToTheDriverIsWaitedFor) {
  SpyBackend& spy = SpyBackend::Get();
  spy.SetMemory(64 * kMiB);
  const Device device = spy.device(0);
  const absl::StatusOr<void*> x =
      AllocateMemory(DefaultStream(device), 60 * kMiB);
  ASSERT_OK(x.status());
  EXPECT_OK(FreeMemory(*x));
  spy.Reset();
  absl::StatusOr<void*> y = nullptr;
  std::atomic<bool> is_answered{false};
  std::thread other;
  // Inside the driver's call the memory is still there.
  spy.OnNext("dealloc", [&] {
    for (int i = 0; i < 3; ++i) {
      spy.Fail("alloc", absl::StatusCode::kResourceExhausted);
    }
    other = std::thread([&] {
      y = AllocateMemory(DefaultStream(device), 60 * kMiB);
      is_answered = true;
    });
    while (spy.Count("alloc") < 3) sched_yield();
    LetOthersRun([&] { return is_answered.load(); });
  });
  EXPECT_OK(EmptyCache(device));
  other.join();
  EXPECT_OK(y.status());
  EXPECT_EQ(spy.Count("alloc"), 4);
  EXPECT_OK(FreeMemory(*y));
  EXPECT_OK(EmptyCache(device));
}

// Two threads that have 200 of 256 MiB at most, used on a second stream each.
TEST_F(MemoryRoom, TwoThreadsThatFitAreNeverRefused) {
  Reset("memory=256MiB,mode=threaded");
  std::atomic<int> served{0};
  std::atomic<int> refused{0};
  InThreads(2, [&](int) {
    Stream home = NewStream();
    Stream other = NewStream();
    for (int i = 0; i < 3'000; ++i) {
      const absl::StatusOr<void*> x = AllocateMemory(home, 100 * kMiB);
      ++(x.ok() ? served : refused);
      if (!x.ok()) continue;
      EXPECT_OK(FillAsync(other, *x, 1, 512));
      EXPECT_OK(FreeMemory(*x));
    }
  });
  EXPECT_EQ(refused, 0);
  EXPECT_EQ(served, 6'000);
}

}  // namespace
}  // namespace devrt::testing
