// SPDX-License-Identifier: Apache-2.0

#include "memory/device/free_blocks.h"

#include <iterator>
#include <utility>

namespace devrt::internal {

namespace {

// A pairing heap by address.  `child` is the first child, `sibling` the next
// sibling, `back` the sibling before or, for a first child, the parent.
Block* Meld(Block* a, Block* b) {
  if (b->address() < a->address()) std::swap(a, b);
  b->free.sibling = a->free.child;
  if (a->free.child != nullptr) a->free.child->free.back = b;
  b->free.back = a;
  a->free.child = b;
  return a;
}

// Makes one heap of a list of siblings: melds pairs from the left, and then the
// pairs from the right.
Block* MeldSiblings(Block* list) {
  Block* pairs = nullptr;  // linked by `back`
  while (list != nullptr) {
    Block* a = list;
    Block* b = a->free.sibling;
    list = b != nullptr ? b->free.sibling : nullptr;
    a->free.sibling = nullptr;
    if (b != nullptr) {
      b->free.sibling = nullptr;
      a = Meld(a, b);
    }
    a->free.back = pairs;
    pairs = a;
  }
  Block* heap = nullptr;
  while (pairs != nullptr) {
    Block* next = pairs->free.back;
    pairs->free.back = nullptr;
    heap = heap != nullptr ? Meld(heap, pairs) : pairs;
    pairs = next;
  }
  if (heap != nullptr) {
    heap->free.back = nullptr;
    heap->free.sibling = nullptr;
  }
  return heap;
}

// The next block in the order parent, first child, siblings; nullptr at the
// end.
Block* NextInHeap(const Block* block) {
  if (block->free.child != nullptr) return block->free.child;
  while (block != nullptr) {
    if (block->free.sibling != nullptr) return block->free.sibling;
    // Go back over the siblings to the parent.
    const Block* back = block->free.back;
    while (back != nullptr && back->free.child != block) {
      block = back;
      back = block->free.back;
    }
    block = back;
  }
  return nullptr;
}

}  // namespace

void SmallFreeBlocks::InsertSlowly(Block* block) {
  const uint32_t bin = BinOf(block->size);
  std::unique_ptr<Block*[]>& bins = groups_[bin / kGroupSize];
  if (bins == nullptr) {
    bins = std::make_unique<Block*[]>(kGroupSize);
    return Insert(block);
  }
  Block*& heap = bins[bin % kGroupSize];
  heap = Meld(heap, block);
}

// The bin has another block, so its bits stay set.
void SmallFreeBlocks::RemoveSlowly(Block* block) {
  const uint32_t bin = BinOf(block->size);
  Block*& heap = groups_[bin / kGroupSize][bin % kGroupSize];
  Block* rest = block->free.child;
  if (heap == block) {
    heap = MeldSiblings(rest);
    return;
  }
  Block* back = block->free.back;
  Block* sibling = block->free.sibling;
  (back->free.child == block ? back->free.child : back->free.sibling) = sibling;
  if (sibling != nullptr) sibling->free.back = back;
  if (rest != nullptr) heap = Meld(heap, MeldSiblings(rest));
}

Block* SmallFreeBlocks::FirstFrom(uint32_t granules) const {
  size_t group = granules / kGroupSize;
  if (group >= kGroups) return nullptr;
  uint64_t bits = bits_[group] & (~uint64_t{0} << (granules % kGroupSize));
  if (bits == 0) {
    const uint64_t later =
        group + 1 < kGroups - 1 ? summary_ & (~uint64_t{0} << (group + 1)) : 0;
    group =
        later != 0 ? static_cast<size_t>(__builtin_ctzll(later)) : kGroups - 1;
    bits = bits_[group];
    // The group of `granules` was looked at above; do not begin it again.
    if (bits == 0 || granules / kGroupSize == kGroups - 1) return nullptr;
  }
  return groups_[group][static_cast<size_t>(__builtin_ctzll(bits))];
}

Block* SmallFreeBlocks::Best(uint32_t granules) const {
  return FirstFrom(granules);
}

Block* SmallFreeBlocks::After(const Block* block) const {
  Block* next = NextInHeap(block);
  return next != nullptr ? next : FirstFrom(BinOf(block->size) + 1);
}

void LargeFreeBlocks::InsertInSet(Block* block) {
  blocks_.insert(KeyOf(block));
}

void LargeFreeBlocks::RemoveFromSet(Block* block) {
  blocks_.erase(KeyOf(block));
}

LargeFreeBlocks::Key LargeFreeBlocks::From(const Key& key) const {
  Key found = {UINT64_MAX, UINTPTR_MAX, nullptr};
  if (blocks_.size() > 1) found = *blocks_.lower_bound(key);
  if (newest_ == nullptr) return found;
  const Key newest = KeyOf(newest_);
  return newest < key || found < newest ? found : newest;
}

Block* LargeFreeBlocks::Best(uint64_t bytes, uint64_t limit) const {
  const Key found = From({bytes, 0, nullptr});
  return found.bytes < limit ? found.block : nullptr;
}

Block* LargeFreeBlocks::After(const Block* block) const {
  const auto address = reinterpret_cast<uintptr_t>(block->address());
  return From({block->bytes(), address + 1, nullptr}).block;
}

}  // namespace devrt::internal
