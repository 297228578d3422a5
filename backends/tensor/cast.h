// SPDX-License-Identifier: Apache-2.0
//
// The conversions of COPY between compute types: Cast<To,
// From>::Convert(value).

#ifndef DEVRT_BACKENDS_TENSOR_CAST_H_
#define DEVRT_BACKENDS_TENSOR_CAST_H_

#include <limits>
#include <type_traits>

#include "backends/tensor/dtype.h"

namespace devrt::tensor {

// A target of Cast: a float that will be narrowed further, rounded to odd.
struct OddFloat {};

// Truncates; saturates a value out of range; NaN becomes 0.  The conversion has
// no branches, so that the compiler can vectorise it.
template <typename To, typename From>
DEVRT_HOST_DEVICE To Saturate(From value) {
  using Limits = std::numeric_limits<To>;
  constexpr From kEnd = static_cast<From>(Limits::max() / 2 + 1) * 2;
  constexpr To kMax = Limits::max();
  constexpr From kMin = static_cast<From>(Limits::min());
  From inside = value > kMin ? value : kMin;
  inside = inside < kEnd ? inside : From{0};
  To result = static_cast<To>(inside);
  result = value >= kEnd ? kMax : result;
  return value != value ? To{0} : result;
}

template <typename To, typename From>
struct Cast {
  DEVRT_HOST_DEVICE static To Convert(From value) {
    if constexpr (kIsComplex<To>) {
      using Part = decltype(To::re);
      if constexpr (kIsComplex<From>) {
        return {static_cast<Part>(value.re), static_cast<Part>(value.im)};
      } else {
        return {static_cast<Part>(value), Part{0}};
      }
    } else if constexpr (std::is_same_v<To, bool>) {
      if constexpr (kIsComplex<From>) {
        return value.re != 0 || value.im != 0;
      } else {
        return value != 0;
      }
    } else if constexpr (kIsComplex<From>) {
      return Cast<To, decltype(From::re)>::Convert(value.re);
    } else if constexpr (std::is_integral_v<To> &&
                         std::is_floating_point_v<From>) {
      return Saturate<To>(value);
    } else {
      return static_cast<To>(value);
    }
  }
};

template <typename From>
struct Cast<OddFloat, From> {
  DEVRT_HOST_DEVICE static float Convert(From value) {
    if constexpr (kIsComplex<From>) {
      return RoundToOdd(value.re);
    } else if constexpr (std::is_integral_v<From>) {
      return RoundToOdd(IntegerToOdd(value));
    } else {
      return RoundToOdd(value);
    }
  }
};

}  // namespace devrt::tensor

#endif  // DEVRT_BACKENDS_TENSOR_CAST_H_
