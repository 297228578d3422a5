// SPDX-License-Identifier: Apache-2.0
//
// The operations on single values.  Each is defined for all operands of every
// type that it takes.

#ifndef DEVRT_BACKENDS_TENSOR_SCALAR_H_
#define DEVRT_BACKENDS_TENSOR_SCALAR_H_

#include <cmath>
#include <cstdint>
#include <type_traits>

#include "backends/tensor/dtype.h"

namespace devrt::tensor {

template <typename T>
inline constexpr bool kIsBool = std::is_same_v<T, bool>;

// The unsigned type for wrapping arithmetic on T.  It has at least 32 bits, so
// that no operand is promoted to a signed type.
template <typename T>
using Wrap = std::conditional_t<
    (sizeof(T) < 4), uint32_t,
    std::make_unsigned_t<std::conditional_t<kIsBool<T>, char, T>>>;

struct Add {
  template <typename T>
  static constexpr bool kTakes = true;
  template <typename T>
  DEVRT_HOST_DEVICE static T Apply(T a, T b) {
    if constexpr (kIsBool<T>) {
      return (a | b) != 0;
    } else if constexpr (kIsComplex<T>) {
      return {a.re + b.re, a.im + b.im};
    } else if constexpr (std::is_integral_v<T>) {
      using W = Wrap<T>;
      return static_cast<T>(static_cast<W>(a) + static_cast<W>(b));
    } else {
      return a + b;
    }
  }
};

struct Subtract {
  template <typename T>
  static constexpr bool kTakes = !kIsBool<T>;
  template <typename T>
  DEVRT_HOST_DEVICE static T Apply(T a, T b) {
    if constexpr (kIsComplex<T>) {
      return {a.re - b.re, a.im - b.im};
    } else if constexpr (std::is_integral_v<T>) {
      using W = Wrap<T>;
      return static_cast<T>(static_cast<W>(a) - static_cast<W>(b));
    } else {
      return a - b;
    }
  }
};

struct Multiply {
  template <typename T>
  static constexpr bool kTakes = true;
  template <typename T>
  DEVRT_HOST_DEVICE static T Apply(T a, T b) {
    if constexpr (kIsBool<T>) {
      return (a & b) != 0;
    } else if constexpr (kIsComplex<T>) {
      return {a.re * b.re - a.im * b.im, a.re * b.im + a.im * b.re};
    } else if constexpr (std::is_integral_v<T>) {
      using W = Wrap<T>;
      return static_cast<T>(static_cast<W>(a) * static_cast<W>(b));
    } else {
      return a * b;
    }
  }
};

struct Divide {
  template <typename T>
  static constexpr bool kTakes = !kIsBool<T>;
  template <typename T>
  DEVRT_HOST_DEVICE static T Apply(T a, T b) {
    if constexpr (kIsComplex<T>) {
      return Smith(a, b);
    } else if constexpr (std::is_integral_v<T>) {
      if (b == 0) return 0;
      if constexpr (std::is_signed_v<T>) {
        if (b == -1) return Subtract::Apply(T{0}, a);
      }
      return static_cast<T>(a / b);
    } else {
      return a / b;
    }
  }

 private:
  // R. L. Smith, Algorithm 116 (1962).  The usual formula squares the parts,
  // which overflows; this one uses the ratio of the parts.
  template <typename T>
  DEVRT_HOST_DEVICE static Complex<T> Smith(Complex<T> a, Complex<T> b) {
    if (std::fabs(b.re) >= std::fabs(b.im)) {
      if (b.re == 0 && b.im == 0) {
        const T zero = std::fabs(b.re);
        return {a.re / zero, a.im / zero};
      }
      const T ratio = b.im / b.re;
      const T scale = T{1} / (b.re + b.im * ratio);
      return {(a.re + a.im * ratio) * scale, (a.im - a.re * ratio) * scale};
    }
    const T ratio = b.re / b.im;
    const T scale = T{1} / (b.im + b.re * ratio);
    return {(a.re * ratio + a.im) * scale, (a.im * ratio - a.re) * scale};
  }
};

struct Equal {
  template <typename T>
  static constexpr bool kTakes = true;
  template <typename T>
  DEVRT_HOST_DEVICE static bool Apply(T a, T b) {
    if constexpr (kIsComplex<T>) {
      return a.re == b.re && a.im == b.im;
    } else {
      return a == b;
    }
  }
};

struct NotEqual {
  template <typename T>
  static constexpr bool kTakes = true;
  template <typename T>
  DEVRT_HOST_DEVICE static bool Apply(T a, T b) {
    return !Equal::Apply(a, b);
  }
};

struct Less {
  template <typename T>
  static constexpr bool kTakes = !kIsComplex<T>;
  template <typename T>
  DEVRT_HOST_DEVICE static bool Apply(T a, T b) {
    return a < b;
  }
};

struct LessEqual {
  template <typename T>
  static constexpr bool kTakes = !kIsComplex<T>;
  template <typename T>
  DEVRT_HOST_DEVICE static bool Apply(T a, T b) {
    return a <= b;
  }
};

// A NaN in either operand is the result: a != a finds a NaN in a, and the
// comparison with a NaN in b is false.
struct Maximum {
  template <typename T>
  static constexpr bool kTakes = !kIsComplex<T>;
  template <typename T>
  DEVRT_HOST_DEVICE static T Apply(T a, T b) {
    return ((a >= b) | (a != a)) ? a : b;
  }
};

struct Minimum {
  template <typename T>
  static constexpr bool kTakes = !kIsComplex<T>;
  template <typename T>
  DEVRT_HOST_DEVICE static T Apply(T a, T b) {
    return ((a <= b) | (a != a)) ? a : b;
  }
};

struct LogicalAnd {
  template <typename T>
  static constexpr bool kTakes = kIsBool<T>;
  template <typename T>
  DEVRT_HOST_DEVICE static bool Apply(T a, T b) {
    return (a & b) != 0;
  }
};

struct LogicalOr {
  template <typename T>
  static constexpr bool kTakes = kIsBool<T>;
  template <typename T>
  DEVRT_HOST_DEVICE static bool Apply(T a, T b) {
    return (a | b) != 0;
  }
};

struct LogicalNot {
  template <typename T>
  static constexpr bool kTakes = true;
  template <typename T>
  DEVRT_HOST_DEVICE static bool Apply(T a) {
    return Equal::Apply(a, T{});
  }
};

struct Negate {
  template <typename T>
  static constexpr bool kTakes = !kIsBool<T>;
  template <typename T>
  DEVRT_HOST_DEVICE static T Apply(T a) {
    if constexpr (kIsComplex<T>) {
      return {-a.re, -a.im};
    } else if constexpr (std::is_integral_v<T>) {
      return Subtract::Apply(T{0}, a);
    } else {
      return -a;
    }
  }
};

struct Absolute {
  template <typename T>
  static constexpr bool kTakes = true;
  template <typename T>
  DEVRT_HOST_DEVICE static auto Apply(T a) {
    if constexpr (kIsComplex<T>) {
      return std::hypot(a.re, a.im);
    } else if constexpr (std::is_floating_point_v<T>) {
      return std::fabs(a);
    } else if constexpr (std::is_signed_v<T>) {
      return a < 0 ? Negate::Apply(a) : a;
    } else {
      return a;
    }
  }
};

}  // namespace devrt::tensor

#endif  // DEVRT_BACKENDS_TENSOR_SCALAR_H_
