// SPDX-License-Identifier: Apache-2.0
//
// Conversions between the types that elements are computed in, on buffers.

#ifndef DEVRT_BACKENDS_MTIA_KERNELS_CONVERT_H_
#define DEVRT_BACKENDS_MTIA_KERNELS_CONVERT_H_

#include <cstddef>
#include <cstdint>

namespace devrt::mtia {

using ConvertFn = void (*)(const std::byte* from, size_t n, std::byte* to);

// A conversion of up to two steps; none if the types are equal.
struct Conversion {
  ConvertFn first = nullptr;
  ConvertFn second = nullptr;
};

// From ComputeDtype(from) to ComputeDtype(to), ready to be stored as `to`: a
// float on the way to a narrower one is rounded to odd, so that the store
// rounds correctly.
Conversion FindConversion(uint32_t from, uint32_t to);

}  // namespace devrt::mtia

#endif  // DEVRT_BACKENDS_MTIA_KERNELS_CONVERT_H_
