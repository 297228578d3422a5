// SPDX-License-Identifier: Apache-2.0
//
// FreeBlocks: the free blocks of one stream and one size class of segments;
// finds the best fit: the smallest that is large enough, of these the one at
// the lowest address.
//
// Small pool: a bin for each size of 1 .. 4,096 granules (2 MiB; the last one
// for more, which only expandable segments have), two levels of bits to find
// the first that is not empty, and in each bin a pairing heap by address,
// threaded through the blocks.  Insert is O(1), Remove O(log n) on the average,
// Best O(1).  Groups of 64 bins are made when used.
//
// Large pool: an ordered set by (size, address); its blocks are few.
//
// Not synchronised: the BlockPool's.

#ifndef DEVRT_MEMORY_DEVICE_FREE_BLOCKS_H_
#define DEVRT_MEMORY_DEVICE_FREE_BLOCKS_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <tuple>

#include "absl/base/optimization.h"
#include "absl/container/btree_set.h"
#include "memory/device/block.h"

namespace devrt::internal {

class SmallFreeBlocks {
 public:
  // The usual way is inline: a bin of one block.
  void Insert(Block* block) {
    const uint32_t bin = BinOf(block->size);
    const size_t group = bin / kGroupSize;
    block->free.child = nullptr;
    block->free.sibling = nullptr;
    block->free.back = nullptr;
    Block** bins = groups_[group].get();
    if (ABSL_PREDICT_FALSE(bins == nullptr || bins[bin % kGroupSize])) {
      return InsertSlowly(block);
    }
    bins[bin % kGroupSize] = block;
    bits_[group] |= uint64_t{1} << (bin % kGroupSize);
    // Bit 0, of the first group and of the last, is never read.
    summary_ |= uint64_t{1} << (group % 64);
  }
  void Remove(Block* block) {
    const uint32_t bin = BinOf(block->size);
    const size_t group = bin / kGroupSize;
    Block*& heap = groups_[group][bin % kGroupSize];
    if (ABSL_PREDICT_FALSE(heap != block || block->free.child != nullptr)) {
      return RemoveSlowly(block);
    }
    heap = nullptr;
    bits_[group] &= ~(uint64_t{1} << (bin % kGroupSize));
    if (bits_[group] == 0) summary_ &= ~(uint64_t{1} << (group % 64));
  }
  // Of at least `granules` of 1 .. 4,096; nullptr if there is none.  The block
  // stays in.
  Block* Best(uint32_t granules) const;
  // Another one after `block`, for those who may not take it: the sizes grow,
  // among equals the order is the heap's.
  Block* After(const Block* block) const;

 private:
  void InsertSlowly(Block* block);
  void RemoveSlowly(Block* block);
  // The first bin that is not empty, from that of `granules` on.
  Block* FirstFrom(uint32_t granules) const;

  static uint32_t BinOf(uint32_t size) {
    return size < kLastBin ? size : kLastBin;
  }

  static constexpr uint32_t kLastBin = kSmallSegment / kGranule;
  static constexpr size_t kGroupSize = 64;
  static constexpr size_t kGroups = 65;  // the last bin has one of its own
  std::array<std::unique_ptr<Block*[]>, kGroups> groups_;
  std::array<uint64_t, kGroups> bits_ = {};  // bins that are not empty
  uint64_t summary_ = 0;                     // groups 1 .. 63 with any
};

class LargeFreeBlocks {
 public:
  void Insert(Block* block);
  void Remove(Block* block);
  // Of at least `bytes` and less than `limit` (the rules for oversize blocks).
  Block* Best(uint64_t bytes, uint64_t limit) const;
  // The next one by (size, address).
  Block* After(const Block* block) const;

 private:
  struct Key {
    uint64_t bytes;
    uintptr_t address;
    Block* block;
    friend bool operator<(const Key& a, const Key& b) {
      return std::tie(a.bytes, a.address) < std::tie(b.bytes, b.address);
    }
  };
  absl::btree_set<Key> blocks_;
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_FREE_BLOCKS_H_
