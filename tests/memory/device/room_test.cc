// SPDX-License-Identifier: Apache-2.0
//
// A request is refused only where there is no room: what other threads have
// under way is waited for, and so is what nobody but the device can tell of.

#include <sched.h>

#include <atomic>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "devrt/memory/devrt_memory.h"
#include "devrt/memory/internal/pending_frees.h"
#include "devrt/memory/pinned_memory.h"
#include "tests/memory/device/cache_fixture.h"
#include "tests/support/spy_backend.h"

namespace devrt::testing {
namespace {

using internal::kMiB;

// Until `done`, but not for ever: what is waited for must not come.
void LetOthersRun(const std::function<bool()>& done) {
  for (int i = 0; i < 50 && !done(); ++i) sched_yield();
}

// ---- What is under way ------------------------------------------------------

std::atomic<bool> g_is_settling{false};
std::atomic<bool> g_is_seen{false};
std::atomic<bool> g_is_settled{false};
std::atomic<bool> g_is_back{false};

void SettleSlowly(void*) {
  g_is_settling = true;
  while (!g_is_seen) sched_yield();
  LetOthersRun([] { return g_is_back.load(); });
  g_is_settled = true;
}

class MemoryRoom : public DeviceCacheTest {};

// A block that another thread's poll took out, and has yet to give back.
TEST_F(MemoryRoom, WhatAnotherThreadSettlesIsWaitedFor) {
  Reset("memory=256MiB,mode=threaded");
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
  g_is_seen = true;
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

// ---- What only the device can tell ------------------------------------------

// Runs `body` in a thread that lives until the test is over: its per-thread
// stream does not end, and nobody else may ask it.
class WithThread {
 public:
  explicit WithThread(const std::function<void()>& body)
      : thread_([this, body] {
          body();
          is_done_.set_value();
          may_end_.get_future().wait();
        }) {
    is_done_.get_future().wait();
  }
  ~WithThread() {
    may_end_.set_value();
    thread_.join();
  }

 private:
  std::promise<void> is_done_;
  std::promise<void> may_end_;
  std::thread thread_;
};

TEST_F(MemoryRoom, APerThreadStreamOfAnotherThread) {
  const WithThread other([] {
    const absl::StatusOr<StreamRef> s = PerThreadDefaultStream(dev());
    ASSERT_OK(s.status());
    char* x = New(*s, 150 * kMiB);
    EXPECT_OK(FillAsync(*s, x, 1, kMiB));
    EXPECT_OK(FreeMemory(x));
  });
  EXPECT_OK(FreeMemory(New(DefaultStream(dev()), 150 * kMiB)));
}

// Adopted without an owner, and ended.
TEST_F(MemoryRoom, AnAdoptedStreamThatHasEnded) {
  Stream home = NewStream();
  Stream owner = NewStream();
  char* x = New(home, 150 * kMiB);
  {
    Stream adopted = Must(Stream::FromNative(dev(), Must(owner.Native())));
    EXPECT_OK(RecordStream(x, adopted));
    EXPECT_OK(FillAsync(adopted, x, 1, kMiB));
  }
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(owner.Synchronize());
  EXPECT_OK(FreeMemory(New(home, 150 * kMiB)));
}

TEST_F(MemoryRoom, APinnedBlockThatAnotherThreadsStreamUses) {
  void* x = Must(AllocatePinned(dev(), 40 * kMiB));
  const WithThread other([x] {
    const absl::StatusOr<StreamRef> s = PerThreadDefaultStream(dev());
    ASSERT_OK(s.status());
    EXPECT_OK(RecordPinnedUse(x, *s));
  });
  EXPECT_OK(FreePinned(x));
  void* y = Must(AllocatePinned(dev(), 40 * kMiB));
  EXPECT_OK(FreePinned(y));
  EXPECT_OK(EmptyPinnedCache(dev().backend()));
}

// By devrt_memory.h the native stream is alive until then: its end is known
// without the device's.
TEST_F(MemoryRoom, AStreamThatEndsByTheCFunctions) {
  Stream home = NewStream();
  Stream owner = NewStream();
  Flag gate = NewFlag();
  void* const native = Must(owner.Native());
  const std::string name = dev().name();
  char* x = New(home, 4096);
  EXPECT_OK(gate.WaitOn(owner));
  EXPECT_EQ(devrt_memory_record_stream_v0(x, name.c_str(), native), 0);
  EXPECT_EQ(devrt_memory_stream_ends_v0(name.c_str(), native), 0);
  EXPECT_EQ(devrt_memory_free_v0(x), 0);
  char* y = New(home, 4096);
  EXPECT_NE(y, x);
  EXPECT_OK(gate.Set());
  EXPECT_OK(owner.Synchronize());
  EXPECT_EQ(New(home, 4096), x);
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(FreeMemory(y));
}

// ---- What may be gone -------------------------------------------------------

// A stream that was adopted without its owner is touched in calls that name it,
// and in no others (C17, F22).
TEST(MemoryRoomOfASpy, AStreamThatMayBeGoneIsNotTouched) {
  SpyBackend& spy = SpyBackend::Get();
  spy.SetMemory(64 * kMiB);
  const Device device = spy.device(0);
  Stream home = Stream::Create(device).value();
  int native = 0;
  std::optional<Stream> adopted = Stream::FromNative(device, &native).value();
  void* x = AllocateMemory(home, 4096).value();
  void* own = AllocateMemory(*adopted, 4096).value();
  spy.Reset();
  spy.SetBusy(true);
  EXPECT_OK(RecordStream(x, *adopted));
  EXPECT_EQ(spy.Count("event_record"), 1) << "what is submitted so far";
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(FreeMemory(own));
  EXPECT_EQ(spy.Count("event_record"), 1);
  spy.SetBusy(false);
  void* y = AllocateMemory(home, 4096).value();  // polls
  EXPECT_NE(y, x) << "the mark is open up to the free";
  EXPECT_EQ(spy.Count("event_query"), 1);
  EXPECT_EQ(spy.Count("stream_query"), 0);
  adopted.reset();
  EXPECT_EQ(spy.Count("event_record"), 1);
  EXPECT_OK(FreeMemory(y));
  EXPECT_OK(device.Synchronize());
  EXPECT_EQ(AllocateMemory(home, 4096).value_or(nullptr), x);
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(home.Synchronize());
  EXPECT_OK(EmptyCache(device));
  EXPECT_EQ(spy.bad_handles(), 0);
}

}  // namespace
}  // namespace devrt::testing
