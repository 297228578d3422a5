// SPDX-License-Identifier: Apache-2.0

#include "memory/common/history_ring.h"

#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "gtest/gtest.h"

namespace devrt::internal {
namespace {

void* Pointer(uint64_t address) { return reinterpret_cast<void*>(address); }

TEST(HistoryRingTest, KeepsTheLast) {
  HistoryRing ring;
  ASSERT_TRUE(ring.Start({3, false}).ok());
  for (uint64_t i = 1; i <= 5; ++i) {
    ring.Add(MemoryAction::kAlloc, Pointer(i * 512), i, 7, 0);
  }
  MemorySnapshot s;
  ring.Copy(&s);
  ASSERT_EQ(s.events.size(), 3u);
  for (uint64_t i = 0; i < 3; ++i) {
    EXPECT_EQ(s.events[i].number, i + 3);
    EXPECT_EQ(s.events[i].address, (i + 3) * 512);
    EXPECT_EQ(s.events[i].bytes, i + 3);
    EXPECT_EQ(s.events[i].stream, 7u);
    EXPECT_EQ(s.events[i].site, kNoMemorySite);
  }
  EXPECT_GT(s.events[0].time_us, 1'500'000'000'000'000);
}

TEST(HistoryRingTest, SitesOnceEach) {
  HistoryRing ring;
  ASSERT_TRUE(ring.Start({}).ok());
  const uint64_t a = ring.Site({"a.cc", 1});
  const uint64_t b = ring.Site({"a.cc", 2});
  EXPECT_NE(a, 0u);
  EXPECT_NE(a, b);
  EXPECT_EQ(ring.Site({"a.cc", 1}), ring.Site({"a.cc", 1}));
  ring.Add(MemoryAction::kAlloc, Pointer(512), 1, 0, b);
  MemorySnapshot s;
  ring.Copy(&s);
  ASSERT_GE(s.sites.size(), 2u);
  EXPECT_EQ(s.events[0].site, ring.IndexOf(b));
  EXPECT_EQ(s.sites[s.events[0].site].line, 2);
  EXPECT_TRUE(s.sites[0].frames.empty());
}

TEST(HistoryRingTest, SitesHaveAtMost32Frames) {
  HistoryRing ring;
  ASSERT_TRUE(ring.Start({10, true}).ok());
  const uint64_t site = ring.Site({"a.cc", 1});
  MemorySnapshot s;
  ring.Copy(&s);
  const std::vector<uint64_t>& frames = s.sites[ring.IndexOf(site)].frames;
  EXPECT_GE(frames.size(), 2u);
  EXPECT_LE(frames.size(), 32u);
}

TEST(HistoryRingTest, BeginsAnewAndEnds) {
  HistoryRing ring;
  EXPECT_EQ(ring.Site({"a.cc", 1}), 0u);  // off
  ASSERT_TRUE(ring.Start({}).ok());
  const uint64_t old = ring.Site({"a.cc", 1});
  ring.Add(MemoryAction::kAlloc, Pointer(512), 1, 0, old);
  ASSERT_TRUE(ring.Start({}).ok());
  EXPECT_EQ(ring.IndexOf(old), kNoMemorySite);  // of a block from before
  ring.Add(MemoryAction::kFreeRequested, Pointer(512), 1, 0, old);
  MemorySnapshot s;
  ring.Copy(&s);
  ASSERT_EQ(s.events.size(), 1u);
  EXPECT_EQ(s.events[0].number, 1u);
  EXPECT_EQ(s.events[0].site, kNoMemorySite);
  ring.Stop();
  ring.Add(MemoryAction::kAlloc, Pointer(512), 1, 0, 0);
  s = {};
  ring.Copy(&s);
  EXPECT_TRUE(s.events.empty());
  EXPECT_TRUE(s.sites.empty());
}

TEST(HistoryRingTest, SizesThatAreRefused) {
  HistoryRing ring;
  for (const uint64_t events :
       {uint64_t{0}, (uint64_t{1} << 24) + 1, UINT64_MAX}) {
    EXPECT_EQ(ring.Start({events, false}).code(),
              absl::StatusCode::kInvalidArgument);
  }
}

// For ThreadSanitizer, and no number is given twice or left out.
TEST(HistoryRingTest, EventsOfThreadsHaveConsecutiveNumbers) {
  HistoryRing ring;
  ASSERT_TRUE(ring.Start({100'000, false}).ok());
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&ring, t] {
      for (int i = 0; i < 2000; ++i) {
        ring.Add(MemoryAction::kAlloc, Pointer(512), 1, 0,
                 ring.Site({"a.cc", (t + i) % 10}));
      }
    });
  }
  for (std::thread& t : threads) t.join();
  MemorySnapshot s;
  ring.Copy(&s);
  ASSERT_EQ(s.events.size(), 8000u);
  for (size_t i = 0; i < s.events.size(); ++i) {
    ASSERT_EQ(s.events[i].number, i + 1);
    ASSERT_LT(s.events[i].site, 10u);
  }
  EXPECT_EQ(s.sites.size(), 10u);
}

}  // namespace
}  // namespace devrt::internal
