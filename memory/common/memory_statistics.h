// SPDX-License-Identifier: Apache-2.0
//
// The figures that the allocators count.  statistics.h has the functions that
// read them.

#ifndef DEVRT_MEMORY_COMMON_MEMORY_STATISTICS_H_
#define DEVRT_MEMORY_COMMON_MEMORY_STATISTICS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "devrt/runtime/export.h"

namespace devrt {

// A figure and its history: of objects, or of bytes where the name says so.
struct Stat {
  int64_t current = 0;
  int64_t peak = 0;       // since the last reset
  int64_t allocated = 0;  // sum of all increases
  int64_t freed = 0;      // sum of all decreases
};

// Small pool: requests of up to 1 MiB.  Large pool: all others.
struct PoolStat {
  Stat all;
  Stat small_pool;
  Stat large_pool;
};

// What the caching allocator of a device counts.
struct MemoryStatistics {
  PoolStat allocation;            // blocks that a program holds
  PoolStat segment;               // pieces from the driver
  PoolStat active;                // `allocation`, and freed blocks still in use
  PoolStat inactive_split;        // free parts of segments that are in use
  PoolStat allocated_bytes;       // of `allocation`
  PoolStat reserved_bytes;        // of `segment`
  PoolStat active_bytes;          // of `active`
  PoolStat inactive_split_bytes;  // of `inactive_split`
  PoolStat requested_bytes;       // before rounding
  Stat oversize_allocations;      // above max_split_size
  Stat oversize_segments;         // for such allocations
  int64_t num_alloc_retries = 0;  // requests that emptied the cache
  int64_t num_ooms = 0;           // requests that failed
  // How often a request waited for freed blocks (docs/reference/semantics.md
  // 2.6).
  int64_t num_sync_all_streams = 0;
  int64_t num_device_alloc = 0;  // segments, and pages of expandable ones
  int64_t num_device_free = 0;   // segments, and pages of expandable ones
  int64_t max_split_size = -1;   // bytes; -1: no limit
};

// Microseconds.
struct DurationStat {
  int64_t total = 0;
  int64_t max = 0;
  int64_t min = 0;
  int64_t count = 0;
  int64_t avg = 0;
};

// The pinned memory of a backend.
struct PinnedStatistics {
  Stat allocations;            // blocks from the driver, in use or cached
  Stat active_requests;        // blocks in use, and freed blocks still in use
  Stat allocated_bytes;        // of `allocations`
  Stat active_bytes;           // of `active_requests`
  int64_t num_host_alloc = 0;  // blocks taken from the driver
  int64_t num_host_free = 0;   // blocks given back to it
  DurationStat host_alloc_time;
  DurationStat host_free_time;
};

// Figures by the names of docs/reference/semantics.md 3.3, such as
// "active_bytes.all.current", in alphabetical order.
using StatisticKeys = std::vector<std::pair<std::string, int64_t>>;
// All figures: 122 of a device, 28 of pinned memory.
DEVRT_EXPORT StatisticKeys ToKeys(const MemoryStatistics& statistics);
DEVRT_EXPORT StatisticKeys ToKeys(const PinnedStatistics& statistics);

}  // namespace devrt

#endif  // DEVRT_MEMORY_COMMON_MEMORY_STATISTICS_H_
