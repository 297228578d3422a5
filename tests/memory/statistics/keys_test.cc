// SPDX-License-Identifier: Apache-2.0
//
// The 122 and 28 names of docs/reference/semantics.md 3.3, letter by letter,
// and what they stand for.

#include <cstdint>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "memory/common/statistics_keys.h"

namespace devrt {
namespace {

const char* const kDeviceKeys[] = {
    "active.all.allocated",
    "active.all.current",
    "active.all.freed",
    "active.all.peak",
    "active.large_pool.allocated",
    "active.large_pool.current",
    "active.large_pool.freed",
    "active.large_pool.peak",
    "active.small_pool.allocated",
    "active.small_pool.current",
    "active.small_pool.freed",
    "active.small_pool.peak",
    "active_bytes.all.allocated",
    "active_bytes.all.current",
    "active_bytes.all.freed",
    "active_bytes.all.peak",
    "active_bytes.large_pool.allocated",
    "active_bytes.large_pool.current",
    "active_bytes.large_pool.freed",
    "active_bytes.large_pool.peak",
    "active_bytes.small_pool.allocated",
    "active_bytes.small_pool.current",
    "active_bytes.small_pool.freed",
    "active_bytes.small_pool.peak",
    "allocated_bytes.all.allocated",
    "allocated_bytes.all.current",
    "allocated_bytes.all.freed",
    "allocated_bytes.all.peak",
    "allocated_bytes.large_pool.allocated",
    "allocated_bytes.large_pool.current",
    "allocated_bytes.large_pool.freed",
    "allocated_bytes.large_pool.peak",
    "allocated_bytes.small_pool.allocated",
    "allocated_bytes.small_pool.current",
    "allocated_bytes.small_pool.freed",
    "allocated_bytes.small_pool.peak",
    "allocation.all.allocated",
    "allocation.all.current",
    "allocation.all.freed",
    "allocation.all.peak",
    "allocation.large_pool.allocated",
    "allocation.large_pool.current",
    "allocation.large_pool.freed",
    "allocation.large_pool.peak",
    "allocation.small_pool.allocated",
    "allocation.small_pool.current",
    "allocation.small_pool.freed",
    "allocation.small_pool.peak",
    "inactive_split.all.allocated",
    "inactive_split.all.current",
    "inactive_split.all.freed",
    "inactive_split.all.peak",
    "inactive_split.large_pool.allocated",
    "inactive_split.large_pool.current",
    "inactive_split.large_pool.freed",
    "inactive_split.large_pool.peak",
    "inactive_split.small_pool.allocated",
    "inactive_split.small_pool.current",
    "inactive_split.small_pool.freed",
    "inactive_split.small_pool.peak",
    "inactive_split_bytes.all.allocated",
    "inactive_split_bytes.all.current",
    "inactive_split_bytes.all.freed",
    "inactive_split_bytes.all.peak",
    "inactive_split_bytes.large_pool.allocated",
    "inactive_split_bytes.large_pool.current",
    "inactive_split_bytes.large_pool.freed",
    "inactive_split_bytes.large_pool.peak",
    "inactive_split_bytes.small_pool.allocated",
    "inactive_split_bytes.small_pool.current",
    "inactive_split_bytes.small_pool.freed",
    "inactive_split_bytes.small_pool.peak",
    "max_split_size",
    "num_alloc_retries",
    "num_device_alloc",
    "num_device_free",
    "num_ooms",
    "num_sync_all_streams",
    "oversize_allocations.allocated",
    "oversize_allocations.current",
    "oversize_allocations.freed",
    "oversize_allocations.peak",
    "oversize_segments.allocated",
    "oversize_segments.current",
    "oversize_segments.freed",
    "oversize_segments.peak",
    "requested_bytes.all.allocated",
    "requested_bytes.all.current",
    "requested_bytes.all.freed",
    "requested_bytes.all.peak",
    "requested_bytes.large_pool.allocated",
    "requested_bytes.large_pool.current",
    "requested_bytes.large_pool.freed",
    "requested_bytes.large_pool.peak",
    "requested_bytes.small_pool.allocated",
    "requested_bytes.small_pool.current",
    "requested_bytes.small_pool.freed",
    "requested_bytes.small_pool.peak",
    "reserved_bytes.all.allocated",
    "reserved_bytes.all.current",
    "reserved_bytes.all.freed",
    "reserved_bytes.all.peak",
    "reserved_bytes.large_pool.allocated",
    "reserved_bytes.large_pool.current",
    "reserved_bytes.large_pool.freed",
    "reserved_bytes.large_pool.peak",
    "reserved_bytes.small_pool.allocated",
    "reserved_bytes.small_pool.current",
    "reserved_bytes.small_pool.freed",
    "reserved_bytes.small_pool.peak",
    "segment.all.allocated",
    "segment.all.current",
    "segment.all.freed",
    "segment.all.peak",
    "segment.large_pool.allocated",
    "segment.large_pool.current",
    "segment.large_pool.freed",
    "segment.large_pool.peak",
    "segment.small_pool.allocated",
    "segment.small_pool.current",
    "segment.small_pool.freed",
    "segment.small_pool.peak",
};
static_assert(std::size(kDeviceKeys) == 122);

const char* const kHostKeys[] = {
    "active_bytes.allocated",
    "active_bytes.current",
    "active_bytes.freed",
    "active_bytes.peak",
    "active_requests.allocated",
    "active_requests.current",
    "active_requests.freed",
    "active_requests.peak",
    "allocated_bytes.allocated",
    "allocated_bytes.current",
    "allocated_bytes.freed",
    "allocated_bytes.peak",
    "allocations.allocated",
    "allocations.current",
    "allocations.freed",
    "allocations.peak",
    "host_alloc_time.avg",
    "host_alloc_time.count",
    "host_alloc_time.max",
    "host_alloc_time.min",
    "host_alloc_time.total",
    "host_free_time.avg",
    "host_free_time.count",
    "host_free_time.max",
    "host_free_time.min",
    "host_free_time.total",
    "num_host_alloc",
    "num_host_free",
};
static_assert(std::size(kHostKeys) == 28);

template <typename Statistics, size_t n>
void ExpectNames(const char* const (&wanted)[n]) {
  const StatisticKeys keys = ToKeys(Statistics());
  ASSERT_EQ(keys.size(), n);
  for (size_t i = 0; i < n; ++i) EXPECT_EQ(keys[i].first, wanted[i]);
}

TEST(StatisticsKeysTest, DeviceNames) {
  ExpectNames<MemoryStatistics>(kDeviceKeys);
}

TEST(StatisticsKeysTest, HostNames) {
  ExpectNames<PinnedStatistics>(kHostKeys);
}

// Each name another figure: a mark set through one is read through it alone.
template <typename Statistics>
void ExpectFieldsApart() {
  Statistics s;
  int64_t mark = 1;
  std::set<int64_t*> seen;
  std::map<std::string, int64_t> wanted;
  for (const auto& [name, field] : internal::FieldsOf(&s)) {
    EXPECT_TRUE(seen.insert(field).second) << name;
    *field = wanted[name] = mark++;
  }
  // Every figure of the struct has a name.
  EXPECT_EQ(sizeof(Statistics), seen.size() * sizeof(int64_t));
  for (const auto& [name, value] : ToKeys(s)) {
    EXPECT_EQ(value, wanted[name]) << name;
  }
}

TEST(StatisticsKeysTest, EachNameItsOwnFigure) {
  ExpectFieldsApart<MemoryStatistics>();
  ExpectFieldsApart<PinnedStatistics>();
}

TEST(StatisticsKeysTest, NamesMeanTheirFigures) {
  MemoryStatistics s;
  s.active_bytes.all.current = 1024;
  s.inactive_split.small_pool.freed = 7;
  s.oversize_segments.peak = 3;
  s.num_ooms = 2;
  PinnedStatistics p;
  p.host_alloc_time.avg = 12;
  p.active_requests.peak = 4;
  std::map<std::string, int64_t> values;
  for (const auto& [name, value] : ToKeys(s)) values[name] = value;
  EXPECT_EQ(values["active_bytes.all.current"], 1024);
  EXPECT_EQ(values["inactive_split.small_pool.freed"], 7);
  EXPECT_EQ(values["oversize_segments.peak"], 3);
  EXPECT_EQ(values["num_ooms"], 2);
  EXPECT_EQ(values["max_split_size"], -1);
  values.clear();
  for (const auto& [name, value] : ToKeys(p)) values[name] = value;
  EXPECT_EQ(values["host_alloc_time.avg"], 12);
  EXPECT_EQ(values["active_requests.peak"], 4);
}

}  // namespace
}  // namespace devrt
