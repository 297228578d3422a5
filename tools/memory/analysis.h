// SPDX-License-Identifier: Apache-2.0
//
// The figures of a report on a memory snapshot: sums, owners, memory over time
// and free blocks.  The terminal's text and the page show them.

#ifndef DEVRT_TOOLS_MEMORY_ANALYSIS_H_
#define DEVRT_TOOLS_MEMORY_ANALYSIS_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "devrt/memory/history.h"

namespace devrt::tools {

// The place in a program that allocated blocks.
struct MemoryOwner {
  std::string name;  // "train.cc:40", or "(place unknown)"
  uint64_t bytes = 0;
  uint64_t blocks = 0;
  uint64_t peak_bytes = 0;   // at the moment of the peak
  uint64_t allocations = 0;  // in the history
};

// A column of memory over time: the moment in it with the most memory in use.
struct MemoryMoment {
  int64_t time_us = 0;  // since the first event
  uint64_t reserved = 0;
  uint64_t pending = 0;
  std::vector<uint64_t> in_use;  // by owner; the last is for all others
  uint64_t total() const;        // in use
};

struct MemoryMark {  // a failed request
  int64_t time_us = 0;
  uint64_t bytes = 0;
};

// Free blocks with sizes from `least` to below 2 * `least`.
struct FreeClass {
  uint64_t least = 0;
  uint64_t blocks = 0;
  uint64_t bytes = 0;
};

struct MemoryAnalysis {
  // At the time of the snapshot.
  uint64_t reserved = 0;
  uint64_t in_use = 0;
  uint64_t in_use_blocks = 0;
  uint64_t rounding = 0;  // the part of in_use beyond the requested sizes
  uint64_t pending = 0;
  uint64_t pending_blocks = 0;
  uint64_t free_split = 0;  // in segments that are partly in use
  uint64_t free_whole = 0;  // in segments that are free as a whole
  uint64_t largest_free = 0;
  uint64_t free_blocks = 0;
  std::vector<FreeClass> free_classes;  // without gaps, smallest first

  // Largest first.  Owners that hold nothing now and held nothing at the peak
  // are left out.
  std::vector<MemoryOwner> owners;
  static constexpr size_t kSeries = 7;  // owners with a colour of their own
  // For each site its index in `owners`; owners.size(): the owner is left out.
  std::vector<size_t> owner_of_site;
  size_t unknown_owner = 0;

  // From the history.
  bool is_complete = true;  // no older events were dropped
  int64_t duration_us = 0;
  uint64_t peak = 0;  // the most memory in use at one moment
  int64_t peak_time_us = 0;
  std::vector<MemoryMoment> timeline;
  std::vector<MemoryMark> failures;

  uint64_t free() const { return free_split + free_whole; }
  // The share of the free memory that one request cannot get: 0 to 1.
  double fragmentation() const;
  size_t owner(uint32_t site) const {
    return site < owner_of_site.size() ? owner_of_site[site] : unknown_owner;
  }
};

// The timeline has at most `columns` moments, and one before the first event.
MemoryAnalysis Analyse(const MemorySnapshot& snapshot, size_t columns);

// "a.cc:40" for "/long/way/to/a.cc"; else the first frame; else "(place
// unknown)".
std::string SiteName(const MemorySnapshot& snapshot, uint32_t site);

}  // namespace devrt::tools

#endif  // DEVRT_TOOLS_MEMORY_ANALYSIS_H_
