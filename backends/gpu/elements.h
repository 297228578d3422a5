// SPDX-License-Identifier: Apache-2.0
//
// Elements in memory, as kernels access them: at any alignment, and several at
// once.

#ifndef DEVRT_BACKENDS_GPU_ELEMENTS_H_
#define DEVRT_BACKENDS_GPU_ELEMENTS_H_

#include <cstdint>
#include <type_traits>

#include "backends/tensor/dtype.h"
#include "backends/tensor/host_device.h"

namespace devrt::gpu {

// Volatile, byte by byte: nvcc 13.0 turns a memcpy beside an aligned access of
// one address into an aligned access (seen as a fault on H200).
template <typename T>
DEVRT_HOST_DEVICE T LoadBytes(const void* from) {
  unsigned char bytes[sizeof(T)];
  const auto* const source = static_cast<const volatile unsigned char*>(from);
  for (size_t i = 0; i < sizeof bytes; ++i) bytes[i] = source[i];
  T value;
  CopyBytes(&value, bytes, sizeof value);
  return value;
}

template <typename T>
DEVRT_HOST_DEVICE void StoreBytes(void* to, T value) {
  unsigned char bytes[sizeof(T)];
  CopyBytes(bytes, &value, sizeof bytes);
  auto* const target = static_cast<volatile unsigned char*>(to);
  for (size_t i = 0; i < sizeof bytes; ++i) target[i] = bytes[i];
}

template <typename T>
DEVRT_HOST_DEVICE T LoadElement(const void* from, bool is_aligned) {
  return is_aligned ? *static_cast<const T*>(from) : LoadBytes<T>(from);
}

template <typename T>
DEVRT_HOST_DEVICE void StoreElement(void* to, T value, bool is_aligned) {
  if (is_aligned) {
    *static_cast<T*>(to) = value;
  } else {
    StoreBytes(to, value);
  }
}

// Adjacent elements that are moved at once, aligned to their total size up to
// 16 bytes.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Pack {
  T items[kCount];
};

// The unsigned type, or pair of numbers, with which a T is moved.
template <typename T>
using RawType = std::conditional_t<
    sizeof(T) == 1, uint8_t,
    std::conditional_t<
        sizeof(T) == 2, uint16_t,
        std::conditional_t<sizeof(T) == 4, uint32_t,
                           std::conditional_t<sizeof(T) == 8, uint64_t,
                                              tensor::Complex<double>>>>>;

}  // namespace devrt::gpu

#endif  // DEVRT_BACKENDS_GPU_ELEMENTS_H_
