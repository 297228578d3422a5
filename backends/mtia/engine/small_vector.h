// SPDX-License-Identifier: Apache-2.0
//
// A vector of plain values with room for N in place.  clear() keeps the
// capacity, so that pooled owners stop allocating.

#ifndef DEVRT_BACKENDS_MTIA_ENGINE_SMALL_VECTOR_H_
#define DEVRT_BACKENDS_MTIA_ENGINE_SMALL_VECTOR_H_

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <new>
#include <type_traits>

namespace devrt::mtia {

template <class T, uint32_t N>
class SmallVector {
  static_assert(std::is_trivially_copyable_v<T>, "plain values only");

 public:
  SmallVector() = default;
  SmallVector(const SmallVector&) = delete;
  SmallVector& operator=(const SmallVector&) = delete;
  ~SmallVector() { std::free(heap_); }

  uint32_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  void clear() { size_ = 0; }
  T* begin() { return data(); }
  T* end() { return data() + size_; }
  const T* begin() const { return data(); }
  const T* end() const { return data() + size_; }
  T& operator[](uint32_t i) { return data()[i]; }
  const T& operator[](uint32_t i) const { return data()[i]; }

  void push_back(const T& value) {
    const T copy = value;
    if (size_ == capacity_) Grow();
    data()[size_++] = copy;
  }

 private:
  T* data() { return heap_ != nullptr ? heap_ : inline_; }
  const T* data() const { return heap_ != nullptr ? heap_ : inline_; }

  [[gnu::noinline]] void Grow() {
    const uint32_t capacity = capacity_ * 2;
    void* memory = std::realloc(heap_, capacity * sizeof(T));
    if (memory == nullptr) throw std::bad_alloc();
    if (heap_ == nullptr) std::memcpy(memory, inline_, size_ * sizeof(T));
    heap_ = static_cast<T*>(memory);
    capacity_ = capacity;
  }

  T* heap_ = nullptr;
  uint32_t size_ = 0;
  uint32_t capacity_ = N;
  T inline_[N] = {};
};

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_ENGINE_SMALL_VECTOR_H_
