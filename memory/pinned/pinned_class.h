// SPDX-License-Identifier: Apache-2.0
//
// PinnedClass: the free blocks of the sizes from one power of two up to the
// next, and the statistics of all blocks of these sizes.
//
// Free blocks of the power of two are in a list, last in first out, and others
// in a set ordered by size.  Bodies are here because each allocation and free
// runs through them.

#ifndef DEVRT_MEMORY_PINNED_PINNED_CLASS_H_
#define DEVRT_MEMORY_PINNED_PINNED_CLASS_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/container/btree_map.h"
#include "memory/common/ledger.h"
#include "memory/common/spin_lock.h"
#include "memory/pinned/pinned_block.h"

namespace devrt::internal {

struct alignas(64) PinnedClass {
  SpinLock lock;
  PinnedBlock* exact DEVRT_GUARDED_BY(lock) = nullptr;
  absl::btree_multimap<uint64_t, PinnedBlock*> others DEVRT_GUARDED_BY(lock);
  LedgerShard shard DEVRT_GUARDED_BY(lock);
  bool is_counted = false;  // in the ledger; guarded by the allocator's mutex

  // The smallest free block of `size` to `most` bytes; nullptr if there is
  // none.
  PinnedBlock* Find(uint64_t size, uint64_t most) DEVRT_REQUIRES(lock) {
    const auto other = others.lower_bound(size);
    PinnedBlock* block = other == others.end() ? nullptr : other->second;
    // No block of the class is smaller than those of the list.
    if (exact != nullptr &&
        exact->size.load(std::memory_order_relaxed) >= size) {
      block = exact;
    }
    if (block == nullptr ||
        block->size.load(std::memory_order_relaxed) > most) {
      return nullptr;
    }
    return block;
  }
  // Takes out a block that Find returned.
  void Unlink(PinnedBlock* block) DEVRT_REQUIRES(lock) {
    if (block == exact) {
      exact = std::exchange(block->next, nullptr);
      return;
    }
    const uint64_t size = block->size.load(std::memory_order_relaxed);
    auto [at, end] = others.equal_range(size);
    at =
        std::find_if(at, end, [&](const auto& e) { return e.second == block; });
    if (at != end) others.erase(at);
  }
  void Add(PinnedBlock* block) DEVRT_REQUIRES(lock) {
    block->use = BlockUse::kFree;
    const uint64_t size = block->size.load(std::memory_order_relaxed);
    if ((size & (size - 1)) == 0) {
      block->next = std::exchange(exact, block);
    } else {
      others.emplace(size, block);
    }
  }
  // Takes out all free blocks.
  std::vector<PinnedBlock*> TakeAll() DEVRT_EXCLUDES(lock) {
    std::vector<PinnedBlock*> blocks;
    SpinLockHolder hold(&lock);
    for (PinnedBlock* b = std::exchange(exact, nullptr); b != nullptr;) {
      blocks.push_back(b);
      b = std::exchange(b->next, nullptr);
    }
    for (const auto& [size, block] : others) blocks.push_back(block);
    others.clear();
    for (PinnedBlock* block : blocks) block->use = BlockUse::kNone;
    return blocks;
  }
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_PINNED_PINNED_CLASS_H_
