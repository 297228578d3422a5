// SPDX-License-Identifier: Apache-2.0
//
// Snapshots and histories of the allocator itself.

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "devrt/memory/device_memory.h"
#include "devrt/memory/history.h"
#include "devrt/memory/statistics.h"
#include "devrt/streams/probe.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/support/mtia_fixture.h"
#include "tools/memory/snapshot_reader.h"

namespace devrt::testing {
namespace {

class SnapshotTest : public MtiaTest {
 protected:
  void SetUp() override {
    MtiaTest::SetUp();
    ResetPeakMemoryStatistics(dev());
    ResetAccumulatedMemoryStatistics(dev());
  }
  void TearDown() override {
    (void)RecordMemoryHistory(dev(), std::nullopt);
    EXPECT_TRUE(EmptyCache(dev()).ok());
    MtiaTest::TearDown();
  }
  static MemorySnapshot Take() { return TakeMemorySnapshot(dev()).value(); }
  static std::vector<MemoryAction> Actions(const MemorySnapshot& s) {
    std::vector<MemoryAction> actions;
    for (const MemoryEvent& e : s.events) actions.push_back(e.action);
    return actions;
  }
};

TEST_F(SnapshotTest, ReportNamesHoldersAndFreeBytes) {
  EXPECT_THAT(MemoryReport(dev()), ::testing::HasSubstr("memory of mtia:0"));
  ASSERT_TRUE(RecordMemoryHistory(dev(), HistoryOptions()).ok());
  const Stream a = NewStream();
  const Stream b = NewStream();
  void* x = AllocateMemory(a, 1000).value();
  void* y = AllocateMemory(a, 600).value();
  ASSERT_TRUE(RecordStream(y, b).ok());
  ASSERT_TRUE(Spin(b, 1'000'000'000).ok());
  ASSERT_TRUE(FreeMemory(y).ok());
  const std::string text = MemoryReport(dev());
  EXPECT_THAT(text, ::testing::HasSubstr(
                        "2.00 MiB reserved: 1024 bytes in 1 block held, "
                        "1024 bytes in 1 block freed but still used by a "
                        "stream, 2.00 MiB in 1 block free"));
  EXPECT_THAT(text, ::testing::HasSubstr("held by "));
  EXPECT_THAT(text, ::testing::HasSubstr("take_test.cc:"));
  ASSERT_TRUE(FreeMemory(x).ok());
  ASSERT_TRUE(a.Synchronize().ok());
  ASSERT_TRUE(b.Synchronize().ok());
  ASSERT_TRUE(EmptyCache(dev()).ok());
}

TEST_F(SnapshotTest, BlocksWithStatesStreamsAndSizes) {
  const Stream a = NewStream();
  const Stream b = NewStream();
  void* x = AllocateMemory(a, 1000).value();
  void* y = AllocateMemory(a, 600).value();
  ASSERT_TRUE(RecordStream(y, b).ok());
  ASSERT_TRUE(Spin(b, 1'000'000'000).ok());
  ASSERT_TRUE(FreeMemory(y).ok());
  const MemorySnapshot s = Take();
  EXPECT_EQ(s.device, "mtia:0");
  ASSERT_EQ(s.segments.size(), 1u);
  EXPECT_EQ(s.segments[0].size, 2u << 20);
  EXPECT_EQ(s.segments[0].stream, StreamRef(a).id());
  EXPECT_FALSE(s.segments[0].large);
  ASSERT_EQ(s.segments[0].blocks.size(), 3u);
  const BlockSnapshot& live = s.segments[0].blocks[0];
  EXPECT_EQ(live.address, reinterpret_cast<uint64_t>(x));
  EXPECT_EQ(live.size, 1024u);
  EXPECT_EQ(live.requested, 1000u);
  EXPECT_EQ(live.state, BlockState::kLive);
  EXPECT_EQ(s.segments[0].blocks[1].state, BlockState::kPending);
  EXPECT_EQ(s.segments[0].blocks[1].waiting_streams,
            std::vector<uint64_t>{b.id()});
  EXPECT_EQ(s.segments[0].blocks[2].state, BlockState::kFree);
  EXPECT_EQ(s.statistics.active.all.current, 2);
  EXPECT_EQ(s.statistics.allocation.all.current, 1);
  // The command reads it.
  const std::string json = MemorySnapshotJson(dev()).value();
  absl::StatusOr<tools::SnapshotFile> read = tools::ParseMemorySnapshot(json);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->figures.at("active.all.current"), 2);
  read->snapshot.statistics = s.statistics;
  EXPECT_EQ(ToJson(read->snapshot), json);
  ASSERT_TRUE(FreeMemory(x).ok());
  ASSERT_TRUE(a.Synchronize().ok());
  ASSERT_TRUE(b.Synchronize().ok());
  ASSERT_TRUE(EmptyCache(dev()).ok());
}

TEST_F(SnapshotTest, HistoryInOrderWithSites) {
  const Stream stream = NewStream();
  ASSERT_TRUE(RecordMemoryHistory(dev(), HistoryOptions()).ok());
  const int line = __LINE__ + 1;
  void* x = AllocateMemory(stream, 1000).value();
  ASSERT_TRUE(FreeMemory(x).ok());
  EXPECT_FALSE(AllocateMemory(stream, uint64_t{1} << 50).ok());
  ASSERT_TRUE(stream.Synchronize().ok());
  ASSERT_TRUE(EmptyCache(dev()).ok());
  const MemorySnapshot s = Take();
  EXPECT_EQ(Actions(s),
            (std::vector<MemoryAction>{
                MemoryAction::kSegmentAlloc, MemoryAction::kAlloc,
                MemoryAction::kFreeRequested, MemoryAction::kFreeCompleted,
                MemoryAction::kOutOfMemory, MemoryAction::kSegmentFree,
                MemoryAction::kSnapshot}));
  for (size_t i = 0; i < s.events.size(); ++i) {
    EXPECT_EQ(s.events[i].number, i + 1);
  }
  const MemoryEvent& alloc = s.events[1];
  EXPECT_EQ(alloc.address, reinterpret_cast<uint64_t>(x));
  EXPECT_EQ(alloc.bytes, 1024u);
  EXPECT_EQ(alloc.stream, StreamRef(stream).id());
  ASSERT_LT(alloc.site, s.sites.size());
  EXPECT_NE(s.sites[alloc.site].file.find("take_test.cc"), std::string::npos);
  EXPECT_EQ(s.sites[alloc.site].line, line);
  EXPECT_EQ(s.events[4].bytes, uint64_t{1} << 50);
  for (const size_t segment_event : {0u, 5u}) {
    EXPECT_EQ(s.events[segment_event].stream, StreamRef(stream).id());
  }
  ASSERT_TRUE(RecordMemoryHistory(dev(), std::nullopt).ok());
  EXPECT_TRUE(Take().events.empty());
}

TEST_F(SnapshotTest, AFreeThatWaitsIsTwoEvents) {
  const Stream a = NewStream();
  const Stream b = NewStream();
  void* x = AllocateMemory(a, 1000).value();
  ASSERT_TRUE(RecordStream(x, b).ok());
  ASSERT_TRUE(Spin(b, 1'000'000'000).ok());
  ASSERT_TRUE(RecordMemoryHistory(dev(), HistoryOptions{10, true}).ok());
  ASSERT_TRUE(FreeMemory(x).ok());
  EXPECT_EQ(Actions(Take()),
            (std::vector<MemoryAction>{MemoryAction::kFreeRequested,
                                       MemoryAction::kSnapshot}));
  ASSERT_TRUE(b.Synchronize().ok());
  ASSERT_TRUE(EmptyCache(dev()).ok());  // looks for uses that are over
  const MemorySnapshot s = Take();
  ASSERT_GE(s.events.size(), 3u);
  EXPECT_EQ(s.events[2].action, MemoryAction::kFreeCompleted);
  ASSERT_LT(s.events[0].site, s.sites.size());
  EXPECT_FALSE(s.sites[s.events[0].site].frames.empty());
}

TEST_F(SnapshotTest, HistoriesOfNoOrTooManyEvents) {
  for (const uint64_t events : {uint64_t{0}, (uint64_t{1} << 24) + 1}) {
    EXPECT_EQ(RecordMemoryHistory(dev(), HistoryOptions{events, false}).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

}  // namespace
}  // namespace devrt::testing
