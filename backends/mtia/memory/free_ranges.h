// SPDX-License-Identifier: Apache-2.0
//
// The free parts of a range of offsets.  A request gets the lowest part that
// fits.
//
//   FreeRanges ranges;
//   ranges.Reset(0, 1 << 20);
//   uint64_t offset;
//   if (ranges.Allocate(512, 512, &offset)) ranges.Free(offset, 512);
//
// Not thread-safe.

#ifndef DEVRT_BACKENDS_MTIA_MEMORY_FREE_RANGES_H_
#define DEVRT_BACKENDS_MTIA_MEMORY_FREE_RANGES_H_

#include <cstdint>
#include <map>

namespace devrt::mtia {

class FreeRanges {
 public:
  // Everything in [begin, begin + size) is free.
  void Reset(uint64_t begin, uint64_t size);

  // Takes the lowest place that fits.  `alignment` is a power of two.  Returns
  // false if there is none.
  bool Allocate(uint64_t size, uint64_t alignment, uint64_t* offset);
  // Takes [offset, offset + size), which is free.
  void AllocateAt(uint64_t offset, uint64_t size);
  // Gives a range back, and joins it with its free neighbours.  Returns the
  // size of the joined range.
  uint64_t Free(uint64_t offset, uint64_t size);

  uint64_t Largest() const;

 private:
  std::map<uint64_t, uint64_t> ranges_;  // offset to size; never adjacent
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_MEMORY_FREE_RANGES_H_
