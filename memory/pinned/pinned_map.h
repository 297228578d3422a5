// SPDX-License-Identifier: Apache-2.0
//
// PinnedMap: from an address to the pinned block that holds it, for all
// backends.
//
// A hash of bases, chained through the blocks and read without a lock, answers
// for beginnings.  A reader may meet a block that is given away meanwhile: the
// block is still readable, and its base says whether it is the one.  What the
// hash does not find, interior pointers and a block that moved under the
// reader's feet, is looked up in an ordered map under the lock.
//
// Lock: `mutex_`, a leaf; changes come with native calls only.

#ifndef DEVRT_MEMORY_PINNED_PINNED_MAP_H_
#define DEVRT_MEMORY_PINNED_PINNED_MAP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/container/btree_map.h"
#include "devrt/runtime/mutex.h"
#include "memory/pinned/pinned_block.h"

namespace devrt::internal {

class PinnedMap {
 public:
  static PinnedMap& Get();

  // The block that begins there, for sure unless it is given back meanwhile.
  PinnedBlock* FindBase(const void* pointer) const {
    PinnedBlock* block = FindQuickly(pointer);
    return block != nullptr ? block : FindSlowly(pointer, false);
  }
  // The block that holds `pointer`, else that ends there.
  PinnedBlock* Find(const void* pointer) const {
    if (IsEmpty()) return nullptr;
    PinnedBlock* block = FindQuickly(pointer);
    return block != nullptr ? block : FindSlowly(pointer, true);
  }
  bool IsEmpty() const { return count_.load(std::memory_order_acquire) == 0; }

  void Add(PinnedBlock* block) DEVRT_EXCLUDES(mutex_);
  void Remove(PinnedBlock* block) DEVRT_EXCLUDES(mutex_);

 private:
  static constexpr size_t kBits = 16;

  PinnedMap() = default;
  static size_t Bucket(const void* pointer) {
    const uint64_t x = reinterpret_cast<uintptr_t>(pointer);
    return (x * 0x9E3779B97F4A7C15) >> (64 - kBits);
  }
  PinnedBlock* FindQuickly(const void* pointer) const {
    PinnedBlock* block =
        heads_[Bucket(pointer)].load(std::memory_order_acquire);
    while (block != nullptr &&
           block->base.load(std::memory_order_acquire) != pointer) {
      block = block->chain.load(std::memory_order_acquire);
    }
    return block;
  }
  PinnedBlock* FindSlowly(const void* pointer, bool interior) const
      DEVRT_EXCLUDES(mutex_);

  std::atomic<PinnedBlock*> heads_[size_t{1} << kBits] = {};
  std::atomic<size_t> count_{0};
  mutable Mutex mutex_;
  absl::btree_map<uintptr_t, PinnedBlock*> blocks_ DEVRT_GUARDED_BY(mutex_);
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_PINNED_PINNED_MAP_H_
