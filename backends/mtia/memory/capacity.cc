// SPDX-License-Identifier: Apache-2.0
#include "backends/mtia/memory/capacity.h"

#include "backends/mtia/common/error.h"
#include "backends/mtia/common/text.h"

namespace devrt::mtia {
namespace {

constexpr uint64_t kTooLarge = 1ull << 60;

}  // namespace

bool Capacity::Options::operator==(const Options& other) const {
  return total == other.total && bytes == other.bytes &&
         granularity == other.granularity && contiguous == other.contiguous;
}

void Capacity::Reset(const Options& options) {
  options_ = options;
  ranges_.Reset(0, options.bytes);
  used_ = 0;
}

bool Capacity::Allocate(Block* block) {
  const uint64_t step = options_.granularity;
  block->rounded = (block->size + step - 1) & ~(step - 1);
  if (block->rounded > free_bytes()) return false;
  if (options_.contiguous &&
      !ranges_.Allocate(block->rounded, 1, &block->physical)) {
    return false;
  }
  used_ += block->rounded;
  return true;
}

void Capacity::Free(const Block& block) {
  if (block.lent) {
    for (const PhysicalRange& range : block.rest) {
      used_ -= range.size;
      ranges_.Free(range.begin, range.size);
    }
    return;
  }
  used_ -= block.rounded;
  if (options_.contiguous) ranges_.Free(block.physical, block.rounded);
}

void Capacity::AllocateAt(const PhysicalRange& range) {
  ranges_.AllocateAt(range.begin, range.size);
  used_ += range.size;
}

bool Capacity::IsTooLarge(uint64_t size) const {
  return size >= kTooLarge || size > options_.total;
}

devrt_status Capacity::OutOfMemory(const std::string& name,
                                   uint64_t size) const {
  const uint64_t free = free_bytes();
  const uint64_t largest = options_.contiguous ? ranges_.Largest() : free;
  const bool fragmented = size <= free;
  return MakeError(
      DEVRT_RESOURCE_EXHAUSTED, kMemoryAllocation,
      name + " is out of memory" + (fragmented ? " (fragmented)" : "") + ": " +
          Bytes(size) + " asked for; total " + std::to_string(options_.total) +
          ", free " + std::to_string(free) + ", largest free range " +
          std::to_string(largest));
}

}  // namespace devrt::mtia
