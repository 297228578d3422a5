// SPDX-License-Identifier: Apache-2.0
//
// The host memory of Storage objects: a thread keeps that of a few which ended
// on it for the next ones.  Not the memory that they stand for.
//
//   std::allocate_shared<Storage>(StorageBlocks<Storage>(), ...);

#ifndef DEVRT_ARRAYS_INTERNAL_STORAGE_BLOCKS_H_
#define DEVRT_ARRAYS_INTERNAL_STORAGE_BLOCKS_H_

#include <cstddef>

namespace devrt::internal {

// All of one size: what std::allocate_shared asks for.
void* TakeStorageBlock(size_t bytes);
void PutStorageBlock(void* block);

template <typename T>
struct StorageBlocks {
  using value_type = T;
  StorageBlocks() = default;
  template <typename U>
  explicit StorageBlocks(const StorageBlocks<U>&) {}
  T* allocate(size_t count) {
    return static_cast<T*>(TakeStorageBlock(count * sizeof(T)));
  }
  void deallocate(T* block, size_t) { PutStorageBlock(block); }
  template <typename U>
  friend bool operator==(const StorageBlocks&, const StorageBlocks<U>&) {
    return true;
  }
  template <typename U>
  friend bool operator!=(const StorageBlocks&, const StorageBlocks<U>&) {
    return false;
  }
};

}  // namespace devrt::internal

#endif  // DEVRT_ARRAYS_INTERNAL_STORAGE_BLOCKS_H_
