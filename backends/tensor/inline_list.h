// SPDX-License-Identifier: Apache-2.0
//
// A short list with inline storage, so that a launch allocates no memory for
// the lists that it builds.

#ifndef DEVRT_BACKENDS_TENSOR_INLINE_LIST_H_
#define DEVRT_BACKENDS_TENSOR_INLINE_LIST_H_

#include <algorithm>
#include <cstddef>
#include <type_traits>

namespace devrt::tensor {

// Up to kMost items.  A copy copies only the items in use.
template <typename T, size_t kMost>
class InlineList {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  InlineList() = default;
  InlineList(const InlineList& other) { *this = other; }
  InlineList& operator=(const InlineList& other) {
    std::copy_n(other.items_, other.size_, items_);
    size_ = other.size_;
    return *this;
  }

  size_t size() const { return size_; }
  const T& operator[](size_t i) const { return items_[i]; }
  T& operator[](size_t i) { return items_[i]; }
  const T* begin() const { return items_; }
  const T* end() const { return items_ + size_; }
  T* begin() { return items_; }
  T* end() { return items_ + size_; }

  void push_back(T item) { items_[size_++] = item; }
  void assign(size_t count, T item) {
    size_ = count;
    std::fill_n(items_, count, item);
  }
  void assign(const T* first, const T* last) {
    size_ = static_cast<size_t>(last - first);
    std::copy(first, last, items_);
  }

  friend bool operator==(const InlineList& a, const InlineList& b) {
    return a.size_ == b.size_ && std::equal(a.begin(), a.end(), b.begin());
  }
  friend bool operator!=(const InlineList& a, const InlineList& b) {
    return !(a == b);
  }

 private:
  size_t size_ = 0;
  T items_[kMost];
};

}  // namespace devrt::tensor

#endif  // DEVRT_BACKENDS_TENSOR_INLINE_LIST_H_
