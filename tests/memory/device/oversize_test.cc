// SPDX-License-Identifier: Apache-2.0
//
// Blocks above the largest size that is split: what goes back to the driver for
// one, and how they are counted when work still uses them.

#include <vector>

#include "memory/common/hot_settings.h"
#include "tests/memory/device/cache_fixture.h"

namespace devrt::testing {
namespace {

using internal::kMiB;

class MemoryOversize : public DeviceCacheTest {
 protected:
  static constexpr uint64_t kLimit = 30 * kMiB;

  void SetUp() override {
    DeviceCacheTest::SetUp();
    AllocatorSettings settings;
    settings.max_split_size = kLimit;
    internal::PublishSettings(settings);
  }
  void TearDown() override {
    internal::PublishSettings(AllocatorSettings());
    DeviceCacheTest::TearDown();
  }

  // Segments that are wholly free and whose work is over.
  static void Cache(const Stream& s, const std::vector<uint64_t>& sizes) {
    std::vector<char*> blocks;
    for (const uint64_t size : sizes) blocks.push_back(New(s, size));
    for (char* block : blocks) EXPECT_OK(FreeMemory(block));
    EXPECT_OK(s.Synchronize());
    ASSERT_EQ(Read().num_device_alloc, static_cast<int64_t>(sizes.size()));
    ASSERT_EQ(Read().num_device_free, 0);
  }
};

// 196 of 256 MiB are cached; 110 more fit when the 100 are given back.
TEST_F(MemoryOversize, ARequestGivesBackOversizeSegmentsOnly) {
  Stream s = NewStream();
  Cache(s, {24 * kMiB, 24 * kMiB, 24 * kMiB, 24 * kMiB, 100 * kMiB});
  char* large = New(s, 110 * kMiB);
  EXPECT_EQ(Read().num_alloc_retries, 1);
  EXPECT_EQ(Read().num_device_free, 1);
  EXPECT_EQ(Read().num_sync_all_streams, 0);
  EXPECT_EQ(Read().reserved_bytes.all.current,
            static_cast<int64_t>((4 * 24 + 110) * kMiB));
  EXPECT_OK(FreeMemory(large));
}

TEST_F(MemoryOversize, WithoutOversizeSegmentsRecoveryFreesAllSegments) {
  Stream s = NewStream();
  Cache(s, std::vector<uint64_t>(8, 24 * kMiB));
  char* large = New(s, 110 * kMiB);
  EXPECT_EQ(Read().num_alloc_retries, 1);
  EXPECT_EQ(Read().num_device_free, 8);
  EXPECT_OK(FreeMemory(large));
}

// A request below the limit cannot use the block, but its segment can go.
TEST_F(MemoryOversize, AnyRequestFreesUnusedOversizeSegments) {
  Stream s = NewStream();
  char* held = New(s, 140 * kMiB);
  EXPECT_OK(FreeMemory(New(s, 100 * kMiB)));
  EXPECT_OK(s.Synchronize());
  char* below = New(s, 28 * kMiB);
  EXPECT_EQ(Read().num_device_free, 1);
  EXPECT_EQ(Read().oversize_segments.current, 1);
  EXPECT_OK(FreeMemory(below));
  EXPECT_OK(FreeMemory(held));
}

// PyTorch counts one until the work that uses the block is over.
TEST_F(MemoryOversize, FreedBlockInUseIsCountedUntilItsWorkEnds) {
  Stream s = NewStream();
  Stream other = NewStream();
  Flag gate = NewFlag();
  char* large = New(s, 40 * kMiB);
  EXPECT_OK(RecordStream(large, other));
  EXPECT_OK(gate.WaitOn(other));
  EXPECT_OK(FreeMemory(large));
  EXPECT_EQ(Read().oversize_allocations.current, 1);
  EXPECT_OK(gate.Set());
  EXPECT_OK(other.Synchronize());
  EXPECT_EQ(New(s, 40 * kMiB), large);
  EXPECT_EQ(Read().oversize_allocations.current, 1);
  EXPECT_EQ(Read().oversize_allocations.allocated, 2);
  EXPECT_OK(FreeMemory(large));
  EXPECT_EQ(Read().oversize_allocations.current, 0);
  ExpectNothingLeft();
  EXPECT_EQ(Read().oversize_segments.current, 0);
  EXPECT_EQ(Read().oversize_segments.freed, 1);
}

}  // namespace
}  // namespace devrt::testing
