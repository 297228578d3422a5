// SPDX-License-Identifier: Apache-2.0
//
// The dtypes of devrt_tensor.h as C++ types: the storage type of an element,
// the type that it is computed in, and the conversions between the two.
//
// Narrow floats (16 and 8 bits) are storage types only.  They are computed in
// float, so a value is rounded once per operation, to nearest, ties to even.
// Widen and Narrow have no branches, so that compilers can vectorise them, and
// do not depend on the treatment of float subnormals (FTZ, DAZ).
//
// All backends share this source.  A device compiler also compiles it, except
// for functions for which the device has one instruction.

#ifndef DEVRT_BACKENDS_TENSOR_DTYPE_H_
#define DEVRT_BACKENDS_TENSOR_DTYPE_H_

#include <cstdint>
#include <type_traits>

#include "backends/tensor/host_device.h"
#include "devrt/backends/abi/devrt_tensor.h"

namespace devrt::tensor {

enum class DtypeClass {
  kUnknown,
  kBool,
  kSigned,
  kUnsigned,
  kFloat,
  kFloat8,
  kComplex
};

DtypeClass ClassOf(uint32_t dtype);

// The dtype in which elements of `dtype` are computed: float32 for narrow
// floats, otherwise `dtype`.
uint32_t ComputeDtype(uint32_t dtype);

// The dtype in which elements of `dtype` are copied unchanged: one for each
// size; bool stays bool, because its bytes become 0 or 1.
uint32_t RawDtype(uint32_t dtype);

// ---- storage ----------------------------------------------------------------

struct Bool {
  uint8_t byte;
};
struct Float16 {
  uint16_t bits;
};
struct Bfloat16 {
  uint16_t bits;
};
struct Float8E4m3fn {
  uint8_t bits;
};
struct Float8E5m2 {
  uint8_t bits;
};
// Not std::complex, whose product and quotient follow Annex G of C, not NumPy.
template <typename T>
struct Complex {
  T re;
  T im;
};

template <typename T>
struct Tag {
  using type = T;
};

template <typename T>
inline constexpr bool kIsComplex = false;
template <typename T>
inline constexpr bool kIsComplex<Complex<T>> = true;

template <typename T>
inline constexpr bool kIsNarrowFloat =
    std::is_same_v<T, Float16> || std::is_same_v<T, Bfloat16> ||
    std::is_same_v<T, Float8E4m3fn> || std::is_same_v<T, Float8E5m2>;

// The type in which elements of storage type T are computed.
template <typename T>
using ComputeType =
    std::conditional_t<kIsNarrowFloat<T>, float,
                       std::conditional_t<std::is_same_v<T, Bool>, bool, T>>;

// Calls f(Tag<storage type>{}) for `dtype`; for an unknown dtype returns a
// value-initialised result.
template <typename F>
DEVRT_HOST_DEVICE auto VisitDtype(uint32_t dtype, F&& f)
    -> decltype(f(Tag<float>{})) {
  switch (dtype) {
    case DEVRT_INT8:
      return f(Tag<int8_t>{});
    case DEVRT_INT16:
      return f(Tag<int16_t>{});
    case DEVRT_INT32:
      return f(Tag<int32_t>{});
    case DEVRT_INT64:
      return f(Tag<int64_t>{});
    case DEVRT_UINT8:
      return f(Tag<uint8_t>{});
    case DEVRT_UINT16:
      return f(Tag<uint16_t>{});
    case DEVRT_UINT32:
      return f(Tag<uint32_t>{});
    case DEVRT_UINT64:
      return f(Tag<uint64_t>{});
    case DEVRT_FLOAT16:
      return f(Tag<Float16>{});
    case DEVRT_FLOAT32:
      return f(Tag<float>{});
    case DEVRT_FLOAT64:
      return f(Tag<double>{});
    case DEVRT_BFLOAT16:
      return f(Tag<Bfloat16>{});
    case DEVRT_COMPLEX64:
      return f(Tag<Complex<float>>{});
    case DEVRT_COMPLEX128:
      return f(Tag<Complex<double>>{});
    case DEVRT_BOOL:
      return f(Tag<Bool>{});
    case DEVRT_FLOAT8_E4M3FN:
      return f(Tag<Float8E4m3fn>{});
    case DEVRT_FLOAT8_E5M2:
      return f(Tag<Float8E5m2>{});
    default:
      return {};
  }
}

// ---- Bits -------------------------------------------------------------------

DEVRT_HOST_DEVICE inline uint32_t BitsOf(float value) {
  uint32_t bits;
  CopyBytes(&bits, &value, sizeof bits);
  return bits;
}

DEVRT_HOST_DEVICE inline float FloatOf(uint32_t bits) {
  float value;
  CopyBytes(&value, &bits, sizeof value);
  return value;
}

inline constexpr uint32_t kFloatSign = 0x80000000u;
inline constexpr uint32_t kFloatInf = 0x7f800000u;

// A float format of up to 16 bits, subnormals included.  The caller handles
// infinities and NaN.  All arguments and results are bits without the sign.
template <int kExponentBits, int kMantissaBits>
struct SmallFloat {
  static constexpr uint32_t kBias = (1u << (kExponentBits - 1)) - 1;
  static constexpr uint32_t kShift = 23 - kMantissaBits;
  static constexpr uint32_t kRebias = (127 - kBias) << 23;
  static constexpr uint32_t kMinNormal = (128 - kBias) << 23;
  // A float whose unit in the last place is the format's smallest subnormal.
  static constexpr uint32_t kMagic = (128 - kBias + kShift) << 23;

