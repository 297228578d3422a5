// SPDX-License-Identifier: Apache-2.0
//
// One program again and again, in which the native allocation fails at every
// point in turn, once, twice and three times running (recovery asks up to three
// times): an answer every time, no wrong figure, and nothing left behind.

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <vector>

#include "absl/status/status.h"
#include "devrt/memory/device_memory.h"
#include "devrt/memory/history.h"
#include "devrt/memory/statistics.h"
#include "gtest/gtest.h"
#include "memory/common/rounding.h"
#include "tests/support/spy_backend.h"

namespace devrt::testing {
namespace {

using internal::kMiB;

struct Outcome {
  int refused = 0;
  int served = 0;
};

void ExpectFiguresOfSnapshot(Device device) {
  const MemorySnapshot s = TakeMemorySnapshot(device).value();
  int64_t live = 0, live_bytes = 0, reserved = 0;
  for (const SegmentSnapshot& segment : s.segments) {
    reserved += static_cast<int64_t>(segment.size);
    for (const BlockSnapshot& b : segment.blocks) {
      if (b.state != BlockState::kLive) continue;
      ++live;
      live_bytes += static_cast<int64_t>(b.size);
    }
  }
  ASSERT_EQ(s.statistics.allocation.all.current, live);
  ASSERT_EQ(s.statistics.allocated_bytes.all.current, live_bytes);
  ASSERT_EQ(s.statistics.reserved_bytes.all.current, reserved);
  ASSERT_EQ(s.statistics.segment.all.current,
            static_cast<int64_t>(s.segments.size()));
  ASSERT_EQ(s.statistics.num_device_alloc - s.statistics.num_device_free,
            static_cast<int64_t>(s.segments.size()));
}

// Small and large ones, some of whose segments are free when more is asked.
void RunProgram(const std::vector<Stream>& streams, Device device,
                Outcome* outcome) {
  constexpr uint64_t kSizes[] = {1,         700,      kMiB,      2 * kMiB,
                                 12 * kMiB, 3 * kMiB, 30 * kMiB, 512};
  std::vector<void*> held;
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < std::size(kSizes); ++i) {
      const MemoryStatistics before = GetMemoryStatistics(device);
      const absl::StatusOr<void*> got =
          AllocateMemory(streams[i % streams.size()], kSizes[i] + 4096 * round);
      if (got.ok()) {
        ++outcome->served;
        held.push_back(*got);
      } else {
        ++outcome->refused;
        ASSERT_EQ(got.status().code(), absl::StatusCode::kResourceExhausted)
            << got.status();
        const MemoryStatistics after = GetMemoryStatistics(device);
        ASSERT_EQ(after.num_ooms, before.num_ooms + 1);
        ASSERT_EQ(after.active.all.current, before.active.all.current);
        ASSERT_EQ(after.allocation.all.allocated,
                  before.allocation.all.allocated);
      }
      ASSERT_NO_FATAL_FAILURE(ExpectFiguresOfSnapshot(device));
    }
    for (size_t i = 0; i < held.size(); ++i) {  // every second one
      ASSERT_TRUE(FreeMemory(held[i]).ok());
      held.erase(held.begin() + static_cast<ptrdiff_t>(i));
    }
    ASSERT_TRUE(EmptyCache(device).ok());
  }
  for (void* pointer : held) ASSERT_TRUE(FreeMemory(pointer).ok());
}

TEST(OutOfMemorySweepTest, EveryNativeAllocationFailsInTurn) {
  SpyBackend& spy = SpyBackend::Get();
  spy.SetMemory(uint64_t{1} << 30);
  const Device device = spy.device(0);
  std::vector<Stream> streams;
  for (int i = 0; i < 2; ++i) streams.push_back(Stream::Create(device).value());
  int refused = 0;
  int points = 0;
  for (const int running : {1, 2, 3}) {
    for (int nth = 1;; ++nth) {
      SCOPED_TRACE(::testing::Message() << running << " from " << nth);
      ASSERT_LT(nth, 100);
      ResetAccumulatedMemoryStatistics(device);
      spy.Reset();
      for (int i = 0; i < running; ++i) {
        spy.Fail("alloc", absl::StatusCode::kResourceExhausted, nth);
      }
      Outcome outcome;
      ASSERT_NO_FATAL_FAILURE(RunProgram(streams, device, &outcome));
      ASSERT_EQ(outcome.served + outcome.refused, 24);
      refused += outcome.refused;
      for (const Stream& stream : streams) {
        ASSERT_TRUE(stream.Synchronize().ok());
      }
      ASSERT_TRUE(EmptyCache(device).ok());
      const MemoryStatistics s = GetMemoryStatistics(device);
      ASSERT_EQ(s.active.all.current, 0);
      ASSERT_EQ(s.reserved_bytes.all.current, 0);
      ASSERT_EQ(s.num_device_alloc, s.num_device_free);
      const bool was_reached = spy.Count("alloc") >= nth;
      const int failed =
          std::min(running, std::max(0, spy.Count("alloc") - nth + 1));
      ASSERT_EQ(spy.Count("alloc") - failed, spy.Count("dealloc"));
      if (!was_reached) break;
      ++points;
    }
  }
  // One failure alone can always be recovered from here, three cannot.
  EXPECT_GT(refused, 0);
  EXPECT_GE(points, 15);
}

}  // namespace
}  // namespace devrt::testing
