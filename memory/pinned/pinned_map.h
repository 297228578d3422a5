// SPDX-License-Identifier: Apache-2.0
//
// PinnedMap: finds the pinned block that holds an address, for all backends.
//
// A hash table of the blocks' beginnings is read without a lock.  A reader may
// meet a block that another thread is removing: the record stays readable, and
// its base tells whether it is the right one.  Interior pointers, and blocks
// that moved to another chain while a reader was in it, are looked up in an
// ordered map under the lock.
//
// Lock: `mutex_`, a leaf.  The map changes only with calls of the driver.

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

  // The block that begins at `pointer`; nullptr if there is none, or if it is
  // given back meanwhile.
  PinnedBlock* FindBase(const void* pointer) const {
    PinnedBlock* block = FindQuickly(pointer);
    return block != nullptr ? block : FindSlowly(pointer, false);
  }
  // The block that holds `pointer`, or else the block that ends there.
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
