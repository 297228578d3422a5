// SPDX-License-Identifier: Apache-2.0
//
// SmallFreeBlocks, LargeFreeBlocks: the free blocks of one pool and one size
// class.  Both find the best fit: the smallest block that is large enough, and
// among blocks of that size the one at the lowest address.
//
// Small pool: a bin for each size of 1 .. 4,096 granules, the last one for 2
// MiB and more (blocks above 2 MiB exist only in expandable segments).  Two
// levels of bits find the first bin that is not empty.  A bin is a pairing heap
// by address, whose links are in the blocks.  Insert is O(1), Remove O(log n)
// on average, Best O(1).  Groups of 64 bins are allocated when they are used.
//
// Large pool: an ordered set by (size, address); it has few blocks.  The newest
// one is kept apart, since a block that comes back is often taken next.
//
// Not synchronised: guarded by the lock of the pool.

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
  // The common case is inline: a bin of one block.
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
  // The best block of at least `granules`, 1 .. 4,096, which stays in; nullptr
  // if there is none.
  Block* Best(uint32_t granules) const;
  // Another block, for a caller that may not take `block`.  Sizes ascend;
  // blocks of one size come in the order of the heap.
  Block* After(const Block* block) const;

 private:
  void InsertSlowly(Block* block);
  void RemoveSlowly(Block* block);
  // The top of the first bin that is not empty, from that of `granules` on.
  Block* FirstFrom(uint32_t granules) const;

  static uint32_t BinOf(uint32_t size) {
    return size < kLastBin ? size : kLastBin;
  }

  static constexpr uint32_t kLastBin = kSmallSegment / kGranule;
  static constexpr size_t kGroupSize = 64;
  static constexpr size_t kGroups = 65;  // the last bin has its own group
  std::array<std::unique_ptr<Block*[]>, kGroups> groups_;
  std::array<uint64_t, kGroups> bits_ = {};  // bins that are not empty
  uint64_t summary_ = 0;                     // groups 1 .. 63 with a block
};

class LargeFreeBlocks {
 public:
  void Insert(Block* block) {
    if (newest_ != nullptr) InsertInSet(newest_);
    newest_ = block;
  }
  void Remove(Block* block) {
    if (newest_ != block) return RemoveFromSet(block);
    newest_ = nullptr;
  }
  // The best block of at least `bytes` and less than `limit` (the rules for
  // oversize blocks), which stays in; nullptr if there is none.
  Block* Best(uint64_t bytes, uint64_t limit) const;
  // The next block by (size, address).
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
  static Key KeyOf(Block* block) {
    return {block->bytes(), reinterpret_cast<uintptr_t>(block->address()),
            block};
  }
  void InsertInSet(Block* block);
  void RemoveFromSet(Block* block);
  // The least key that is not less than `key`.
  Key From(const Key& key) const;

  Block* newest_ = nullptr;  // in no set
  // The last one is no block.  It keeps the node of the tree, which would go
  // and come back where a pool has one free block or none.
  absl::btree_set<Key> blocks_ = {{UINT64_MAX, UINTPTR_MAX, nullptr}};
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_FREE_BLOCKS_H_
