// SPDX-License-Identifier: Apache-2.0
//
// ObjectCache: an allocator for Storage objects, for owners of borrowed memory
// and for exported tensors (dlpack_block.h).  Each thread keeps the heap blocks
// of a few objects that ended on it for the next objects.  The memory of the
// arrays is allocated elsewhere.
//
//   std::allocate_shared<Storage>(ObjectCache<Storage>(), ...);
//   std::allocate_shared<Owner>(ObjectCache<Owner, OfOwners>(), ...);

#ifndef DEVRT_ARRAYS_STORAGE_OBJECT_CACHE_H_
#define DEVRT_ARRAYS_STORAGE_OBJECT_CACHE_H_

#include <cstddef>

namespace devrt::internal {

// All requests of a kind are for one size.  Larger blocks may be put there.
struct OfStorages {
  static constexpr int kKind = 0;
};
struct OfOwners {
  static constexpr int kKind = 1;
};
struct OfExports {
  static constexpr int kKind = 2;
};
inline constexpr int kBlockKinds = 3;

void* TakeObjectBlock(int kind, size_t bytes);
void PutObjectBlock(int kind, void* block);

template <typename T, typename Kind = OfStorages>
struct ObjectCache {
  using value_type = T;
  ObjectCache() = default;
  template <typename U>
  explicit ObjectCache(const ObjectCache<U, Kind>&) {}
  T* allocate(size_t count) {
    return static_cast<T*>(TakeObjectBlock(Kind::kKind, count * sizeof(T)));
  }
  void deallocate(T* block, size_t) { PutObjectBlock(Kind::kKind, block); }
  template <typename U>
  friend bool operator==(const ObjectCache&, const ObjectCache<U, Kind>&) {
    return true;
  }
  template <typename U>
  friend bool operator!=(const ObjectCache&, const ObjectCache<U, Kind>&) {
    return false;
  }
};

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_STORAGE_OBJECT_CACHE_H_
