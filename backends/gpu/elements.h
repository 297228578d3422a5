// SPDX-License-Identifier: Apache-2.0
//
// Elements in memory, for the kernels: at any alignment, and several at once.

#ifndef DEVRT_BACKENDS_GPU_ELEMENTS_H_
#define DEVRT_BACKENDS_GPU_ELEMENTS_H_

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "backends/tensor/dtype.h"
#include "backends/tensor/host_device.h"

namespace devrt::gpu {

template <typename T>
DEVRT_HOST_DEVICE T LoadElement(const void* from, bool is_aligned) {
  T value;
  if (is_aligned) {
    value = *static_cast<const T*>(from);
  } else {
    std::memcpy(&value, from, sizeof value);
  }
  return value;
}

template <typename T>
DEVRT_HOST_DEVICE void StoreElement(void* to, T value, bool is_aligned) {
  if (is_aligned) {
    *static_cast<T*>(to) = value;
  } else {
    std::memcpy(to, &value, sizeof value);
  }
}

// Adjacent elements that are moved at once, aligned to all of them.
template <typename T, int kCount>
struct alignas(sizeof(T) * kCount < 16 ? sizeof(T) * kCount : 16) Pack {
  T items[kCount];
};

// The unsigned type, or pair of numbers, that moves a T.
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
