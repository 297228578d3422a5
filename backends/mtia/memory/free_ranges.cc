// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/free_ranges.h"

#include <algorithm>
#include <iterator>

namespace devrt::mtia {

void FreeRanges::Reset(uint64_t begin, uint64_t size) {
  ranges_.clear();
  if (size != 0) ranges_.emplace(begin, size);
}

bool FreeRanges::Allocate(uint64_t size, uint64_t alignment, uint64_t* offset) {
  for (auto range = ranges_.begin(); range != ranges_.end(); ++range) {
    const uint64_t begin = range->first;
    const uint64_t end = begin + range->second;
    const uint64_t place = (begin + alignment - 1) & ~(alignment - 1);
    if (place > end || end - place < size) continue;

    range->second = place - begin;
    if (place == begin) ranges_.erase(range);
    if (place + size != end) ranges_.emplace(place + size, end - place - size);
    *offset = place;
    return true;
  }
  return false;
}

void FreeRanges::AllocateAt(uint64_t offset, uint64_t size) {
  const auto range = std::prev(ranges_.upper_bound(offset));
  const uint64_t end = range->first + range->second;
  range->second = offset - range->first;
  if (range->second == 0) ranges_.erase(range);
  if (offset + size != end) ranges_.emplace(offset + size, end - offset - size);
}

uint64_t FreeRanges::Free(uint64_t offset, uint64_t size) {
  auto next = ranges_.lower_bound(offset);
  if (next != ranges_.end() && next->first == offset + size) {
    size += next->second;
    next = ranges_.erase(next);
  }
  if (next != ranges_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      return before->second += size;
    }
  }
  ranges_.emplace_hint(next, offset, size);
  return size;
}

uint64_t FreeRanges::Largest() const {
  uint64_t largest = 0;
  for (const auto& range : ranges_) largest = std::max(largest, range.second);
  return largest;
}

}  // namespace devrt::mtia