  // Rounds the bits of a float to this format.
  DEVRT_HOST_DEVICE static uint32_t Round(uint32_t magnitude) {
    const uint32_t odd = (magnitude >> kShift) & 1;
    const uint32_t half = (1u << (kShift - 1)) - 1;
    const uint32_t normal = (magnitude - kRebias + half + odd) >> kShift;
    const uint32_t subnormal =
        BitsOf(FloatOf(magnitude) + FloatOf(kMagic)) - kMagic;
    return magnitude < kMinNormal ? subnormal : normal;
  }

  // The bits of the float with the value of `bits`.
  DEVRT_HOST_DEVICE static uint32_t Expand(uint32_t bits) {
    const uint32_t normal = (bits << kShift) + kRebias;
    const uint32_t subnormal =
        BitsOf(FloatOf(normal + (1u << 23)) - FloatOf(kMinNormal));
    return bits >> kMantissaBits == 0 ? subnormal : normal;
  }
};

using HalfFormat = SmallFloat<5, 10>;
using E4m3Format = SmallFloat<4, 3>;
using E5m2Format = SmallFloat<5, 2>;

// ---- Storage type to compute type -------------------------------------------

template <typename T>
DEVRT_HOST_DEVICE T Widen(T value) {
  return value;
}

DEVRT_HOST_DEVICE inline bool Widen(Bool value) { return value.byte != 0; }

DEVRT_HOST_DEVICE inline float Widen(Float16 value) {
#if defined(__CUDA_ARCH__)
  float exact;
  asm("cvt.f32.f16 %0, %1;" : "=f"(exact) : "h"(value.bits));
  return exact;
#else
  const uint32_t bits = value.bits & 0x7fffu;
  const uint32_t sign = (value.bits & 0x8000u) << 16;
  const uint32_t special = kFloatInf | bits << HalfFormat::kShift;
  return FloatOf(sign | (bits >= 0x7c00u ? special : HalfFormat::Expand(bits)));
#endif
}

DEVRT_HOST_DEVICE inline float Widen(Bfloat16 value) {
  return FloatOf(static_cast<uint32_t>(value.bits) << 16);
}

DEVRT_HOST_DEVICE inline float Widen(Float8E4m3fn value) {
  const uint32_t bits = value.bits & 0x7fu;
  const uint32_t sign = (value.bits & 0x80u) << 24;
  const uint32_t nan = kFloatInf | 0x00400000u;
  return FloatOf(sign | (bits == 0x7fu ? nan : E4m3Format::Expand(bits)));
}

// float8_e5m2 is the upper half of a float16.
DEVRT_HOST_DEVICE inline float Widen(Float8E5m2 value) {
  return Widen(Float16{static_cast<uint16_t>(value.bits << 8)});
}

// ---- Compute type to storage type -------------------------------------------

// The inverse of Widen: exact if the storage type has the value, otherwise the
// nearest value.  A NaN keeps its sign and becomes quiet; 16-bit floats also
// keep the upper bits of a NaN.
template <typename To>
DEVRT_HOST_DEVICE To Narrow(ComputeType<To> value) {
  return value;
}

template <>
DEVRT_HOST_DEVICE inline Bool Narrow<Bool>(bool value) {
  return {static_cast<uint8_t>(value)};
}

// Values from 65520, halfway beyond the largest value, become infinity.
template <>
DEVRT_HOST_DEVICE inline Float16 Narrow<Float16>(float value) {
#if defined(__CUDA_ARCH__)
  Float16 nearest;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(nearest.bits) : "f"(value));
  return nearest;
#else
  const uint32_t magnitude = BitsOf(value) & ~kFloatSign;
  const uint32_t sign = (BitsOf(value) & kFloatSign) >> 16;
  const uint32_t nan = 0x7e00u | (magnitude >> 13 & 0x3ffu);
  uint32_t bits = HalfFormat::Round(magnitude);
  bits = magnitude >= 0x477ff000u ? 0x7c00u : bits;
  bits = magnitude > kFloatInf ? nan : bits;
  return {static_cast<uint16_t>(sign | bits)};
#endif
}

