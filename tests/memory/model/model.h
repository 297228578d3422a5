// SPDX-License-Identifier: Apache-2.0
//
// An allocator as naive as can be, by the rules of docs/reference/semantics.md
// 3.3: one list of segments, one search through all of it, statistics counted
// by walking.  It knows nothing of uses: every block that is freed is free at
// once, and streams share nothing.

#ifndef DEVRT_TESTS_MEMORY_MODEL_MODEL_H_
#define DEVRT_TESTS_MEMORY_MODEL_MODEL_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "devrt/memory/statistics.h"

namespace devrt::testing {

struct ModelBlock {
  uint64_t address;
  uint64_t size;
  uint64_t requested;
  bool is_live;
};

struct ModelSegment {
  uint64_t base;
  uint64_t size;
  bool is_small;
  size_t stream;
  std::vector<ModelBlock> blocks;

  bool IsWhole() const { return blocks.size() == 1 && !blocks[0].is_live; }
};

class ModelAllocator {
 public:
  // Where the next request goes: its address, or nothing: a segment of so many
  // bytes is needed.
  std::optional<uint64_t> Place(size_t stream, uint64_t bytes) const;
  static uint64_t SegmentFor(uint64_t bytes);

  // The request was served at `address`; a new segment begins there if Place
  // found nothing.
  void Allocate(size_t stream, uint64_t bytes, uint64_t address);
  void Free(uint64_t address);
  // Wholly free segments go, all of them.
  void EmptyCache();
  // Those that are not in `bases` went; false if one of them was in use.
  bool Keep(const std::set<uint64_t>& bases);
  void ResetPeak();
  void ResetAccumulated();
  // A request emptied the cache, and one found nothing.
  void CountRetry() {
    ++retries_;
    Recount();
  }
  void CountFailure() {
    ++failures_;
    Recount();
  }

  uint64_t reserved() const;
  uint64_t cached() const;  // in wholly free segments
  const std::vector<ModelSegment>& segments() const { return segments_; }
  const MemoryStatistics& statistics() const { return statistics_; }
  // What the segments are now, for a failed test's message.
  std::string Describe() const;

 private:
  // Counts everything anew; what grew since the last time was allocated.
  void Recount();

  std::vector<ModelSegment> segments_;
  MemoryStatistics statistics_;
  int64_t retries_ = 0;
  int64_t failures_ = 0;
  int64_t native_calls_ = 0;
  int64_t native_frees_ = 0;
};

// Empty if equal, else the figures that are not.  Sums of increases of free
// parts are left out: how many cuts and joins a call is made of is its own
// matter; that they differ by `current` is checked.
std::string Difference(const MemoryStatistics& got,
                       const MemoryStatistics& wanted);

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_MEMORY_MODEL_MODEL_H_
