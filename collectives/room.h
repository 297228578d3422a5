// SPDX-License-Identifier: Apache-2.0
//
// Room: a list whose greatest length is known when it is made.  A short one
// allocates nothing, and an access does not ask where the elements are.
//
//   Room<Comm*> comms(operations.size());
//   comms.Add(comm);
//
// Elements have no destructor.  Threads: one at a time.

#ifndef DEVRT_COLLECTIVES_ROOM_H_
#define DEVRT_COLLECTIVES_ROOM_H_

#include <cstddef>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>

#include "absl/types/span.h"

namespace devrt::collectives::internal {

// As many as a process mostly has devices.
inline constexpr size_t kFewDevices = 8;

template <typename T, size_t kFew = kFewDevices>
class Room {
 public:
  static_assert(std::is_trivially_destructible_v<T>);
  static_assert(alignof(T) <= alignof(std::max_align_t));

  explicit Room(size_t most) {
    if (most > kFew) many_.reset(new std::byte[most * sizeof(T)]);
    data_ = reinterpret_cast<T*>(most > kFew ? many_.get() : few_);
  }
  Room(const Room&) = delete;
  Room& operator=(const Room&) = delete;

  template <typename... Args>
  T& Add(Args&&... args) {
    return *new (data_ + size_++) T{std::forward<Args>(args)...};
  }
  // Makes the element of a place, for those that come in no order.  The list
  // does not count it.
  T& Put(size_t place, const T& value) { return *new (data_ + place) T(value); }
  void Truncate(size_t size) { size_ = size; }

  T* data() { return data_; }
  const T* data() const { return data_; }
  size_t size() const { return size_; }
  T& operator[](size_t i) { return data_[i]; }
  const T& operator[](size_t i) const { return data_[i]; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  T* data_;
  size_t size_ = 0;
  std::unique_ptr<std::byte[]> many_;
  alignas(T) std::byte few_[kFew * sizeof(T)];
};

}  // namespace devrt::collectives::internal

#endif  // DEVRT_COLLECTIVES_ROOM_H_
