// SPDX-License-Identifier: Apache-2.0
//
// What a memory snapshot tells: sums, owners, memory over time, and what is
// free.  The terminal's text and the page are both written from this.

#ifndef DEVRT_TOOLS_MEMORY_ANALYSIS_H_
#define DEVRT_TOOLS_MEMORY_ANALYSIS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "devrt/memory/history.h"

namespace devrt::tools {

// Blocks by the place that allocated them.
struct MemoryOwner {
  std::string name;  // "train.cc:40", or why there is none
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  uint64_t peak_bytes = 0;   // at the moment of the peak
  uint64_t allocations = 0;  // in the history
};

// A column of memory over time: the moment in it at which most was in use.
struct MemoryMoment {
  int64_t time_us = 0;  // since the first event
  uint64_t reserved = 0;
  uint64_t pending = 0;
  std::vector<uint64_t> in_use;  // by owner, the last one being the others
  uint64_t total() const;        // in use
};

struct MemoryMark {  // a request that failed
  int64_t time_us = 0;
  uint64_t bytes = 0;
};

// Free blocks of sizes from `least` to below twice that.
struct FreeClass {
  uint64_t least = 0;
  uint64_t blocks = 0;
  uint64_t bytes = 0;
};

struct MemoryAnalysis {
  // Now.
  uint64_t reserved = 0;
  uint64_t in_use = 0;
  uint64_t in_use_blocks = 0;
  uint64_t rounding = 0;  // of in_use, what nobody asked for
  uint64_t pending = 0;
  uint64_t pending_blocks = 0;
  uint64_t free_split = 0;  // in segments that are in use
  uint64_t free_whole = 0;  // whole segments
  uint64_t largest_free = 0;
  uint64_t free_blocks = 0;
  std::vector<FreeClass> free_classes;  // without gaps, smallest first

  // Largest first; those that hold nothing, and held nothing at the peak, are
  // left out.
  std::vector<MemoryOwner> owners;
  static constexpr size_t kSeries = 7;  // owners with a colour of their own
  // Index in `owners` of each site; owners.size(): none.
  std::vector<size_t> owner_of_site;
  size_t unknown_owner = 0;

  // Of the history.
  bool is_complete = true;  // no event before the first one
  int64_t duration_us = 0;
  uint64_t peak = 0;  // most in use at once
  int64_t peak_time_us = 0;
  std::vector<MemoryMoment> timeline;
  std::vector<MemoryMark> failures;

  uint64_t free() const { return free_split + free_whole; }
  // Of what is free, the part that one request cannot have; 0 to 1.
  double fragmentation() const;
  size_t owner(uint32_t site) const {
    return site < owner_of_site.size() ? owner_of_site[site] : unknown_owner;
  }
};

// With at most `columns` moments, and that before the first event.
MemoryAnalysis Analyse(const MemorySnapshot& snapshot, size_t columns);

// "a.cc:40" of "/long/way/to/a.cc", or what else there is.
std::string SiteName(const MemorySnapshot& snapshot, uint32_t site);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_MEMORY_ANALYSIS_H_
