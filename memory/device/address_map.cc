// SPDX-License-Identifier: Apache-2.0

#include "memory/device/address_map.h"

#include <iterator>

namespace devrt::internal {

AddressMap& AddressMap::Get() {
  static AddressMap* const map = new AddressMap;
  return *map;
}

AddressMap::~AddressMap() {
  for (const std::atomic<Leaf*>& leaf : leaves_) {
    delete leaf.load(std::memory_order_relaxed);
  }
}

Segment* AddressMap::FindFar(uintptr_t address) const {
  MutexLock lock(&mutex_);
  auto after = far_.upper_bound(address);
  if (after == far_.begin()) return nullptr;
  Segment* segment = std::prev(after)->second;
  return segment->Holds(address) ? segment : nullptr;
}

std::atomic<Segment*>* AddressMap::Slots(uintptr_t window) {
  std::atomic<Leaf*>& place = leaves_[window / kWindows];
  Leaf* leaf = place.load(std::memory_order_relaxed);
  if (leaf == nullptr) {
    leaf = new Leaf();
    place.store(leaf, std::memory_order_release);
  }
  return leaf->windows[window % kWindows];
}

bool AddressMap::Add(Segment* segment) {
  const uintptr_t base = segment->base.load(std::memory_order_relaxed);
  const uintptr_t first = base >> kWindowBits;
  const uintptr_t last = (base + segment->bytes() - 1) >> kWindowBits;
  MutexLock lock(&mutex_);
  if (last >= kLeaves * kWindows) {
    return far_.emplace(base, segment).second;
  }
  // Check all windows before any is changed: a window is full only if the
  // backend's memory overlaps.
  for (uintptr_t w = first; w <= last; ++w) {
    const std::atomic<Segment*>* slots = Slots(w);
    if (slots[0].load(std::memory_order_relaxed) != nullptr &&
        slots[1].load(std::memory_order_relaxed) != nullptr) {
      return false;
    }
  }
  for (uintptr_t w = first; w <= last; ++w) {
    std::atomic<Segment*>* slots = Slots(w);
    const int free =
        slots[0].load(std::memory_order_relaxed) == nullptr ? 0 : 1;
    slots[free].store(segment, std::memory_order_release);
  }
  return true;
}

void AddressMap::Remove(Segment* segment) {
  const uintptr_t base = segment->base.load(std::memory_order_relaxed);
  const uintptr_t first = base >> kWindowBits;
  const uintptr_t last = (base + segment->bytes() - 1) >> kWindowBits;
  MutexLock lock(&mutex_);
  if (last >= kLeaves * kWindows) {
    far_.erase(base);
    return;
  }
  for (uintptr_t w = first; w <= last; ++w) {
    std::atomic<Segment*>* slots = Slots(w);
    for (int i = 0; i < 2; ++i) {
      if (slots[i].load(std::memory_order_relaxed) == segment) {
        slots[i].store(nullptr, std::memory_order_release);
      }
    }
  }
}

}  // namespace devrt::internal
