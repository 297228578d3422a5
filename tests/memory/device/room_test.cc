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
#include <string>
#include <thread>
#include <utility>

#include "devrt/memory/devrt_memory.h"
#include "devrt/memory/pinned_memory.h"
#include "memory/device/memory_in_flight.h"
#include "memory/device/pending_frees.h"
#include "memory/external/graph_pool.h"
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
TEST_F(MemoryRoom, WaitsForBlocksThatAnotherThreadSettles) {
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
  EXPECT_OK(pending.WaitForAll());
  EXPECT_TRUE(g_is_settled);
  g_is_back = true;
  other.join();
  EXPECT_TRUE(pending.empty());
}

// The calling thread's own are not: it would wait for itself where a log sink
// allocates while a block is settled.
internal::PendingFrees* g_pending = nullptr;

void SettleAndWait(void*) {
  EXPECT_OK(g_pending->WaitForAll());
  g_is_settled = true;
}

TEST_F(MemoryRoom, DoesNotWaitForBlocksThatItSettlesItself) {
  Stream s = NewStream();
  internal::PendingFrees pending(&SettleAndWait);
  g_pending = &pending;
  g_is_settled = false;
  internal::PendingFree item;
  int block = 0;
  item.block = &block;
  EXPECT_OK(Launch(s, {}, [](const LaunchContext&) {}));
  internal::Timeline* const timeline = internal::TimelineOf(s);
  item.uses.push_back({{timeline, timeline->Now()}, s.id()});
  pending.Add(std::move(item));
  EXPECT_OK(s.Synchronize());
  EXPECT_TRUE(pending.Poll(SIZE_MAX));
  EXPECT_TRUE(g_is_settled);
  EXPECT_TRUE(pending.empty());
}

TEST(MemoryInFlight, ThisThreadsOwnAreNotWaitedFor) {
  internal::MemoryInFlight in_flight;
  const internal::MemoryInFlight::Ended before = in_flight.CountEnded();
  const internal::MemoryInFlight::Scope own(&in_flight);
  EXPECT_FALSE(in_flight.HaveEnded(before));
}

