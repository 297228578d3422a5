// SPDX-License-Identifier: Apache-2.0
//
// Expandable segments on mtia: pages of 2 MiB and 20 MiB.

#include <atomic>
#include <cstring>
#include <future>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "devrt/memory/history.h"
#include "devrt/memory/settings.h"
#include "devrt/runtime/log.h"
#include "devrt/streams/copy.h"
#include "tests/memory/device/cache_fixture.h"
#include "tests/support/spy_backend.h"
#include "tools/memory/snapshot_reader.h"

namespace devrt::testing {
namespace {

using internal::kMiB;
using ::testing::HasSubstr;

constexpr uint64_t kPage = 20 * kMiB;

class Expandable : public DeviceCacheTest {
 protected:
  void SetUp() override {
    DeviceCacheTest::SetUp();
    ASSERT_OK(SetAllocatorSettings("expandable_segments:True"));
    free_ = Free();
  }
  void TearDown() override {
    DeviceCacheTest::TearDown();
    ASSERT_OK(SetAllocatorSettings("expandable_segments:False"));
  }
  static int64_t Reserved() { return Read().reserved_bytes.all.current; }
  static uint64_t Free() { return dev().GetMemoryInfo()->free_bytes; }
  void ExpectReserved(uint64_t bytes) const {
    EXPECT_EQ(Reserved(), static_cast<int64_t>(bytes));
    EXPECT_EQ(free_ - Free(), bytes);
  }
  uint64_t free_ = 0;  // before
};

TEST_F(Expandable, GrowsInPlace) {
  Stream s = NewStream();
  char* a = New(s, 15 * kMiB);
  char* b = New(s, 15 * kMiB);  // 5 MiB of the first page, 10 of the second
  EXPECT_EQ(b, a + 15 * kMiB);
  ExpectReserved(2 * kPage);
  char* c = New(s, 70 * kMiB);
  EXPECT_EQ(c, b + 15 * kMiB);
  ExpectReserved(5 * kPage);
  const MemoryStatistics now = Read();
  EXPECT_EQ(now.segment.all.current, 0);
  EXPECT_EQ(now.inactive_split.all.current, 0);
  EXPECT_EQ(now.num_device_alloc, 5) << "pages";
  for (char* p : {a, b, c}) EXPECT_OK(FreeMemory(p));
  char* whole = New(s, 100 * kMiB);  // joined over all pages
  EXPECT_EQ(whole, a);
  ExpectReserved(5 * kPage);
  EXPECT_OK(FreeMemory(whole));
}

TEST_F(Expandable, SmallBlocksGrowApart) {
  Stream s = NewStream();
  std::vector<char*> blocks;
  for (int i = 0; i < 5; ++i) blocks.push_back(New(s, kMiB));
  for (int i = 1; i < 5; ++i) EXPECT_EQ(blocks[i], blocks[0] + i * kMiB);
  ExpectReserved(6 * kMiB);
  EXPECT_EQ(Read().reserved_bytes.small_pool.current,
            static_cast<int64_t>(6 * kMiB));
  char* large = New(s, kMiB + 1);
  ExpectReserved(6 * kMiB + kPage);
  for (char* p : blocks) EXPECT_OK(FreeMemory(p));
  EXPECT_OK(FreeMemory(large));
}

TEST_F(Expandable, PagesInTheMiddleGoBackAndCome) {
  Stream s = NewStream();
  char* a = New(s, 18 * kMiB);
  char* b = New(s, 64 * kMiB);  // from 18 to 82 MiB: three whole pages
  char* c = New(s, 18 * kMiB);
  ExpectReserved(5 * kPage);
  std::vector<char> text(18 * kMiB, 'x');
  ASSERT_OK(CopyAsync(s, c, text.data(), text.size()));
  ASSERT_OK(s.Synchronize());
  EXPECT_OK(FreeMemory(b));
  EXPECT_OK(EmptyCache(dev()));
  ExpectReserved(2 * kPage);
  EXPECT_EQ(Read().num_device_free, 3);
  std::memset(text.data(), 0, text.size());
  ASSERT_OK(CopyAsync(s, text.data(), c, text.size()));
  ASSERT_OK(s.Synchronize());
  EXPECT_EQ(text, std::vector<char>(18 * kMiB, 'x'));
  char* again = New(s, 64 * kMiB);
  EXPECT_EQ(again, b);
  ExpectReserved(5 * kPage);
  for (char* p : {a, again, c}) EXPECT_OK(FreeMemory(p));
}

// Pages come in one run and go back one by one: both are counted by the page.
TEST_F(Expandable, DeviceCallsAreCountedByThePage) {
  Stream s = NewStream();
  EXPECT_OK(FreeMemory(New(s, 60 * kMiB)));
  std::vector<char*> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(New(s, kPage));
  for (const int i : {1, 0, 2}) {
    EXPECT_OK(FreeMemory(blocks[i]));
    EXPECT_OK(s.Synchronize());
    EXPECT_OK(EmptyCache(dev()));
  }
  EXPECT_EQ(Read().num_device_alloc, 3);
  EXPECT_EQ(Read().num_device_free, 3);
}

TEST_F(Expandable, NothingIsLeftAtTheEnd) {
  for (int round = 0; round < 3; ++round) {
    Stream s = NewStream();
    std::vector<char*> blocks = {New(s, 100), New(s, 30 * kMiB)};
    for (char* p : blocks) EXPECT_OK(FreeMemory(p));
    ExpectNothingLeft();
    ExpectReserved(0);
  }
}

// A use that has not ended keeps its pages.
TEST_F(Expandable, PagesInUseStay) {
  Stream s = NewStream();
  char* a = New(s, 30 * kMiB);
  EXPECT_OK(Spin(s, kLong));
  EXPECT_OK(FillAsync(s, a, 1, 4096));
  EXPECT_OK(FreeMemory(a));
  EXPECT_OK(EmptyCache(dev()));
  ExpectReserved(2 * kPage);
  EXPECT_OK(s.Synchronize());
  EXPECT_OK(EmptyCache(dev()));
  ExpectReserved(0);
}

TEST_F(Expandable, AnotherStreamBorrows) {
  Stream s = NewStream(), t = NewStream();
  char* a = New(s, 150 * kMiB);
  EXPECT_OK(FreeMemory(a));
  EXPECT_OK(s.Synchronize());
  char* b = New(t, 120 * kMiB);
  EXPECT_EQ(b, a);
  EXPECT_OK(FreeMemory(b));
}

TEST_F(Expandable, OutOfMemoryAndTheFraction) {
  Stream s = NewStream();
  char* a = New(s, 200 * kMiB);
  const absl::StatusOr<void*> none = AllocateMemory(s, 100 * kMiB);
  EXPECT_THAT(none, StatusIs(absl::StatusCode::kResourceExhausted,
                             HasSubstr("100.00 MiB")));
  EXPECT_EQ(Read().num_ooms, 1);
  ExpectReserved(10 * kPage);
  EXPECT_OK(FreeMemory(a));
  EXPECT_OK(EmptyCache(dev()));
  EXPECT_OK(SetMemoryFraction(dev(), 0.25));
  EXPECT_THAT(AllocateMemory(s, 61 * kMiB),
              StatusIs(absl::StatusCode::kResourceExhausted, HasSubstr("")));
  char* fits = New(s, 60 * kMiB);
  ExpectReserved(3 * kPage);
  EXPECT_OK(FreeMemory(fits));
}

// Every call of the extension fails in turn: an answer, no leak, figures that
// hold, and the next request is served.
TEST_F(Expandable, EachCallFailsInTurn) {
  for (const char* call : {"reserve", "create", "map"}) {
    for (const int32_t code : {2, 46}) {
      for (uint32_t nth = 1; nth <= 4; ++nth) {
        SCOPED_TRACE(::testing::Message() << call << code << " nth " << nth);
        std::optional<Stream> s = NewStream();
        SimulatedFault fault;
        fault.kind = SimulatedFault::Kind::kApi;
        fault.nth = nth;
        fault.native_code = code;
        fault.where = std::string("virtual_memory.") + call;
        ASSERT_OK(sim().InjectFault(fault));
        std::vector<void*> live;
        for (const uint64_t bytes :
             {uint64_t{512}, 30 * kMiB, 12 * kMiB, 50 * kMiB}) {
          absl::StatusOr<void*> made = AllocateMemory(*s, bytes);
          if (made.ok()) live.push_back(*made);
        }
        EXPECT_GE(live.size(), 3u);
        EXPECT_EQ(Read().allocation.all.current,
                  static_cast<int64_t>(live.size()));
        for (void* p : live) EXPECT_OK(FreeMemory(p));
        ExpectNothingLeft();
        s.reset();
        Reset("memory=256MiB");  // drops a fault that was not reached
      }
    }
  }
}

// Without addresses plain segments serve, which is said once a process.
TEST_F(Expandable, WithoutAddressesPlainSegmentsServe) {
  LogCapture log;
  std::optional<Stream> s = NewStream();
  std::vector<char*> live;
  for (int i = 0; i < 2; ++i) {
    SimulatedFault fault;
    fault.kind = SimulatedFault::Kind::kApi;
    fault.native_code = 2;
    fault.where = "virtual_memory.reserve";
    ASSERT_OK(sim().InjectFault(fault));
    live.push_back(New(*s, 30 * kMiB));
    EXPECT_EQ(Read().segment.all.current, i + 1);
  }
  EXPECT_LE(log.Count(), 1);
  for (char* block : live) EXPECT_OK(FreeMemory(block));
}

// A page that the driver does not take back is kept and serves nobody.
TEST_F(Expandable, PagesThatCannotBeUnmapped) {
  std::optional<Stream> s = NewStream();
  char* a = New(*s, 60 * kMiB);
  EXPECT_OK(FreeMemory(a));
  SimulatedFault fault;
  fault.kind = SimulatedFault::Kind::kApi;
  fault.nth = 2;
  fault.native_code = 46;
  fault.where = "virtual_memory.unmap";
  ASSERT_OK(sim().InjectFault(fault));
  EXPECT_OK(EmptyCache(dev()));
  ExpectReserved(kPage);
  char* b = New(*s, 60 * kMiB);  // behind it
  EXPECT_EQ(b, a + 2 * kPage);
  ExpectReserved(4 * kPage);
  EXPECT_OK(FreeMemory(b));
  EXPECT_OK(EmptyCache(dev()));
  ExpectReserved(kPage);
  s.reset();
  Reset("memory=256MiB");
  ExpectReserved(0);
}

// Makes the next call of virtual_memory.unmap fail.  The allocator logs the
// failure while the page is busy.
void FailNextUnmap() {
  SimulatedFault fault;
  fault.kind = SimulatedFault::Kind::kApi;
  fault.native_code = 46;
  fault.where = "virtual_memory.unmap";
  ASSERT_OK(MtiaTest::sim().InjectFault(fault));
}

// Two threads empty the cache, and both log one failure.  In the sink, the
// first thread waits until the second thread unmaps its page.  The second
// thread then waits until the first thread has finished.
struct TwoThreads {
  std::atomic<int> lines{0};
  std::thread second;
  std::promise<void> second_unmaps, first_is_done;
};
TwoThreads* g_two_threads = nullptr;

void MeetInSink(LogLevel, const char*, int, std::string_view) {
  TwoThreads& two = *g_two_threads;
  if (two.lines.fetch_add(1) == 0) {
    FailNextUnmap();
    two.second = std::thread([] { EXPECT_OK(EmptyCache(MtiaTest::dev())); });
    two.second_unmaps.get_future().wait();
  } else {
    two.second_unmaps.set_value();
    two.first_is_done.get_future().wait();
  }
}

// A thread does not take a page that another thread is unmapping, although it
// has seen the page free before.
TEST_F(Expandable, PagesAreUnmappedByASingleThread) {
  std::optional<Stream> s = NewStream();
  std::vector<char*> blocks;
  for (int i = 0; i < 3; ++i) blocks.push_back(New(*s, kPage));
  for (const int i : {0, 2}) EXPECT_OK(FreeMemory(blocks[i]));
  TwoThreads two;
  g_two_threads = &two;
  FailNextUnmap();
  SetLogSink(&MeetInSink);
  EXPECT_OK(EmptyCache(dev()));
  two.first_is_done.set_value();
  two.second.join();
  SetLogSink(nullptr);
  EXPECT_EQ(two.lines, 2) << "one failure for each page";
  EXPECT_OK(FreeMemory(blocks[1]));
  EXPECT_OK(EmptyCache(dev()));
  ExpectReserved(2 * kPage);  // what the driver did not take back
  s.reset();
  Reset("memory=256MiB");
}

// A recovery gives back the smallest run of pages that is enough.
TEST_F(Expandable, RecoveryUnmapsNoMoreThanIsNeeded) {
  ASSERT_OK(SetAllocatorSettings(
      "expandable_segments:True,cross_stream_reuse:never"));
  Stream s = NewStream(), t = NewStream(), u = NewStream();
  char* live = New(u, 6 * kPage);
  for (const Stream* each : {&s, &t}) {
    EXPECT_OK(FreeMemory(New(*each, 3 * kPage)));
  }
  ExpectReserved(12 * kPage);
  char* next = New(u, 2 * kPage);  // 3 pages go back, and 2 come
  EXPECT_EQ(next, live + 6 * kPage);
  ExpectReserved(11 * kPage);
  EXPECT_OK(FreeMemory(live));
  EXPECT_OK(FreeMemory(next));
  ASSERT_OK(SetAllocatorSettings("cross_stream_reuse:ordered"));
}

TEST_F(Expandable, SettingsChangeWhileBlocksLive) {
  Stream s = NewStream();
  char* a = New(s, 30 * kMiB);
  ASSERT_OK(SetAllocatorSettings("expandable_segments:False"));
  char* b = New(s, 30 * kMiB);
  EXPECT_EQ(Read().segment.all.current, 1);
  EXPECT_OK(FreeMemory(a));
  EXPECT_OK(FreeMemory(b));
  char* c = New(s, 35 * kMiB);  // what is there serves on
  EXPECT_EQ(c, a);
  EXPECT_OK(FreeMemory(c));
}

TEST_F(Expandable, SnapshotShowsHoles) {
  Stream s = NewStream();
  ASSERT_OK(RecordMemoryHistory(dev(), HistoryOptions()));
  char* a = New(s, 18 * kMiB);
  char* b = New(s, 44 * kMiB);
  char* c = New(s, 18 * kMiB);
  EXPECT_OK(FreeMemory(b));
  EXPECT_OK(EmptyCache(dev()));
  const absl::StatusOr<MemorySnapshot> taken = TakeMemorySnapshot(dev());
  ASSERT_OK(taken.status());
  ASSERT_OK(RecordMemoryHistory(dev(), std::nullopt));
  ASSERT_EQ(taken->segments.size(), 1u);
  const SegmentSnapshot& segment = taken->segments[0];
  EXPECT_TRUE(segment.expandable);
  EXPECT_EQ(segment.size, 2 * kPage);
  std::string states;
  for (const BlockSnapshot& block : segment.blocks) {
    states += std::string(ToString(block.state)) + " " +
              std::to_string(block.size / kMiB) + ", ";
  }
  EXPECT_EQ(states,
            "active_allocated 18, inactive 2, unmapped 40, inactive 2, "
            "active_allocated 18, ");
  std::string mapped;
  for (const MemoryEvent& event : taken->events) {
    if (event.action == MemoryAction::kSegmentMap) mapped += "+";
    if (event.action == MemoryAction::kSegmentUnmap) mapped += "-";
  }
  EXPECT_EQ(mapped, "++-");
  EXPECT_OK(tools::ParseMemorySnapshot(ToJson(*taken)).status());
  EXPECT_OK(FreeMemory(a));
  EXPECT_OK(FreeMemory(c));
}

// Threads of one stream grow one segment at a time.
TEST_F(Expandable, ThreadsOfAStreamGrowASingleSegment) {
  Reset("memory=2GiB,mode=threaded");
  free_ = Free();
  Stream s = NewStream();
  InThreads(4, [&](int thread) {
    std::vector<char*> mine;
    for (int i = 0; i < 60; ++i) {
      char* p = New(s, (1 + (thread + i) % 40) * kMiB);
      for (const char* other : mine) EXPECT_NE(p, other);
      mine.push_back(p);
      if (mine.size() == 6) {
        for (char* q : mine) EXPECT_OK(FreeMemory(q));
        mine.clear();
      }
      if (i % 16 == 0) {
        EXPECT_OK(EmptyCache(dev()));
      }
    }
    for (char* q : mine) EXPECT_OK(FreeMemory(q));
  });
  ExpectNothingLeft();
  ExpectReserved(0);
}

// A backend that cannot map memory: plain segments, and one warning.
TEST(ExpandableElsewhere, IsIgnored) {
  static std::string* const said = new std::string;
  SetLogSink(
      [](LogLevel, const char*, int, std::string_view text) { *said += text; });
  ASSERT_OK(SetAllocatorSettings("expandable_segments:True"));
  SpyBackend& spy = SpyBackend::Get();
  spy.SetMemory(256 * kMiB);
  std::vector<void*> blocks;
  for (int i = 0; i < 3; ++i) {
    const absl::StatusOr<void*> made =
        AllocateMemory(DefaultStream(spy.device(0)), 30 * kMiB);
    ASSERT_OK(made.status());
    blocks.push_back(*made);
  }
  SetLogSink(nullptr);
  EXPECT_EQ(spy.Count("alloc"), 3);
  EXPECT_THAT(*said, HasSubstr("expandable_segments is ignored on spy:0"));
  EXPECT_EQ(said->find("ignored"), said->rfind("ignored"));
  for (void* p : blocks) EXPECT_OK(FreeMemory(p));
  EXPECT_OK(EmptyCache(spy.device(0)));
  ASSERT_OK(SetAllocatorSettings("expandable_segments:False"));
}

}  // namespace
}  // namespace devrt::testing
