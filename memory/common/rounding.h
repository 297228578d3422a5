// SPDX-License-Identifier: Apache-2.0
//
// The sizes of blocks and segments (docs/reference/semantics.md 3.3).

#ifndef DEVRT_MEMORY_COMMON_ROUNDING_H_
#define DEVRT_MEMORY_COMMON_ROUNDING_H_

#include <cstdint>

namespace devrt::internal {

// All sizes are in bytes.  The size of a block is a multiple of kGranule.
inline constexpr uint64_t kGranule = 512;
inline constexpr uint64_t kMiB = uint64_t{1} << 20;
// Blocks of up to kSmallRequest lie in segments of kSmallSegment.
inline constexpr uint64_t kSmallRequest = kMiB;
inline constexpr uint64_t kSmallSegment = 2 * kMiB;
// Larger blocks below kLargeRequest lie in segments of kLargeSegment.
inline constexpr uint64_t kLargeRequest = 10 * kMiB;
inline constexpr uint64_t kLargeSegment = 20 * kMiB;
// A block of kLargeRequest or more gets a segment of its size, rounded up to a
// multiple of kSegmentStep.
inline constexpr uint64_t kSegmentStep = 2 * kMiB;
// A large block is split if more than kLargeRemainder would be left over.
inline constexpr uint64_t kLargeRemainder = kMiB;

constexpr uint64_t RoundUp(uint64_t bytes, uint64_t step) {
  return (bytes + step - 1) / step * step;
}

// The size of a block for 1 .. 2^60 - 1 bytes, without
// roundup_power2_divisions.
constexpr uint64_t BlockSize(uint64_t bytes) {
  return RoundUp(bytes, kGranule);
}
// In these functions `size` is a result of BlockSize.
constexpr bool IsSmall(uint64_t size) { return size <= kSmallRequest; }
constexpr uint64_t SegmentSize(uint64_t size) {
  return IsSmall(size)          ? kSmallSegment
         : size < kLargeRequest ? kLargeSegment
                                : RoundUp(size, kSegmentStep);
}
// True if `rest` bytes are split off a free block that serves `size` bytes.
constexpr bool IsSplit(uint64_t size, uint64_t rest, uint64_t max_split_size) {
  return IsSmall(size) ? rest >= kGranule
                       : size < max_split_size && rest > kLargeRemainder;
}

static_assert(BlockSize(1) == 512 && BlockSize(513) == 1024);
static_assert(SegmentSize(kMiB) == 2 * kMiB);
static_assert(SegmentSize(kMiB + 512) == 20 * kMiB);
static_assert(SegmentSize(10 * kMiB) == 10 * kMiB);
static_assert(SegmentSize(10 * kMiB + 512) == 12 * kMiB);
static_assert(!IsSplit(2 * kMiB, kMiB, UINT64_MAX));

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_COMMON_ROUNDING_H_