// A segment on its way to the driver makes room when it is there.
TEST(MemoryRoomOfASpy, WaitsForSegmentsOnTheWayToTheDriver) {
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

// ---- What nobody waits for --------------------------------------------------

constexpr const char* kModes[] = {"", ",mode=threaded"};

// `stream`, of a healthy device, gets work that waits for a device which is
// lost: every query of the stream fails from now on.
void Fail(StreamRef stream) {
  Stream lost = MtiaTest::NewStream(MtiaTest::dev(1));
  Event event = MtiaTest::NewEvent(MtiaTest::dev(1));
  Flag gate = MtiaTest::NewFlag(MtiaTest::dev(1));
  ASSERT_OK(gate.WaitOn(lost));
  ASSERT_OK(
      Launch(lost, {}, [](const LaunchContext& c) { c.Fail("it is lost"); }));
  ASSERT_OK(event.Record(lost));
  ASSERT_OK(stream.Wait(event));
  ASSERT_OK(Launch(stream, {}, [](const LaunchContext&) {}));
  ASSERT_OK(gate.Set());
  EXPECT_FALSE(lost.Synchronize().ok());
  EXPECT_FALSE(stream.Synchronize().ok());
  EXPECT_OK(stream.device().Health());
}

// The wait ends with the query's error, and the block stays out of use.
TEST_F(MemoryRoom, AStreamBehindALostDeviceIsNotWaitedFor) {
  for (const char* mode : kModes) {
    SCOPED_TRACE(mode);
    Reset(std::string("memory=256MiB") + mode);
    std::optional<Stream> home = NewStream();
    std::optional<Stream> failed = NewStream();
    char* const x = New(*home, 150 * kMiB);
    EXPECT_OK(RecordStream(x, *failed));
    Fail(*failed);
    EXPECT_OK(FreeMemory(x));
    EXPECT_STATUS(AllocateMemory(*home, 150 * kMiB), kResourceExhausted,
                  "was not waited for: ");
    EXPECT_EQ(Read().num_ooms, 1);
    char* const y = New(*home, 50 * kMiB);
    EXPECT_TRUE(y + 50 * kMiB <= x || y >= x + 150 * kMiB);
    EXPECT_OK(FreeMemory(y));
    home.reset();
    failed.reset();
    Reset("memory=256MiB");
    EXPECT_EQ(Read().active_bytes.all.current, 0);
    ledger().ResetAccumulated();
  }
}

// The last step of the recovery waits for blocks that the failed stream itself
// freed.
TEST_F(MemoryRoom, MemoryOfAFailedStreamIsNotWaitedFor) {
  for (const char* mode : kModes) {
    SCOPED_TRACE(mode);
    Reset(std::string("memory=256MiB") + mode);
    std::optional<Stream> home = NewStream();
    std::optional<Stream> failed = NewStream();
    char* const x = New(*failed, 150 * kMiB);
    Fail(*failed);
    EXPECT_OK(FreeMemory(x));
    EXPECT_STATUS(AllocateMemory(*home, 150 * kMiB), kResourceExhausted,
                  "was not waited for: ");
    home.reset();
    failed.reset();
    Reset("memory=256MiB");
  }
}

TEST_F(MemoryRoom, APinnedBlockOfAFailedStreamIsNotWaitedFor) {
  for (const char* mode : kModes) {
    SCOPED_TRACE(mode);
    Reset(std::string("memory=256MiB") + mode);  // 64 of pinned memory
    std::optional<Stream> failed = NewStream();
    void* const x = Must(AllocatePinned(dev(), 40 * kMiB));
    EXPECT_OK(RecordPinnedUse(x, *failed));
    Fail(*failed);
    EXPECT_OK(FreePinned(x));
    EXPECT_STATUS(AllocatePinned(dev(), 40 * kMiB), kResourceExhausted,
                  "was not waited for: ");
    EXPECT_OK(FreePinned(Must(AllocatePinned(dev(), 16 * kMiB))));
    failed.reset();
    // The reset ends, and the block is not handed out behind it.
    Reset("memory=256MiB");
    const PinnedStatistics s = GetPinnedStatistics(dev().backend());
    EXPECT_EQ(s.active_requests.current, 0);
    EXPECT_EQ(s.allocated_bytes.current, 0);
    EXPECT_THAT(IsPinned(x), IsOkAndHolds(false));
  }
}

// A stream that gets work all the time is never seen idle: an event behind the
// work that it has by now ends the wait.
TEST(MemoryRoomOfASpy, ABusyStreamIsWaitedForByAnEvent) {
  SpyBackend& spy = SpyBackend::Get();
  Stream s = Must(Stream::Create(spy.device(0)));
  Must(s.Native());
  internal::Timeline* const timeline = internal::TimelineOf(s);
  const internal::OrderPoint use = {timeline, timeline->Now()};
  spy.Reset();
  spy.SetBusy(true);
  spy.OnNext("event_record", [&] { spy.SetBusy(false); });
  EXPECT_OK(internal::WaitFor(use));
  EXPECT_TRUE(timeline->IsComplete(use.epoch));
  EXPECT_EQ(spy.Count("event_record"), 1);
}

// An event that cannot be made, recorded or asked ends the wait with its error:
// a stream that gets work all the time would never be seen idle.  Here it is
// idle after some questions, so that a wait that goes on ends too.
TEST(MemoryRoomOfASpy, AnEventThatFailsEndsTheWait) {
  SpyBackend& spy = SpyBackend::Get();
  // No event of this device is made yet: the first failure is of the first one.
  const Device device = spy.device(1);
  for (const char* slot : {"event_create", "event_record", "event_query"}) {
    SCOPED_TRACE(slot);
    Stream s = Must(Stream::Create(device));
    Must(s.Native());
    internal::Timeline* const timeline = internal::TimelineOf(s);
    const internal::OrderPoint use = {timeline, timeline->Now()};
    spy.Reset();
    spy.SetBusy(true);
    constexpr int kQuestions = 6;
    for (int i = 1; i <= kQuestions; ++i) {
      spy.Fail(slot, absl::StatusCode::kInternal);
    }
    std::function<void()> ask = [&] {
      if (spy.Count("stream_query") == kQuestions) return spy.SetBusy(false);
      spy.OnNext("stream_query", ask);
    };
    ask();
    EXPECT_STATUS(internal::WaitFor(use), kInternal, slot);
    EXPECT_FALSE(timeline->IsComplete(use.epoch));
    spy.Reset();
  }
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

// ---- Memory of graphs -------------------------------------------------------

// EmptyCache lists free segments, then gives them back one by one.  What a new
// pool of a graph has used between the two stays: the list names a segment that
// is free again as of an epoch that did not change.
TEST(MemoryRoomOfASpy, SegmentOfANewPoolSurvivesEmptyCache) {
  SpyBackend& spy = SpyBackend::Get();
  spy.SetMemory(64 * kMiB);
  const Device device = spy.device(0);
  Stream first = Must(Stream::Create(device));
  Stream second = Must(Stream::Create(device));
  ASSERT_OK(EmptyCache(device));
  auto pool = Must(internal::GraphPool::Make(device));
  const CallSite site;
  void* const x = Must(pool->Allocate(first, 20 * kMiB, site));
  void* const y = Must(pool->Allocate(second, 20 * kMiB, site));
  ASSERT_OK(FreeMemory(x));
  ASSERT_OK(FreeMemory(y));
  pool.reset();
  spy.Reset();
  spy.OnNext("dealloc", [&] {
    pool = Must(internal::GraphPool::Make(device));
    EXPECT_EQ(Must(pool->Allocate(second, 20 * kMiB, site)), y);
    EXPECT_OK(FreeMemory(y));
  });
  EXPECT_OK(EmptyCache(device));
  ASSERT_NE(pool, nullptr);
  EXPECT_EQ(spy.Count("dealloc"), 1) << "the graph may write to y";
  EXPECT_EQ(Must(pool->Allocate(second, 20 * kMiB, site)), y);
  EXPECT_OK(FreeMemory(y));
  pool.reset();
  EXPECT_OK(EmptyCache(device));
  EXPECT_EQ(spy.Count("dealloc"), 2);
}

}  // namespace
}  // namespace devrt::testing
