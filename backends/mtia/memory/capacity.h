// SPDX-License-Identifier: Apache-2.0
//
// Capacity: which bytes of a memory its blocks have taken, as the physical
// memory behind a machine's addresses.  A request takes the lowest place that
// fits, so that it can fail for fragmentation and for lack of bytes.
//
// Not thread-safe.  A copy restores what was taken when it was made.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_CAPACITY_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_CAPACITY_H_

#include <cstdint>
#include <string>

#include "backends/mtia/memory/block.h"
#include "backends/mtia/memory/free_ranges.h"
#include "devrt/backends/abi/devrt_plugin.h"

namespace devrt::mtia {

inline constexpr int64_t kMemoryAllocation = 2;  // CUDA's number

class Capacity {
 public:
  struct Options {
    uint64_t total = 0;  // for messages; a larger block is refused
    uint64_t bytes = 0;  // that rounded blocks may have together
    uint64_t granularity = 1;
    bool contiguous = true;  // a block needs one range

    bool operator==(const Options& other) const;
  };

  // Everything is free.
  void Reset(const Options& options);

  // Takes a place for block->size bytes, and writes it into the block.  Returns
  // false if there is none.
  bool Allocate(Block* block);
  // Gives back what the block has: all of its bytes, or the rest if it has lent
  // the others.
  void Free(const Block& block);
  // Takes a range that is free.
  void AllocateAt(const PhysicalRange& range);

  bool IsTooLarge(uint64_t size) const;
  uint64_t free_bytes() const { return options_.bytes - used_; }
  // The error of a request that finds no place in the memory `name`.
  devrt_status OutOfMemory(const std::string& name, uint64_t size) const;

 private:
  Options options_;
  FreeRanges ranges_;
  uint64_t used_ = 0;
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_CAPACITY_H_
