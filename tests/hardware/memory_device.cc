// SPDX-License-Identifier: Apache-2.0
//
// The seed's tests of device memory, to the letter (docs/reference/semantics.md
// 3.2 and 3.3).

#include <cmath>
#include <limits>
#include <map>
#include <string>

#include "devrt/memory/devrt_memory.h"
#include "tests/hardware/memory_test.h"

namespace devrt::hardware {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class MemoryDevice : public MemoryTest {};

TEST_F(MemoryDevice, MemoryAllocation) {
  const Stream s = NewStream();
  const int64_t before = Read().allocated_bytes.all.current;
  char* x = New(s, 1);
  EXPECT_EQ(Read().allocated_bytes.all.current, before + 512);
  EXPECT_OK(FreeMemory(x));
  EXPECT_EQ(Read().allocated_bytes.all.current, before);
}

TEST_F(MemoryDevice, MemoryStats) {
  const Stream s = NewStream();
  char* older = New(s, 1000);
  ASSERT_OK(EmptyCache(dev()));
  ResetPeakMemoryStatistics(dev());
  ResetAccumulatedMemoryStatistics(dev());
  const MemoryStatistics first = Read();
  EXPECT_EQ(first.allocated_bytes.all.current, first.allocated_bytes.all.peak);
  EXPECT_EQ(first.reserved_bytes.all.current, first.reserved_bytes.all.peak);
  EXPECT_EQ(first.active_bytes.all.freed, 0);

  char* x = New(s, 256 * sizeof(float));
  EXPECT_EQ(Read().active_bytes.all.current,
            first.active_bytes.all.current + 1024);
  EXPECT_EQ(Read().active_bytes.all.freed, 0);
  EXPECT_OK(FreeMemory(x));
  EXPECT_OK(EmptyCache(dev()));
  EXPECT_EQ(Read().active_bytes.all.current, first.active_bytes.all.current);
  EXPECT_EQ(Read().active_bytes.all.freed, 1024);

  ResetPeakMemoryStatistics(dev());
  EXPECT_EQ(Read().allocated_bytes.all.peak, first.allocated_bytes.all.peak);
  EXPECT_EQ(Read().reserved_bytes.all.peak, first.reserved_bytes.all.peak);
  EXPECT_OK(FreeMemory(older));
}

// docs/reference/semantics.md 3.3: sizes, segments, what is cut off, and that
// each figure's equation holds whatever was done.
TEST_F(MemoryDevice, SizesAndSegments) {
  const Stream s = NewStream();
  struct Row {
    int64_t asked, block, reserved;
  };
  for (const Row& row :
       std::vector<Row>{{1, 512, 2 * kMiB},
                        {512, 512, 2 * kMiB},
                        {513, 1024, 2 * kMiB},
                        {kMiB, kMiB, 2 * kMiB},
                        {kMiB + 1, kMiB + 512, 20 * kMiB},
                        {10 * kMiB - 512, 10 * kMiB - 512, 20 * kMiB},
                        {10 * kMiB, 10 * kMiB, 10 * kMiB},
                        {10 * kMiB + 1, 10 * kMiB + 512, 12 * kMiB},
                        {11 * kMiB + 1, 12 * kMiB, 12 * kMiB},
                        // A rest of no more than 1 MiB stays with its block.
                        {19 * kMiB, 20 * kMiB, 20 * kMiB},
                        {19 * kMiB - 512, 19 * kMiB - 512, 20 * kMiB},
                        {21 * kMiB, 22 * kMiB, 22 * kMiB},
                        {100 * kMiB, 100 * kMiB, 100 * kMiB}}) {
    SCOPED_TRACE(row.asked);
    char* x = New(s, static_cast<uint64_t>(row.asked));
    EXPECT_EQ(Read().allocated_bytes.all.current, row.block);
    EXPECT_EQ(Read().requested_bytes.all.current, row.asked);
    EXPECT_EQ(Read().reserved_bytes.all.current, row.reserved);
    EXPECT_OK(FreeMemory(x));
    EXPECT_EQ(Read().allocated_bytes.all.current, 0);
    EXPECT_OK(s.Synchronize());
    EXPECT_OK(EmptyCache(dev()));
    EXPECT_EQ(Read().reserved_bytes.all.current, 0);
  }

  char* small = New(s, 1000);
  char* large = New(s, 3 * kMiB);
  const MemoryStatistics with_both = Read();
  EXPECT_EQ(with_both.inactive_split.all.current, 2);
  EXPECT_EQ(with_both.inactive_split_bytes.small_pool.current,
            static_cast<int64_t>(2 * kMiB - 1024));
  EXPECT_EQ(with_both.inactive_split_bytes.large_pool.current,
            static_cast<int64_t>(17 * kMiB));
  EXPECT_OK(FreeMemory(small));
  EXPECT_OK(FreeMemory(large));

  std::map<std::string, int64_t> keys;
  for (const auto& [key, value] : ToKeys(Read())) keys[key] = value;
  EXPECT_EQ(keys.size(), 122u);
  int equations = 0;
  for (const auto& [key, value] : keys) {
    const size_t end = key.rfind(".current");
    if (end == key.npos) continue;
    const std::string name = key.substr(0, end);
    EXPECT_EQ(keys.at(name + ".allocated") - keys.at(name + ".freed"), value)
        << name;
    EXPECT_LE(value, keys.at(name + ".peak")) << name;
    ++equations;
  }
  EXPECT_EQ(equations, 9 * 3 + 2);
}

// An array of ten 64-bit integers, as another library allocates it here
// (docs/reference/semantics.md 3.6).
TEST_F(MemoryDevice, ForeignArray) {
  const int64_t before = Read().allocated_bytes.all.current;
  const std::string name = dev().name();
  void* x = nullptr;
  ASSERT_EQ(devrt_memory_alloc_v0(name.c_str(), 10 * 8, nullptr, &x), 0)
      << devrt_memory_last_error_v0();
  EXPECT_EQ(Read().allocated_bytes.all.current, before + 512);
  EXPECT_EQ(devrt_memory_free_v0(x), 0) << devrt_memory_last_error_v0();
  EXPECT_EQ(Read().allocated_bytes.all.current, before);
}

TEST_F(MemoryDevice, OutOfMemory) {
  const Stream s = NewStream();
  char* older = New(s, 1024);
  constexpr uint64_t kGiB = 1024 * kMiB;
  const absl::Status most = AllocateMemory(s, 800'000'000 * kGiB).status();
  EXPECT_EQ(most.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(most.message()),
              HasSubstr("Tried to allocate 800000000.00 GiB. GPU 0 has a total "
                        "capacity of"));
  const absl::Status more = AllocateMemory(s, 8'000'000'000 * kGiB).status();
  EXPECT_EQ(more.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(more.message()),
              HasSubstr("Tried to allocate more than 1EB memory"));
  EXPECT_OK(FillAsync(s, older, 1, 1024));
  EXPECT_EQ(Contents(s, older, 1024), std::string(1024, '\1'));
  EXPECT_OK(FreeMemory(older));
}

// With three quarters allowed it is the limit that refuses the second half, so
// that other users of the device keep some of it.
TEST_F(MemoryDevice, OutOfMemoryRetry) {
  const std::optional<double> total = TotalIfHalfIsFree();
  if (!total) GTEST_SKIP() << "needs half of the device free";
  const Stream s = NewStream();
  ASSERT_OK(SetMemoryFraction(dev(), 0.75));
  const auto half = static_cast<uint64_t>(0.5 * *total);
  char* a = New(s, half);
  const absl::Status full = AllocateMemory(s, half).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(full.message()), HasSubstr("Tried to allocate"));
  EXPECT_EQ(Read().allocation.all.current, 1);
  EXPECT_GE(Read().num_ooms, 1);
  EXPECT_OK(FreeMemory(a));
  char* b = New(s, half);
  EXPECT_OK(FreeMemory(b));
  // Another size needs the memory back from the cache.
  char* c = New(s, half - 4 * kMiB);
  EXPECT_OK(FreeMemory(c));
}

TEST_F(MemoryDevice, SetPerProcessMemoryFraction) {
  for (const double bad :
       {-0.1, 2.0, std::nan(""), std::numeric_limits<double>::infinity()}) {
    const absl::Status status = SetMemoryFraction(dev(), bad);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(status.message()),
                StartsWith("Invalid fraction value"));
  }
  const std::optional<double> total = TotalIfHalfIsFree();
  if (!total) GTEST_SKIP() << "needs half of the device free";
  const Stream s = NewStream();
  char* older = New(s, 1024);
  ASSERT_OK(EmptyCache(dev()));
  ResetPeakMemoryStatistics(dev());
  ASSERT_OK(SetMemoryFraction(dev(), 0.5));
  const auto reserved = static_cast<uint64_t>(Read().reserved_bytes.all.peak);
  char* fits = New(s, static_cast<uint64_t>(0.499 * *total) - reserved);
  EXPECT_OK(FreeMemory(fits));
  EXPECT_OK(s.Synchronize());
  EXPECT_OK(EmptyCache(dev()));
  const absl::Status full =
      AllocateMemory(s, static_cast<uint64_t>(0.5 * *total)).status();
  EXPECT_EQ(full.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(
      std::string(full.message()),
      AllOf(HasSubstr("out of memory"), HasSubstr("SetMemoryFraction")));
  EXPECT_OK(FillAsync(s, older, 1, 1024));
  EXPECT_EQ(Contents(s, older, 1024), std::string(1024, '\1'));
  EXPECT_OK(FreeMemory(older));
}

TEST_F(MemoryDevice, GetPerProcessMemoryFraction) {
  for (const double value : {1.0, 0.0, 0.1234567, 1.0 / 3, 0.987654321}) {
    ASSERT_OK(SetMemoryFraction(dev(), value));
    EXPECT_EQ(GetMemoryFraction(dev()), value);
  }
}

}  // namespace
}  // namespace devrt::hardware
