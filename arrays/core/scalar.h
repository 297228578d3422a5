// SPDX-License-Identifier: Apache-2.0
//
// Scalar: one number, from the host, for operations on arrays.
//
//   DEVRT_ASSIGN_OR_RETURN(auto sevens,
//                          devrt::Array::Full({3}, devrt::kInt8, 7, gpu));
//   DEVRT_ASSIGN_OR_RETURN(auto more, devrt::Add(a, 0.5));
//
// It keeps what it was given: a bool, an integer of 64 bits with its sign, a
// double or a complex<double>.  With an array it takes part as a Python number
// does in NumPy 2: it is converted to the array's dtype where its kind is not
// above it, else the result has the kind's default dtype (float64, complex128)
// or, where the array is a narrower float, stays with the array's.
//
// Errors: INVALID_ARGUMENT, naming both, where an element would lose more than
// a fraction or precision: an integer beyond the dtype; for integers a float
// beyond it, infinite or NaN; for reals a complex number.  A bool is whether
// the number is not 0.

#ifndef DEVRT_ARRAYS_CORE_SCALAR_H_
#define DEVRT_ARRAYS_CORE_SCALAR_H_

#include <complex>
#include <cstdint>
#include <iosfwd>
#include <string>
#include <type_traits>
#include <variant>

#include "absl/status/statusor.h"
#include "devrt/arrays/dtype.h"
#include "devrt/runtime/export.h"

namespace devrt {

class DEVRT_EXPORT Scalar {
 public:
  // NOLINTNEXTLINE(google-explicit-constructor): a number is a Scalar
  template <typename T, typename = std::enable_if_t<std::is_arithmetic_v<T>>>
  Scalar(T value) {
    if constexpr (std::is_same_v<T, bool>) {
      value_ = value;
    } else if constexpr (std::is_floating_point_v<T>) {
      value_ = static_cast<double>(value);
    } else if constexpr (std::is_signed_v<T>) {
      value_ = static_cast<int64_t>(value);
    } else {
      value_ = static_cast<uint64_t>(value);
    }
  }
  Scalar(std::complex<float> v) : value_(std::complex<double>(v)) {}
  Scalar(std::complex<double> v) : value_(v) {}

  // The kind: kBool, kSigned or kUnsigned, kFloat, kComplex.
  DTypeKind kind() const;

  // An element of `dtype` in the host's byte order, in the first dtype.size()
  // bytes.
  struct Element {
    alignas(16) unsigned char bytes[16] = {};
  };
  absl::StatusOr<Element> As(DType dtype) const;
  // From an element of `dtype`.
  static Scalar FromElement(DType dtype, const void* element);

  // As bool, int64_t, uint64_t, double, std::complex<double>; saturating, NaN
  // is 0 for integers, the imaginary part is dropped for reals.
  template <typename T>
  T Value() const;

  std::string ToString() const;
  DEVRT_EXPORT friend std::ostream& operator<<(std::ostream& os,
                                               const Scalar& value);

 private:
  std::variant<bool, int64_t, uint64_t, double, std::complex<double>> value_;
};

// The dtype that numbers of `kind` have by themselves: bool, int64, uint64,
// float64 or complex128.
DEVRT_EXPORT DType DefaultDType(DTypeKind kind);

// In which dtype an array of `dtype` and a scalar of `kind` are computed.
// INVALID_ARGUMENT: float8.
DEVRT_EXPORT absl::StatusOr<DType> PromoteWithScalar(DType dtype,
                                                     DTypeKind kind);

}  // namespace devrt

#endif  // DEVRT_ARRAYS_CORE_SCALAR_H_