template <>
DEVRT_HOST_DEVICE inline Bfloat16 Narrow<Bfloat16>(float value) {
  const uint32_t all = BitsOf(value);
  const uint32_t rounded = (all + 0x7fffu + (all >> 16 & 1)) >> 16;
  const uint32_t nan = all >> 16 | 0x40u;
  return {
      static_cast<uint16_t>((all & ~kFloatSign) > kFloatInf ? nan : rounded)};
}

// The format has no infinity: values beyond 464, halfway beyond the largest
// value 448, become NaN.
template <>
DEVRT_HOST_DEVICE inline Float8E4m3fn Narrow<Float8E4m3fn>(float value) {
  const uint32_t magnitude = BitsOf(value) & ~kFloatSign;
  const uint32_t sign = (BitsOf(value) & kFloatSign) >> 24;
  const uint32_t bits =
      magnitude > 0x43e80000u ? 0x7fu : E4m3Format::Round(magnitude);
  return {static_cast<uint8_t>(sign | bits)};
}

// Values from 61440, halfway beyond the largest value 57344, become infinity.
template <>
DEVRT_HOST_DEVICE inline Float8E5m2 Narrow<Float8E5m2>(float value) {
  const uint32_t magnitude = BitsOf(value) & ~kFloatSign;
  const uint32_t sign = (BitsOf(value) & kFloatSign) >> 24;
  uint32_t bits = E5m2Format::Round(magnitude);
  bits = magnitude >= 0x47700000u ? 0x7cu : bits;
  bits = magnitude > kFloatInf ? 0x7eu : bits;
  return {static_cast<uint8_t>(sign | bits)};
}

// ---- Rounding to odd --------------------------------------------------------

// `value` itself if it is a float; otherwise the neighbouring float whose last
// bit is odd.  Narrow<> of the result equals rounding `value` once.  Narrow<>
// of the nearest float would round twice.
DEVRT_HOST_DEVICE inline float RoundToOdd(double value) {
  const float nearest = static_cast<float>(value);
  const double back = static_cast<double>(nearest);
  const bool inexact = back < value || back > value;
  const bool away = value < 0 ? back < value : back > value;
  const uint32_t toward_zero = BitsOf(nearest) - static_cast<uint32_t>(away);
  return FloatOf(toward_zero | static_cast<uint32_t>(inexact));
}

// Rounds an integer to odd: a double with its exact value, or odd in bit 11.
template <typename T>
DEVRT_HOST_DEVICE double IntegerToOdd(T value) {
  static_assert(std::is_integral_v<T> && sizeof(T) == 8);
  constexpr T kLow = 0x7ff;
  const T sticky = (value & kLow) == 0 ? T{0} : T{kLow + 1};
  const T odd = static_cast<T>((value & ~kLow) | sticky);
  constexpr T kExact = T{1} << 53;
  bool small = value <= kExact;
  if constexpr (std::is_signed_v<T>) small = small && value >= -kExact;
  return static_cast<double>(small ? value : odd);
}

}  // namespace devrt::tensor

#endif  // DEVRT_BACKENDS_TENSOR_DTYPE_H_
