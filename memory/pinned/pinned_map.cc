// SPDX-License-Identifier: Apache-2.0

#include "memory/pinned/pinned_map.h"

#include <iterator>

namespace devrt::internal {

PinnedMap& PinnedMap::Get() {
  static PinnedMap* const map = new PinnedMap;
  return *map;
}

PinnedBlock* PinnedMap::FindSlowly(const void* pointer, bool interior) const {
  const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
  MutexLock lock(&mutex_);
  const auto after = blocks_.upper_bound(address);
  if (after == blocks_.begin()) return nullptr;
  const auto& [base, block] = *std::prev(after);
  if (!interior) return base == address ? block : nullptr;
  const uint64_t size = block->size.load(std::memory_order_relaxed);
  return address - base <= size ? block : nullptr;
}

void PinnedMap::Add(PinnedBlock* block) {
  void* const base = block->base.load(std::memory_order_relaxed);
  MutexLock lock(&mutex_);
  blocks_.emplace(reinterpret_cast<uintptr_t>(base), block);
  std::atomic<PinnedBlock*>& head = heads_[Bucket(base)];
  block->chain.store(head.load(std::memory_order_relaxed),
                     std::memory_order_relaxed);
  head.store(block, std::memory_order_release);
  count_.fetch_add(1, std::memory_order_release);
}

void PinnedMap::Remove(PinnedBlock* block) {
  void* const base = block->base.load(std::memory_order_relaxed);
  MutexLock lock(&mutex_);
  blocks_.erase(reinterpret_cast<uintptr_t>(base));
  std::atomic<PinnedBlock*>* link = &heads_[Bucket(base)];
  while (link->load(std::memory_order_relaxed) != block) {
    link = &link->load(std::memory_order_relaxed)->chain;
  }
  link->store(block->chain.load(std::memory_order_relaxed),
              std::memory_order_release);
  count_.fetch_sub(1, std::memory_order_release);
}

}  // namespace devrt::internal
