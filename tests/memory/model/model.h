// SPDX-License-Identifier: Apache-2.0
//
// The simplest allocator that follows the rules of docs/reference/semantics.md
// 3.3: one list of segments, a search through all of them, and statistics that
// are counted anew.  The model has no uses: a freed block is free at once.
// Streams share nothing.

#ifndef DEVRT_TESTS_MEMORY_MODEL_MODEL_H_
#define DEVRT_TESTS_MEMORY_MODEL_MODEL_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "devrt/memory/statistics.h"

namespace devrt::testing {

// Written out, so that a wrong number in the allocator's header is found.
inline constexpr uint64_t kModelMiB = 1048576;

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
  // Returns the address that the next request gets.  Returns nullopt if it
  // needs a new segment; SegmentFor gives the size of that segment.
  std::optional<uint64_t> Place(size_t stream, uint64_t bytes) const;
  static uint64_t SegmentFor(uint64_t bytes);

  // Records that the allocator served the request at `address`.  A new segment
  // begins there if Place found nothing.
  void Allocate(size_t stream, uint64_t bytes, uint64_t address);
  void Free(uint64_t address);
  // Drops every segment that is wholly free.
  void EmptyCache();
  // Drops the segments whose base is not in `bases`.  Returns false if one of
  // them was in use.
  bool Keep(const std::set<uint64_t>& bases);
  void ResetPeak();
  void ResetAccumulated();
  // CountRetry: a request emptied the cache.  CountFailure: a request failed.
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
  // Describes the segments, for a failed test's message.
  std::string Describe() const;

 private:
  // Counts everything anew.  An increase since the last count counts as
  // allocated.
  void Recount();

  std::vector<ModelSegment> segments_;
  MemoryStatistics statistics_;
  int64_t retries_ = 0;
  int64_t failures_ = 0;
  int64_t native_calls_ = 0;
  int64_t native_frees_ = 0;
};

// Returns an empty text if the statistics are equal, else the figures that
// differ.  Sums of increases and decreases of free parts are left out, because
// an allocator may cut and join blocks in other steps than the model.
std::string Difference(const MemoryStatistics& got,
                       const MemoryStatistics& wanted);

}  // namespace devrt::testing

#endif  // DEVRT_TESTS_MEMORY_MODEL_MODEL_H_
