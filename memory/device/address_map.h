// SPDX-License-Identifier: Apache-2.0
//
// AddressMap: finds the segment that holds an address, for all devices.
//
// The map has two levels over windows of 2 MiB: 2^13 leaves of 2^14 windows
// cover the 48 bits of user addresses.  A btree under the lock has the segments
// at other addresses.  A segment has at least 2 MiB, so at most two segments
// reach into a window: one that ends there and one that begins there.
//
// Find takes no lock and is two loads; Add and Remove take `mutex_`, a leaf.
// Leaves live as long as the map; that of the process lives for ever.  A Find
// that races with a Remove may return the segment, which stays readable
// (block.h).

#ifndef DEVRT_MEMORY_DEVICE_ADDRESS_MAP_H_
#define DEVRT_MEMORY_DEVICE_ADDRESS_MAP_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "absl/base/optimization.h"
#include "absl/container/btree_map.h"
#include "devrt/runtime/mutex.h"
#include "memory/device/block.h"

namespace devrt::internal {

class AddressMap {
 public:
  AddressMap() = default;
  ~AddressMap();
  AddressMap(const AddressMap&) = delete;
  AddressMap& operator=(const AddressMap&) = delete;
  // The map of the process.
  static AddressMap& Get();

  // Returns nullptr if no caching allocator has the address.
  Segment* Find(const void* pointer) const {
    const uintptr_t address = reinterpret_cast<uintptr_t>(pointer);
    const uintptr_t window = address >> kWindowBits;
    if (ABSL_PREDICT_FALSE(window >= kLeaves * kWindows))
      return FindFar(address);
    const Leaf* leaf =
        leaves_[window / kWindows].load(std::memory_order_acquire);
    if (leaf == nullptr) return nullptr;
    for (const std::atomic<Segment*>& slot : leaf->windows[window % kWindows]) {
      Segment* s = slot.load(std::memory_order_acquire);
      if (s != nullptr && s->Holds(address)) return s;
    }
    return nullptr;
  }

  // False if a window would hold three segments: the backend's memory overlaps.
  bool Add(Segment* segment) DEVRT_EXCLUDES(mutex_);
  void Remove(Segment* segment) DEVRT_EXCLUDES(mutex_);

 private:
  static constexpr int kWindowBits = 21;
  static constexpr size_t kLeaves = size_t{1} << 13;
  static constexpr size_t kWindows = size_t{1} << 14;
  struct Leaf {
    std::atomic<Segment*> windows[kWindows][2];
  };

  std::atomic<Segment*>* Slots(uintptr_t window) DEVRT_REQUIRES(mutex_);
  Segment* FindFar(uintptr_t address) const DEVRT_EXCLUDES(mutex_);

  std::atomic<Leaf*> leaves_[kLeaves] = {};
  mutable Mutex mutex_;
  absl::btree_map<uintptr_t, Segment*> far_ DEVRT_GUARDED_BY(mutex_);
};

}  // namespace devrt::internal

#endif  // DEVRT_MEMORY_DEVICE_ADDRESS_MAP_H_
