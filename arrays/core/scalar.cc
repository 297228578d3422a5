// SPDX-License-Identifier: Apache-2.0
#include "devrt/arrays/scalar.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <ostream>

#include "absl/strings/str_cat.h"
#include "arrays/core/digits.h"
#include "backends/tensor/cast.h"
#include "backends/tensor/dtype.h"

namespace devrt {
namespace {

using Complex = tensor::Complex<double>;

// The C++ types that the conversions of devrt_tensor.h take.
int64_t ToTensor(bool v) { return v ? 1 : 0; }
int64_t ToTensor(int64_t v) { return v; }
uint64_t ToTensor(uint64_t v) { return v; }
double ToTensor(double v) { return v; }
Complex ToTensor(std::complex<double> v) { return {v.real(), v.imag()}; }

template <typename Stored, typename From>
Stored Convert(From value) {
  using To = std::conditional_t<tensor::kIsNarrowFloat<Stored>,
                                tensor::OddFloat, tensor::ComputeType<Stored>>;
  return tensor::Narrow<Stored>(tensor::Cast<To, From>::Convert(value));
}

template <typename To, typename From>
To SaturateInteger(From value) {
  if constexpr (std::is_signed_v<From> && !std::is_signed_v<To>) {
    return value < 0 ? 0 : static_cast<To>(value);
  } else if constexpr (!std::is_signed_v<From> && std::is_signed_v<To>) {
    constexpr To kMax = std::numeric_limits<To>::max();
    return value > static_cast<From>(kMax) ? kMax : static_cast<To>(value);
  } else {
    return static_cast<To>(value);
  }
}

template <typename To, typename From>
To ValueAs(From value) {
  if constexpr (std::is_same_v<To, std::complex<double>>) {
    const Complex both = tensor::Cast<Complex, From>::Convert(value);
    return {both.re, both.im};
  } else if constexpr (std::is_integral_v<From> && sizeof(To) == 8 &&
                       std::is_integral_v<To>) {
    return SaturateInteger<To>(value);
  } else {
    return tensor::Cast<To, From>::Convert(value);
  }
}

template <typename Stored>
bool Holds(int64_t value) {
  using Limits = std::numeric_limits<Stored>;
  if constexpr (std::is_signed_v<Stored>) {
    return value >= Limits::min() && value <= Limits::max();
  }
  return value >= 0 && static_cast<uint64_t>(value) <= Limits::max();
}

template <typename Stored>
bool Holds(uint64_t value) {
  return value <= static_cast<uint64_t>(std::numeric_limits<Stored>::max());
}

// Rounds toward zero.  False for NaN.
template <typename Stored>
bool Holds(double value) {
  using Limits = std::numeric_limits<Stored>;
  const double whole = std::trunc(value);
  return whole < std::ldexp(1.0, Limits::digits) &&
         whole >= static_cast<double>(Limits::min());
}

// Returns true if an element loses at most a fraction or precision of the
// value.
template <typename Stored, typename From>
bool Has(From value) {
  if constexpr (std::is_integral_v<Stored> && std::is_arithmetic_v<From>) {
    return Holds<Stored>(value);
  }
  return true;
}

Scalar FromTensor(bool v) { return v; }
Scalar FromTensor(Complex v) { return std::complex<double>(v.re, v.im); }
Scalar FromTensor(tensor::Complex<float> v) {
  return std::complex<float>(v.re, v.im);
}
template <typename T>
Scalar FromTensor(T v) {
  return v;
}

absl::Status CannotHold(DType dtype, const Scalar& value) {
  const bool is_float = value.kind() == DTypeKind::kFloat;
  return absl::InvalidArgumentError(
      absl::StrCat(dtype.name(), " cannot hold the ",
                   is_float ? "number " : "integer ", value.ToString(),
                   ": use a ", is_float ? "dtype of floats" : "wider dtype",
                   ", or a value in its range"));
}

absl::Status CannotHoldComplex(DType dtype, const Scalar& value) {
  return absl::InvalidArgumentError(absl::StrCat(
      dtype.name(), " cannot hold the complex number ", value.ToString(),
      ": use its real part, or a complex dtype"));
}

}  // namespace

DTypeKind Scalar::kind() const {
  constexpr DTypeKind kKinds[] = {DTypeKind::kBool, DTypeKind::kSigned,
                                  DTypeKind::kUnsigned, DTypeKind::kFloat,
                                  DTypeKind::kComplex};
  return kKinds[value_.index()];
}

absl::StatusOr<Scalar::Element> Scalar::As(DType dtype) const {
  if (kind() == DTypeKind::kComplex && !dtype.is_complex() && dtype != kBool) {
    return CannotHoldComplex(dtype, *this);
  }
  Element element;
  const bool held =
      std::visit(
          [&](auto value) {
            const auto from = ToTensor(value);
            return tensor::VisitDtype(dtype.code(), [&](auto tag) {
              using Stored = typename decltype(tag)::type;
              if (!Has<Stored>(from)) return 0.0f;
              const Stored stored = Convert<Stored>(from);
              std::memcpy(element.bytes, &stored, sizeof stored);
              return 1.0f;
            });
          },
          value_) != 0;
  if (!held) return CannotHold(dtype, *this);
  return element;
}

Scalar Scalar::FromElement(DType dtype, const void* element) {
  Scalar result(false);
  tensor::VisitDtype(dtype.code(), [&](auto tag) {
    typename decltype(tag)::type stored;
    std::memcpy(&stored, element, sizeof stored);
    result = FromTensor(tensor::Widen(stored));
    return 0.0f;
  });
  return result;
}

template <typename T>
T Scalar::Value() const {
  return std::visit([](auto value) { return ValueAs<T>(ToTensor(value)); },
                    value_);
}

template DEVRT_EXPORT bool Scalar::Value<bool>() const;
template DEVRT_EXPORT int64_t Scalar::Value<int64_t>() const;
template DEVRT_EXPORT uint64_t Scalar::Value<uint64_t>() const;
template DEVRT_EXPORT double Scalar::Value<double>() const;
template DEVRT_EXPORT std::complex<double> Scalar::Value<std::complex<double>>()
    const;

std::ostream& operator<<(std::ostream& os, const Scalar& value) {
  return os << value.ToString();
}

std::string Scalar::ToString() const {
  switch (kind()) {
    case DTypeKind::kBool:
      return std::get<bool>(value_) ? "True" : "False";
    case DTypeKind::kSigned:
      return absl::StrCat(std::get<int64_t>(value_));
    case DTypeKind::kUnsigned:
      return absl::StrCat(std::get<uint64_t>(value_));
    case DTypeKind::kFloat:
    case DTypeKind::kFloat8:
      return internal::FloatText(std::get<double>(value_));
    case DTypeKind::kComplex:
      break;
  }
  const auto value = std::get<std::complex<double>>(value_);
  const std::string imaginary = internal::FloatText(value.imag());
  return absl::StrCat("(", internal::FloatText(value.real()),
                      imaginary[0] == '-' ? "" : "+", imaginary, "j)");
}

DType DefaultDType(DTypeKind kind) {
  switch (kind) {
    case DTypeKind::kBool:
      return kBool;
    case DTypeKind::kSigned:
      return kInt64;
    case DTypeKind::kUnsigned:
      return kUInt64;
    case DTypeKind::kComplex:
      return kComplex128;
    case DTypeKind::kFloat:
    case DTypeKind::kFloat8:
      break;
  }
  return kFloat64;
}

absl::StatusOr<DType> PromoteWithScalar(DType dtype, DTypeKind kind) {
  const DTypeKind own = dtype.kind();
  if (own == DTypeKind::kFloat8 || kind == DTypeKind::kFloat8) {
    return absl::InvalidArgumentError(
        absl::StrCat(dtype.name(),
                     " is storage and has no arithmetic, here with a number: "
                     "Cast it to float32 first"));
  }
  switch (kind) {
    case DTypeKind::kBool:
    case DTypeKind::kFloat8:
      return dtype;
    case DTypeKind::kSigned:
    case DTypeKind::kUnsigned:
      return own == DTypeKind::kBool ? kInt64 : dtype;
    case DTypeKind::kFloat:
      return own == DTypeKind::kBool || dtype.is_integer() ? kFloat64 : dtype;
    case DTypeKind::kComplex:
      break;
  }
  if (dtype.is_complex()) return dtype;
  const bool narrow = own == DTypeKind::kFloat && dtype != kFloat64;
  return narrow ? kComplex64 : kComplex128;
}

}  // namespace devrt
