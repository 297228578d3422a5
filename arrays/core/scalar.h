// SPDX-License-Identifier: Apache-2.0
//
// Scalar: one number, from the host, for operations on arrays.
//
//   DEVRT_ASSIGN_OR_RETURN(auto sevens,
//                          devrt::Array::Full({3}, devrt::kInt8, 7, gpu));
//   DEVRT_ASSIGN_OR_RETURN(auto more, devrt::Add(a, 0.5));
//
// A Scalar keeps the number as a bool, an integer of 64 bits with or without
// sign, a double or a complex<double>.
//
// In an operation with an array it acts as a Python number does in NumPy 2: if
// its kind (bool, integer, float, complex) is not above the array's, it is
// converted to the array's dtype.  Otherwise the result has the default dtype
// of the number's kind: int64, float64, complex128.  A complex number with an
// array of floats below float64 gives complex64.
//
// Errors: INVALID_ARGUMENT, with number and dtype, if an element would lose
// more than a fraction or precision: an integer beyond the dtype; a float that
// is beyond an integer dtype, infinite or NaN; a complex number for a real
// dtype.  As a bool every number but 0 is true.

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

// A number.
class DEVRT_EXPORT Scalar {
 public:
  // From a number of any type of C++:
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

  // One of kBool, kSigned, kUnsigned, kFloat and kComplex.
  DTypeKind kind() const;

  // An element in the host's byte order, in the first dtype.size() bytes.
  struct Element {
    alignas(16) unsigned char bytes[16] = {};
  };
  // The number as an element of `dtype`; errors as at the top.
  absl::StatusOr<Element> As(DType dtype) const;
  // The value of an element of `dtype`.
  static Scalar FromElement(DType dtype, const void* element);

  // The number as a bool, int64_t, uint64_t, double or std::complex<double>.
  // Integers saturate and turn NaN into 0; reals drop the imaginary part.
  template <typename T>
  T Value() const;

  // The number as text.
  std::string ToString() const;
  // Writes ToString().
  DEVRT_EXPORT friend std::ostream& operator<<(std::ostream& os,
                                               const Scalar& value);

 private:
  std::variant<bool, int64_t, uint64_t, double, std::complex<double>> value_;
};

// The dtype of a number of `kind` without an array: bool, int64, uint64,
// float64 or complex128.
DEVRT_EXPORT DType DefaultDType(DTypeKind kind);

// The dtype in which an array of `dtype` and a scalar of `kind` are computed.
// INVALID_ARGUMENT: float8.
DEVRT_EXPORT absl::StatusOr<DType> PromoteWithScalar(DType dtype,
                                                     DTypeKind kind);

}  // namespace devrt

#endif  // DEVRT_ARRAYS_CORE_SCALAR_H_
